"""Unifies an atom with a fact: joins the squared distances of subject, predicate and object.

`concat` is one kernel over the three concatenated vectors (squared distances add); `per_symbol` is the minimum of
three kernels (Algorithm 1), which is the kernel of the largest distance. With crisp entities the two outer distances
are 0 or ∞, and both are the kernel of the predicates alone.

`ProofDistances` has its gradient written out: on a small KB the number of operations decides the time of a step, and
autograd would add most of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from ctp_core.tnorm.base import DistanceTimes

# √ has an infinite slope at 0. For float32 vectors of ordinary size, a smaller squared distance means equality.
SQUARED_FLOOR = 1e-12

Join = Callable[[Tensor, Tensor, Tensor], Tensor]


def concat(predicate: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
    return predicate + subject + object_


def per_symbol(predicate: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
    return torch.maximum(torch.maximum(predicate, subject), object_)


UNIFICATIONS: dict[str, Join] = {"concat": concat, "per_symbol": per_symbol}


def distance(unification: str, predicate: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
    """The distance of an atom and a fact; the arguments are squared distances that broadcast."""
    return UNIFICATIONS[unification](predicate, subject, object_).clamp(min=SQUARED_FLOOR).sqrt()


@dataclass(frozen=True)
class Unifications:
    """The ids of each unified atom and fact.

    `vectors` are rows of the atoms' vectors, `predicates` those of the facts. `taken` lists the atoms' subjects, then
    their objects; `own` those of the facts. `cells` is the place of each atom in a table [place, proof] of `shape`.
    """

    vectors: Int[Tensor, " atom"]
    predicates: Int[Tensor, " atom"]
    taken: Int[Tensor, " 2·atom"]
    own: Int[Tensor, " 2·atom"]
    cells: Int[Tensor, " atom"]
    shape: tuple[int, int]


class ProofDistances(torch.autograd.Function):
    """The distance of each proof: ⊗ of its atoms and heads; a missing atom or head counts 0, the one of ⊗."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Float[Tensor, "row dim"],
        predicates: Float[Tensor, "predicate dim"],
        entities: Float[Tensor, "entity dim"],
        heads: Float[Tensor, " proof"] | None,
        atoms: Unifications,
        semantics: tuple[str, DistanceTimes],
    ) -> Float[Tensor, " proof"]:
        gaps = torch.cat([vectors.index_select(0, atoms.vectors), entities.index_select(0, atoms.taken)])
        gaps -= torch.cat([predicates.index_select(0, atoms.predicates), entities.index_select(0, atoms.own)])
        squared = gaps.square().sum(1).view(3, -1)  # predicate, subject, object
        unification, times = semantics
        total, furthest = (squared.sum(0), None) if unification == "concat" else squared.max(0)
        distances = total.clamp_(min=SQUARED_FLOOR).sqrt()
        table = distances.new_zeros(atoms.shape)  # 0 is ⊗'s one
        table.view(-1)[atoms.cells] = distances
        if heads is not None:
            table[-1] = heads
        found, decisive = times.down(table)
        ctx.atoms, ctx.sizes, ctx.heads = (
            atoms,
            [len(one) for one in (vectors, predicates, entities)],
            heads is not None,
        )
        ctx.save_for_backward(gaps, distances, furthest, decisive)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: Float[Tensor, " proof"]) -> tuple[Tensor | None, ...]:
        gaps, distances, furthest, decisive = ctx.saved_tensors
        atoms, count = ctx.atoms, len(distances)
        table = slopes.expand(atoms.shape) if decisive is None else _only(slopes, decisive, atoms.shape)
        # d√x/dx = 1 / 2√x, which is 0 below the floor, and d|g|²/dg = 2g
        weights = table.reshape(-1)[atoms.cells] / distances * (distances > SQUARED_FLOOR**0.5)
        weights = weights.expand(3, -1) if furthest is None else _only(weights, furthest, (3, count))
        moved = gaps * weights.reshape(-1, 1)
        vectors, predicates, entities = (moved.new_zeros(size, moved.shape[1]) for size in ctx.sizes)
        vectors.index_add_(0, atoms.vectors, moved[:count])
        predicates.index_add_(0, atoms.predicates, moved[:count], alpha=-1)
        entities.index_add_(0, atoms.taken, moved[count:]).index_add_(0, atoms.own, moved[count:], alpha=-1)
        return vectors, predicates, entities, table[-1] if ctx.heads else None, None, None


def _only(values: Tensor, row: Int[Tensor, " column"], shape: tuple[int, int]) -> Float[Tensor, "row column"]:
    """Puts each value into its row, 0 elsewhere."""
    return values.new_zeros(shape).scatter_(0, row[None], values[None])


# Arguments: vectors, predicates, entities, heads, atoms, (unification, ⊗ of distances).
proof_distances: Callable[..., Float[Tensor, " proof"]] = ProofDistances.apply
