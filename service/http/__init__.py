"""What stands before and around a route: bodies, limits, problems, pages, OpenAPI."""
