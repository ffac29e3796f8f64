"""Keys: who calls, for which tenant, and what the key may do."""
