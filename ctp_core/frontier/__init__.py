"""Goal-conditioned propagation: from an entity of the question, step by step, to what looks most promising for it."""
