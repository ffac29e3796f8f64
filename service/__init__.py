"""The REST service, its command line and its client. Never imports `worker` or torch."""
