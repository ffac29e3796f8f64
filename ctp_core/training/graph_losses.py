"""Losses on graphs, whose labels are distributions over the targets: weighted means over graphs."""

from ctp_core.shapes import Float, Tensor

# Added to a score before its logarithm: a score of 0 keeps a finite loss, and one far below it keeps its slope, which
# a clamp would take away. A prover starts with scores of a product of several kernels, and so far below 1e-6.
SCORE_FLOOR = 1e-6

Scores = Float[Tensor, "graph target"]
Weights = Float[Tensor, " graph"]


def of_each_target(scores: Scores, labels: Scores, weights: Weights) -> Float[Tensor, ""]:
    """Binary cross-entropy of every target for itself, summed over targets."""
    losses = -(labels * (scores + SCORE_FLOOR).log() + (1 - labels) * (1 - scores + SCORE_FLOOR).log())
    return (losses.sum(dim=1) * weights).mean()


def among_targets(logarithms: Scores, labels: Scores, weights: Weights) -> Float[Tensor, ""]:
    """Cross-entropy of the label among all targets, from the logarithms of their chances."""
    return -((labels * logarithms).sum(dim=1) * weights).mean()
