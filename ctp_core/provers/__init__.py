"""The search: exact (the paper's recursion on tables) and tabled."""
