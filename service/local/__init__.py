"""Runs all parts of the service as processes of one machine."""
