"""Proofs that add up (public methods `proofs` and `rules`): every proof adds its share to the logit of a fact."""
