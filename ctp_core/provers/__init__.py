"""The search: exact (the paper's recursion on tables) and tabled, on charts of the pairs that a graph connects."""
