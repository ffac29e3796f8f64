"""All parts of the service as processes of one machine."""
