"""Evaluations: the figures of a model on a split of a KB, as jobs."""
