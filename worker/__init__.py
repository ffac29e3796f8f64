"""The Celery workers that train and serve models."""
