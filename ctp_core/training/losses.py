"""One-vs-all losses over the logits of every pair of entities of a predicate."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

Loss = Callable[[Float[Tensor, "goal entity entity"], Float[Tensor, "goal entity entity"]], Float[Tensor, ""]]


def binary(
    logits: Float[Tensor, "goal entity entity"], facts: Float[Tensor, "goal entity entity"]
) -> Float[Tensor, ""]:
    """Cross-entropy of every pair on its own: calibrated, but most of its weight lies on easy pairs."""
    return functional.binary_cross_entropy_with_logits(logits, facts, reduction="sum")


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


LOSSES: dict[str, Loss] = {"binary": binary, "softmax": softmax}
