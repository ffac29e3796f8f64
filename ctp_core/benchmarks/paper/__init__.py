"""The paper's tables, run again: cells, the file that keeps them, and the report."""
