"""Attentive: f_i(x) = softmax(W_i x) · E_R, a distribution over known predicates (equation 7)."""

import torch
from torch import Tensor, nn

from ctp_core.rules import Template
from ctp_core.select.base import Select, SelectOptions, uniform
from ctp_core.shapes import Attention, Bodies, Float, Heads, PredicateVectors, Vectors


class AttentiveSelect(Select):
    """One attention per reformulator and body place; with `head`, one more for f_H."""

    attends = True

    def __init__(self, options: SelectOptions, generator: torch.Generator) -> None:
        super().__init__(options, generator)
        self.weights = nn.ParameterDict()
        bound = options.dim**-0.5
        for template, count in self.groups.items():
            maps = template.length + options.head
            self.weights[str(template)] = uniform(
                (options.dim, count * maps * options.num_predicates), bound, generator
            )

    def expand(self, template: Template, goals: Vectors, predicates: PredicateVectors) -> tuple[Bodies, Heads | None]:
        vectors = self._distributions(template, goals) @ predicates  # [goal, reformulator, atom(+1), dim]
        bodies = vectors[:, :, : template.length]
        return bodies, self._unify_heads(goals, vectors[:, :, -1]) if self.options.head else None

    def attention(self, template: Template, goals: Vectors) -> Attention | None:
        return self._distributions(template, goals)[:, :, : template.length]

    def _distributions(self, template: Template, goals: Vectors) -> Float[Tensor, "goal reformulator places predicate"]:
        scores: Tensor = goals @ self.weights[str(template)]
        return scores.view(len(goals), self.groups[template], -1, self.options.num_predicates).softmax(dim=-1)
