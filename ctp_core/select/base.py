"""What every `select` does: vectors of goals in, rules out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ctp_core.kernels import ExponentialKernel
from ctp_core.rules import Template
from ctp_core.shapes import Attention, Bodies, Float, Heads, PredicateVectors, Vectors
from ctp_core.tnorm import TNorm


@dataclass(frozen=True)
class Expansion:
    """The rules that all reformulators of one template make for some goals.

    `goal` is 1 in `bodies` where they do not depend on the goal. `heads` is the unification of goal and head, None
    where the head is the goal itself; `gates` is how much the rule is believed, None for rules without a gate.
    """

    template: Template
    bodies: Bodies
    heads: Heads | None = None
    gates: Heads | None = None

    def guard(self, tnorm: TNorm) -> Heads | None:
        """⊗ of head and gate: what every proof by these rules carries besides its body."""
        parts = [part for part in (self.heads, self.gates) if part is not None]
        return tnorm.product(parts) if parts else None

    @classmethod
    def joined(cls, parts: Sequence["Expansion"]) -> "Expansion":
        """That of all goals from those of some; the first has more than one goal where there are several parts."""
        first, *others = parts
        if not others:
            return first
        bodies = first.bodies if first.static else torch.cat([part.bodies for part in parts])
        heads = None if first.heads is None else torch.cat([part.heads for part in parts if part.heads is not None])
        gates = None if first.gates is None else torch.cat([part.gates for part in parts if part.gates is not None])
        return cls(first.template, bodies, heads, gates)

    @property
    def static(self) -> bool:
        return self.bodies.shape[0] == 1


@dataclass(frozen=True)
class SelectOptions:
    """What a `select` is built from."""

    templates: tuple[Template, ...]
    dim: int
    num_predicates: int
    kernel: ExponentialKernel
    head: bool = False  # f_H: generate the head as well and unify it with the goal
    gate: bool = False  # a learnt weight in (0, 1) per rule: sigmoid of a linear map of the goal
    memory: int = 32  # rules stored, for `memory`
    memory_start: float = 1.0  # their deviation before training
    top_k: int = 4  # rules tried per goal, for GNTP


def group(templates: Sequence[Template]) -> dict[Template, int]:
    """How many reformulators each template has, in order of appearance; facts-only `0` makes no rule."""
    counts: dict[Template, int] = {}
    for template in templates:
        if template.length:
            counts[template] = counts.get(template, 0) + 1
    return counts


def uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> nn.Parameter:
    values = torch.empty(shape, device=generator.device)
    return nn.Parameter(values.uniform_(-bound, bound, generator=generator))


def normal(shape: tuple[int, ...], generator: torch.Generator, deviation: float = 1.0) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, device=generator.device).normal_(std=deviation, generator=generator))


class Select(nn.Module, ABC):
    """Base of all variants. Subclasses make one Expansion for each template in `groups`."""

    def __init__(self, options: SelectOptions, generator: torch.Generator) -> None:
        super().__init__()
        self.options = options
        self.groups = group(options.templates)
        self.gates = nn.ParameterDict()
        self.gate_biases = nn.ParameterDict()
        if options.gate:
            bound = options.dim**-0.5  # torch's default for a linear map
            for template, count in self.groups.items():
                self.gates[str(template)] = uniform((count, options.dim), bound, generator)
                self.gate_biases[str(template)] = uniform((count,), bound, generator)

    @abstractmethod
    def expand(self, template: Template, goals: Vectors, predicates: PredicateVectors) -> tuple[Bodies, Heads | None]:
        """Bodies, and the unification of goal and head where the variant makes heads."""

    def forward(self, goals: Vectors, predicates: PredicateVectors) -> tuple[Expansion, ...]:
        expansions = []
        for template in self.groups:
            bodies, heads = self.expand(template, goals, predicates)
            expansions.append(Expansion(template, bodies, heads, self._gates(template, goals)))
        return tuple(expansions)

    def attention(self, template: Template, goals: Vectors) -> Attention | None:
        """The distribution over known predicates at each body place, where the variant has one."""
        del template, goals
        return None

    def _gates(self, template: Template, goals: Vectors) -> Heads | None:
        if not self.options.gate:
            return None
        return torch.sigmoid(goals @ self.gates[str(template)].T + self.gate_biases[str(template)])

    def _unify_heads(self, goals: Vectors, heads: Float[Tensor, "goal reformulator dim"]) -> Heads:
        return self.options.kernel.elementwise(goals[:, None].expand_as(heads), heads)
