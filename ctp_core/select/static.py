"""NTP (Rocktäschel & Riedel 2017): fixed learnt rules; every head is unified with the goal, all rules are tried."""

import torch
from torch import nn

from ctp_core.rules import Template
from ctp_core.select.base import Select, SelectOptions, normal
from ctp_core.shapes import Bodies, Heads, PredicateVectors, Vectors

# Standard deviation of rules before training; predicates start with 1. Near zero, a rule is nearer to every predicate
# than predicates are to each other, so that a goal without a rule of its own finds one that no goal has taken. At
# exactly zero, all rules would be equal, get equal gradients and stay equal.
START = 0.01


class StaticSelect(Select):
    """One rule per reformulator: a head vector and body vectors that do not depend on the goal."""

    def __init__(self, options: SelectOptions, generator: torch.Generator) -> None:
        super().__init__(options, generator)
        self.heads, self.bodies = nn.ParameterDict(), nn.ParameterDict()
        for template, count in self.groups.items():
            self.heads[str(template)] = normal((count, options.dim), generator, START)
            self.bodies[str(template)] = normal((count, template.length, options.dim), generator, START)

    def expand(self, template: Template, goals: Vectors, predicates: PredicateVectors) -> tuple[Bodies, Heads | None]:
        del predicates
        heads = self.options.kernel.pairwise(goals, self.heads[str(template)])
        return self.bodies[str(template)][None], heads
