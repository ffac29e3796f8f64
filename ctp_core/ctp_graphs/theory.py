"""The theory of a prover: predicate vectors, `select`, and rules given by the user."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ctp_core.errors import ConfigError
from ctp_core.kernels import ExponentialKernel
from ctp_core.rules import Rule, Template
from ctp_core.select.base import Expansion, Select, normal
from ctp_core.shapes import Attention, Float, PredicateVectors, Tensor, Vectors
from ctp_core.symbols import Vocabulary


@dataclass(frozen=True)
class FixedRule:
    """A rule given by the user, as ids. Its confidence is fixed, and it is not trained."""

    head: int
    template: Template
    body: tuple[int, ...]
    confidence: float

    @classmethod
    def of(cls, rule: Rule, predicates: Vocabulary) -> "FixedRule":
        """Looks up the ids; raises UnknownSymbol where the rule names a predicate that the KB does not have."""
        body = tuple(predicates.id(name) for name in rule.template.along(rule.body.predicates))
        return cls(predicates.id(rule.predicate), rule.template, body, rule.confidence)


class Theory(nn.Module):
    """All learnt parameters, and the fixed rules, whose heads are unified with the goal as in NTP."""

    def __init__(
        self, num_predicates: int, select: Select, fixed: Sequence[FixedRule], generator: torch.Generator
    ) -> None:
        super().__init__()
        self.vectors = normal((num_predicates, select.options.dim), generator)
        self.select = select
        self.fixed = tuple(fixed)
        if not select.groups and not fixed:
            raise ConfigError("no template makes a rule: add a template such as 2, or give rules of your own")

    @property
    def kernel(self) -> ExponentialKernel:
        return self.select.options.kernel

    @property
    def templates(self) -> tuple[Template, ...]:
        """The template of every expansion, in order; the fixed rules come last."""
        return (*self.select.groups, *dict.fromkeys(rule.template for rule in self.fixed))

    def expand(self, goals: Vectors) -> tuple[Expansion, ...]:
        learnt: tuple[Expansion, ...] = self.select(goals, self.vectors) if self.select.groups else ()
        return learnt + self._fixed(goals)

    def attentions(self, goals: Vectors) -> tuple[Attention | None, ...]:
        """The attention of each expansion over known predicates, or None."""
        learnt = tuple(self.select.attention(template, goals) for template in self.select.groups)
        return learnt + (None,) * (len(self.templates) - len(learnt))

    def _fixed(self, goals: Vectors) -> tuple[Expansion, ...]:
        expansions = []
        for template in dict.fromkeys(rule.template for rule in self.fixed):
            rules = [rule for rule in self.fixed if rule.template == template]
            bodies = self.vectors[torch.tensor([rule.body for rule in rules], device=goals.device)]
            heads = self.vectors[torch.tensor([rule.head for rule in rules], device=goals.device)]
            gates = torch.tensor([rule.confidence for rule in rules], device=goals.device, dtype=goals.dtype)
            meets = self.kernel.pairwise(goals, heads)
            expansions.append(Expansion(template, bodies[None], meets, gates.expand_as(meets)))
        return tuple(expansions)

    def meet(self, goals: Vectors, predicates: PredicateVectors) -> Float[Tensor, "goal predicate"]:
        return self.kernel.pairwise(goals, predicates)
