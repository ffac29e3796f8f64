"""Predictions in bulk: every missing fact that a model believes, as jobs with a file to download."""
