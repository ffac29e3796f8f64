"""Conditional Theorem Provers: the mathematics and the data, with no web, database or queue."""

__version__ = "0.2.0.dev0"
