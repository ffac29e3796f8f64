"""The formats in which facts and graphs come: one file for each."""
