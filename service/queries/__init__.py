"""Queries: sends questions to the query workers in batches, and returns their answers."""
