"""The paper's prover on one KB of facts: predicates and entities are soft."""
