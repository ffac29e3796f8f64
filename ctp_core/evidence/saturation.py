"""The sum of saturated evidence over reformulators, with its gradient written out: most of what training costs."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor


class SaturatedEvidence(torch.autograd.Function):
    """Σ_g strength_g · h(c_g) with h(c) = c / (half + c), c_g without what a fact says of itself.

    The gradient in c is strength · (1 - h)² / half: only h is kept, and half of the passes over it are saved.
    """

    @staticmethod
    def forward(
        ctx: Any,
        counts: Float[Tensor, "goal reformulator entity entity"],
        strength: Float[Tensor, "goal reformulator"],
        half: float,
        own_counts: Float[Tensor, "fact reformulator"],
        goal: Int[Tensor, " fact"],
        subject: Int[Tensor, " fact"],
        object_: Int[Tensor, " fact"],
    ) -> Float[Tensor, "goal entity entity"]:
        cells = _cells(counts.shape[1], goal, subject, object_)
        others = counts[cells] - own_counts
        saturated = counts + half
        torch.div(counts, saturated, out=saturated)
        kept = others.clamp(min=0)  # a difference of equal sums may be -1e-8
        saturated[cells] = kept / (half + kept)
        ctx.half = half
        ctx.save_for_backward(saturated, strength, others > 0, goal, subject, object_)
        total = torch.bmm(strength[:, None], saturated.flatten(2))  # [goal, 1, entity · entity]
        return total.view(len(strength), *counts.shape[2:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saturated, strength, positive, goal, subject, object_ = ctx.saved_tensors
        gradient = gradients[0]
        of_strength = torch.bmm(saturated.flatten(2), gradient.flatten(1)[:, :, None])[..., 0]
        of_counts = 1 - saturated
        of_counts.square_().mul_(gradient[:, None]).mul_(strength[:, :, None, None] / ctx.half)
        cells = _cells(strength.shape[1], goal, subject, object_)
        at_cells = of_counts[cells] * positive
        of_counts[cells] = at_cells
        return of_counts, of_strength, None, -at_cells, None, None, None


def _cells(reformulators: int, goal: Tensor, subject: Tensor, object_: Tensor) -> tuple[Tensor, ...]:
    """Index of [fact, reformulator] in a table [goal, reformulator, entity, entity]; cells are distinct."""
    every = torch.arange(reformulators, device=goal.device)[None, :]
    return goal[:, None], every, subject[:, None], object_[:, None]
