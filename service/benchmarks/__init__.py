"""Measures how fast the service answers (`ctp bench serve`) and how it scales (`ctp bench scale`)."""
