"""Measures how the service answers (`ctp bench serve`), scales (`ctp bench scale`) and is fair (`ctp bench fair`)."""
