"""One-vs-all losses over the logits of every pair of entities of a predicate."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

FORGIVENESS = 0.5  # of pairs that are not stated, by cross-validation on Nations: docs/lab/links.md

Loss = Callable[[Float[Tensor, "goal entity entity"], Float[Tensor, "goal entity entity"]], Float[Tensor, ""]]


def binary(
    logits: Float[Tensor, "goal entity entity"], facts: Float[Tensor, "goal entity entity"]
) -> Float[Tensor, ""]:
    """Cross-entropy of every pair on its own: calibrated, but most of its weight lies on easy pairs."""
    return functional.binary_cross_entropy_with_logits(logits, facts, reduction="sum")


def open_world(
    logits: Float[Tensor, "goal entity entity"], facts: Float[Tensor, "goal entity entity"]
) -> Float[Tensor, ""]:
    """Cross-entropy of the facts; of every other pair (1 - (1 - score)^q) / q, q = FORGIVENESS.

    That is its cross-entropy for q = 0 and its score for q = 1 (Zhang & Sabuncu 2018). A pair that all evidence
    speaks for is probably a fact that nobody stated, and its gradient ends there instead of growing.
    """
    stated = functional.softplus(-logits)
    unstated = -torch.expm1(-FORGIVENESS * functional.softplus(logits)) / FORGIVENESS
    return torch.where(facts.bool(), stated, unstated).sum()


def softmax(
    logits: Float[Tensor, "goal entity entity"], facts: Float[Tensor, "goal entity entity"]
) -> Float[Tensor, ""]:
    """-log of the chance of the true object among all objects that are not also true, and likewise for subjects."""
    false = logits.masked_fill(facts.bool(), -torch.inf)
    loss = logits.new_zeros(())
    for entities in (2, 1):
        rivals = torch.logsumexp(false, entities, keepdim=True).clamp(min=torch.finfo(logits.dtype).min)
        loss = loss + (functional.softplus(rivals - logits) * facts).sum()
    return loss


LOSSES: dict[str, Loss] = {"binary": binary, "softmax": softmax, "open_world": open_world}
