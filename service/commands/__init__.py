"""The commands of `ctp`, one file for each group."""
