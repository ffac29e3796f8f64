"""Networks that label graphs without proofs: one file for each family."""
