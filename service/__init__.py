"""The REST service and its command line. Never imports `worker` or torch."""
