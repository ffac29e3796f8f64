"""The file formats of facts and graphs: one module for each."""
