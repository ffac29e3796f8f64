"""What every `select` does: vectors of goals in, rules out."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from ctp_core.kernels import ExponentialKernel
from ctp_core.rules import Template
from ctp_core.shapes import Attention, Bodies, Float, Heads, PredicateVectors, Vectors
from ctp_core.tnorm.base import TNorm


@dataclass(frozen=True)
class Expansion:
    """The rules that all reformulators of one template make for some goals.

    The axis `goal` of `bodies` has length 1 where bodies do not depend on the goal. `heads` is the unification of goal
    and head, None where the head is the goal itself. `gates` is how much each rule is believed, None for rules without
    a gate.
    """

    template: Template
    bodies: Bodies
    heads: Heads | None = None
    gates: Heads | None = None

    def guard(self, tnorm: TNorm) -> Heads | None:
        """Head ⊗ gate: what every proof by these rules carries besides its body; None where there is neither."""
        parts = [part for part in (self.heads, self.gates) if part is not None]
        return tnorm.product(parts) if parts else None

    @classmethod
    def joined(cls, parts: Sequence["Expansion"]) -> "Expansion":
        """Joins the expansions of several groups of goals; of more than one, the first has more than one goal."""
        first, *others = parts
        if not others:
            return first
        bodies = first.bodies if first.static else torch.cat([part.bodies for part in parts])
        heads = None if first.heads is None else torch.cat([part.heads for part in parts if part.heads is not None])
        gates = None if first.gates is None else torch.cat([part.gates for part in parts if part.gates is not None])
        return cls(first.template, bodies, heads, gates)

    @property
    def static(self) -> bool:
        """Whether the bodies are the same for all goals."""
        return self.bodies.shape[0] == 1


@dataclass(frozen=True)
class SelectOptions:
    """The sizes and settings from which a `select` is built."""

    templates: tuple[Template, ...]
    dim: int
    num_predicates: int
    kernel: ExponentialKernel
    head: bool = False  # f_H: generate the head as well and unify it with the goal
    gate: bool = False  # a learnt weight in (0, 1) per rule: sigmoid of a linear map of the goal
    memory: int = 32  # rules stored, for `memory`
    memory_start: float = 1.0  # standard deviation of their vectors before training
    top_k: int = 4  # rules tried per goal, for GNTP


def group(templates: Sequence[Template]) -> dict[Template, int]:
    """Counts the reformulators of each template, in order of appearance. `0` (facts only) makes no rule."""
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

    attends: ClassVar[bool] = False  # bodies are distributions over known predicates, which `attention` gives

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
        """Returns the bodies and, where the variant makes heads, the unification of goal and head."""

    def forward(self, goals: Vectors, predicates: PredicateVectors) -> tuple[Expansion, ...]:
        expansions = []
        for template in self.groups:
            bodies, heads = self.expand(template, goals, predicates)
            expansions.append(Expansion(template, bodies, heads, self._gates(template, goals)))
        return tuple(expansions)

    def attention(self, template: Template, goals: Vectors) -> Attention | None:
        """The distribution over known predicates at each body place; None where the variant has none."""
        del template, goals
        return None

    def _gates(self, template: Template, goals: Vectors) -> Heads | None:
        if not self.options.gate:
            return None
        return torch.sigmoid(goals @ self.gates[str(template)].T + self.gate_biases[str(template)])

    def _unify_heads(self, goals: Vectors, heads: Float[Tensor, "goal reformulator dim"]) -> Heads:
        return self.options.kernel.elementwise(goals[:, None].expand_as(heads), heads)
