"""Questions: from the call to the query workers and back, in batches."""
