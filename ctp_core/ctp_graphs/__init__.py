"""The paper's prover on many small graphs: entities are exact, predicates are soft."""
