"""Memory: f_i(x) = α M_i, α = softmax(W x): rules kept in a memory that goals attend to (equation 8)."""

import torch
from torch import Tensor, nn

from ctp_core.rules import Template
from ctp_core.select.base import Select, SelectOptions, normal, uniform
from ctp_core.shapes import Bodies, Float, Heads, PredicateVectors, Vectors

# With torch's default for a linear map, attention over many rules starts almost uniform, and every body starts as their
# mean, far from all predicates. Five times the default lets each goal begin with a few rules of its own.
SHARPNESS = 5.0


class MemorySelect(Select):
    """One attention per reformulator, shared by all body places; one memory for all reformulators of equal length."""

    def __init__(self, options: SelectOptions, generator: torch.Generator) -> None:
        super().__init__(options, generator)
        self.weights, self.memories = nn.ParameterDict(), nn.ParameterDict()
        bound = SHARPNESS * options.dim**-0.5
        for template, count in self.groups.items():
            self.weights[str(template)] = uniform((options.dim, count * options.memory), bound, generator)
            places = template.length + options.head
            if str(template.length) not in self.memories:
                # The deviation is never zero, which would make all rules of the memory equal.
                rules = normal((options.memory, places * options.dim), generator, options.memory_start)
                self.memories[str(template.length)] = rules

    def expand(self, template: Template, goals: Vectors, predicates: PredicateVectors) -> tuple[Bodies, Heads | None]:
        del predicates
        flat = self.rule_attention(template, goals) @ self.memories[str(template.length)]
        vectors = flat.view(*flat.shape[:2], -1, self.options.dim)  # [goal, reformulator, atom(+1), dim]
        bodies = vectors[:, :, : template.length]
        return bodies, self._unify_heads(goals, vectors[:, :, -1]) if self.options.head else None

    def rule_attention(self, template: Template, goals: Vectors) -> Float[Tensor, "goal reformulator rule"]:
        scores: Tensor = goals @ self.weights[str(template)]
        return scores.view(-1, self.groups[template], self.options.memory).softmax(dim=-1)

    def stored(self, template: Template) -> Float[Tensor, "rule atom dim"]:
        """The body vectors of every rule in the memory."""
        memory: Tensor = self.memories[str(template.length)].view(self.options.memory, -1, self.options.dim)
        return memory[:, : template.length]
