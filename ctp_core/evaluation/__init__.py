"""Metrics: one file each."""
