"""The benchmarks that `ctp bench` runs: one file for each table of results."""
