"""Neural networks that label pairs of entities in a graph, without proofs."""
