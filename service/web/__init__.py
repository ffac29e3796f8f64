"""The web page at `/` and the API reference at `/docs`: static files and their headers."""
