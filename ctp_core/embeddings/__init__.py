"""ComplEx and DistMult: accurate link prediction without proofs."""
