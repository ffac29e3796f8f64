"""Everything HTTP that routes share: bodies, limits, problems, pages, OpenAPI."""
