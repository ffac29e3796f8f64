"""What can be trained: one entry for each method and kind of KB."""
