"""GNTP (Minervini et al. 2020): NTP's rules, but only the k whose heads are most similar to the goal are tried."""

from dataclasses import replace

import torch

from ctp_core.select.base import Expansion
from ctp_core.select.static import StaticSelect
from ctp_core.shapes import PredicateVectors, Vectors


class GreedySelect(StaticSelect):
    """Keeps the k best heads of each goal, over all templates. The other heads get 0, which ends their proofs."""

    def forward(self, goals: Vectors, predicates: PredicateVectors) -> tuple[Expansion, ...]:
        expansions = super().forward(goals, predicates)
        heads = [expansion.heads for expansion in expansions if expansion.heads is not None]
        if not heads:
            return expansions
        together = torch.cat(heads, dim=1)  # [goal, reformulator], all templates
        k = min(self.options.top_k, together.shape[1])
        threshold = together.topk(k, dim=1).values[:, -1:]
        return tuple(
            replace(expansion, heads=torch.where(head >= threshold, head, torch.zeros_like(head)))
            for expansion, head in zip(expansions, heads, strict=True)
        )
