"""The paper's tables, run again: cells, the folder that keeps them, and the report."""
