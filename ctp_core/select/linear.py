"""Linear: f_i(x) = W_i x + b_i (equation 6 of the paper)."""

import torch
from torch import nn

from ctp_core.rules import Template
from ctp_core.select.base import Select, SelectOptions, uniform
from ctp_core.shapes import Bodies, Heads, PredicateVectors, Vectors


class LinearSelect(Select):
    """One linear map per reformulator and body place; with `head`, one more for f_H."""

    def __init__(self, options: SelectOptions, generator: torch.Generator) -> None:
        super().__init__(options, generator)
        self.weights, self.biases = nn.ParameterDict(), nn.ParameterDict()
        bound = options.dim**-0.5  # torch's default for a linear map, as in the published runs
        for template, count in self.groups.items():
            maps = template.length + options.head
            self.weights[str(template)] = uniform((options.dim, count * maps * options.dim), bound, generator)
            self.biases[str(template)] = uniform((count * maps * options.dim,), bound, generator)

    def expand(self, template: Template, goals: Vectors, predicates: PredicateVectors) -> tuple[Bodies, Heads | None]:
        del predicates
        flat = torch.addmm(self.biases[str(template)], goals, self.weights[str(template)])
        vectors = flat.view(len(goals), self.groups[template], -1, self.options.dim)
        bodies = vectors[:, :, : template.length]
        return bodies, self._unify_heads(goals, vectors[:, :, -1]) if self.options.head else None
