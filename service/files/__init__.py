"""Stores the files of models and checkpoints, and removes those that nothing needs any more."""
