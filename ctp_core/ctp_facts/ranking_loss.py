"""A ranking loss for the soft prover: the true object among all objects, the true subject among all subjects.

The tables of a step hold the best proof of every pair, so ranking a fact against all rivals costs hardly more than
against one. The loss is first computed on distances; its gradient shows which pairs matter, and only the proofs of
those are traced and made differentiable.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.entities import Floats, PredicateFacts, SoftFacts
from ctp_core.ctp_facts.pairs import Chain, ChainPairs
from ctp_core.ctp_facts.tables import SoftTables
from ctp_core.ctp_facts.theory import SoftTheory

NO_GOALS = (np.zeros(0), np.zeros((0, 2), dtype=np.int64))
NEGLIGIBLE = 1e-3  # proofs whose distance has a smaller gradient are not traced; that of a fact is up to 2


def ranking_loss(theory: SoftTheory, facts: SoftFacts, hidden: SoftFacts, predicates: Tensor) -> Float[Tensor, ""]:
    """Mean over the ranked facts of these predicates. Its value is exact; its gradient omits negligible parts.

    Proofs use only `facts`; the facts `hidden` from them are also true, and also ranked.
    """
    chains = theory.chains(predicates.to(theory.predicates.device), theory.training_plans)
    squared = theory.entity_squared()
    tables = SoftTables(facts, squared.detach().cpu().numpy(), theory.config.unification)
    total, count = squared.sum() * 0, 0  # so that there is a gradient even where nothing is ranked
    for row, predicate in enumerate(predicates.tolist()):
        goals = _Goals.of(facts.of_predicate[predicate], hidden.of_predicate[predicate], theory.config)
        pairs = [
            ChainPairs(tables, Chain(one, row, number), theory.distance_times.arrays, predicate)
            for one in chains
            for number in range(one.width)
        ]
        total = total + _predicate_loss(theory, facts, squared, goals, pairs)
        count += len(goals)
    return total / max(1, count)


@dataclass(frozen=True)
class _Goals:
    """The ranked facts of one predicate; each visible one is proved as if it were not stated.

    `true` holds all facts of the predicate.
    """

    visible: tuple[Tensor, Tensor]  # subjects, objects
    hidden: tuple[Tensor, Tensor]
    true: tuple[Tensor, Tensor]
    rivals: Literal["all", "local", "exclusive"]
    both: bool

    @classmethod
    def of(cls, visible: PredicateFacts, hidden: PredicateFacts, config: CtpFactsConfig) -> "_Goals":
        shown, rest = ((torch.from_numpy(own.subject), torch.from_numpy(own.object)) for own in (visible, hidden))
        true = (torch.cat([shown[0], rest[0]]), torch.cat([shown[1], rest[1]]))
        ranked = shown if config.ranked == "all" else (shown[0][:0], shown[1][:0])
        return cls(ranked, rest, true, config.rivals, config.questions == "both")

    def __len__(self) -> int:
        return len(self.visible[0]) + len(self.hidden[0])

    def rival_mass(self, values: Float[Tensor, "subject object"], way: int) -> Float[Tensor, " goal"]:
        """log Σ exp over the rivals of each goal's object (way 1) or subject (way 0); true facts are not rivals."""
        given, sought = (torch.cat([self.visible[place], self.hidden[place]]) for place in (1 - way, way))
        true = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
        true[self.true] = True
        if way == 0:
            values, true = values.T, true.T
        out = true | ~true.any(0) if self.rivals == "local" else true
        least = torch.finfo(values.dtype).min
        if self.rivals != "exclusive":
            return torch.logsumexp(values.masked_fill(out, least), 1)[given]
        together = true.T.to(values) @ true.to(values) > 0
        return torch.logsumexp(values[given].masked_fill(out[given] | together[sought], least), 1)


def _predicate_loss(
    theory: SoftTheory, facts: SoftFacts, squared: Tensor, goals: _Goals, pairs: list[ChainPairs]
) -> Tensor:
    rivals = np.stack([one.distances for one in pairs])
    own, stations = zip(*(one.own() if len(goals.visible[0]) else NO_GOALS for one in pairs), strict=True)
    alone = np.stack(own).astype(rivals.dtype)
    value, of_rivals, of_goals = _gradients(goals, rivals.min(0), alone.min(0), theory.config.slope)
    best_rival, best_goal = rivals.argmin(0), alone.argmin(0)
    surrogate = squared.new_zeros(())
    for number, one in enumerate(pairs):
        subject, object_ = np.nonzero((best_rival == number) & (np.abs(of_rivals) > NEGLIGIBLE))
        fact = np.flatnonzero((best_goal == number) & (np.abs(of_goals) > NEGLIGIBLE))
        for leaves, weights in (
            (one.trace(subject, object_), of_rivals[subject, object_]) if len(subject) else (None, None),
            (one.trace_own(fact, stations[number]), of_goals[fact]) if len(fact) else (None, None),
        ):
            if leaves is not None:
                distances = theory.distances_by_tables(one.chain.chains, leaves, facts, squared)
                surrogate = surrogate + (distances * torch.from_numpy(weights).to(distances)).sum()
    # Has the value of the loss, and the gradient of the distances weighted by the gradient of the loss.
    return surrogate + (value - surrogate.detach())


def _gradients(goals: _Goals, rivals: Floats, alone: Floats, slope: float) -> tuple[Tensor, Floats, Floats]:
    """The loss and its gradients: by the distance of every pair, and by that of every visible fact without itself."""
    with torch.enable_grad():
        pairs, own = (torch.from_numpy(np.ascontiguousarray(d)).requires_grad_() for d in (rivals, alone))
        goal = slope * torch.cat([own, pairs[goals.hidden]])
        losses = functional.softplus(goals.rival_mass(-slope * pairs, 1) + goal)
        if goals.both:
            losses = losses + functional.softplus(goals.rival_mass(-slope * pairs, 0) + goal)
        loss = losses[goal.isfinite()].sum()  # a KB of one fact has no proof of it without itself
        by_pair, by_fact = torch.autograd.grad(loss, (pairs, own))
    return loss.detach(), by_pair.numpy(), by_fact.numpy()
