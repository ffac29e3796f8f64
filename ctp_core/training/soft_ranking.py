"""A ranking loss for the soft prover: the true object among all objects, the true subject among all subjects.

The tables of a step hold the best proof of every pair, so that all rivals of a fact cost hardly more than one. The
loss is computed on distances first; its gradient says which pairs matter, and only their proofs are traced and made
differentiable.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ctp_core.models.soft_pairs import Chain, ChainPairs
from ctp_core.models.soft_theory import SoftTheory
from ctp_core.provers.soft_entities import Floats, PredicateFacts, SoftFacts
from ctp_core.provers.soft_tables import SoftTables

NEGLIGIBLE = 1e-3  # gradient of a distance below which its proof is not traced; that of a fact is up to 2


def ranking_loss(theory: SoftTheory, facts: SoftFacts, hidden: SoftFacts, predicates: Tensor) -> Float[Tensor, ""]:
    """The mean over all facts of these predicates; its value is exact, its gradient but for what is negligible.

    Proofs stand on `facts` alone; those `hidden` from them are true all the same, and to be ranked.
    """
    chains, squared = theory.chains(predicates.to(theory.predicates.device)), theory.entity_squared()
    tables = SoftTables(facts, squared.detach().cpu().numpy(), theory.config.unification)
    total, count = squared.new_zeros(()), 0
    for row, predicate in enumerate(predicates.tolist()):
        goals = _Goals(facts.of_predicate[predicate], hidden.of_predicate[predicate])
        pairs = [
            ChainPairs(tables, Chain(one, row, number), theory.config.semiring, predicate)
            for one in chains
            for number in range(one.width)
        ]
        total = total + _predicate_loss(theory, facts, squared, goals, pairs)
        count += len(goals.visible) + len(goals.hidden)
    return total / max(1, count)


@dataclass(frozen=True)
class _Goals:
    """The facts of one predicate: each of the visible ones is proved as if it were not there."""

    visible: PredicateFacts
    hidden: PredicateFacts

    def tensors(self, name: Literal["subject", "object"]) -> tuple[Tensor, Tensor]:
        return torch.from_numpy(getattr(self.visible, name)), torch.from_numpy(getattr(self.hidden, name))


def _predicate_loss(
    theory: SoftTheory, facts: SoftFacts, squared: Tensor, goals: _Goals, pairs: list[ChainPairs]
) -> Tensor:
    rivals = np.stack([one.distances for one in pairs])
    own, stations = zip(*(one.own() for one in pairs), strict=True)
    alone = np.stack(own)
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
                distances = theory.distances(one.chain.chains, leaves, facts, squared)
                surrogate = surrogate + (distances * torch.from_numpy(weights).to(distances)).sum()
    # The value is that of the loss, the gradient that of the distances weighted by the loss's own.
    return surrogate + (value - surrogate.detach())


def _gradients(goals: _Goals, rivals: Floats, alone: Floats, slope: float) -> tuple[Tensor, Floats, Floats]:
    """The loss, and its gradient by the distance of every pair and by that of every visible fact without itself."""
    (subject, hidden_subject), (object_, hidden_object) = goals.tensors("subject"), goals.tensors("object")
    with torch.enable_grad():
        pairs, own = (torch.from_numpy(np.ascontiguousarray(d)).requires_grad_() for d in (rivals, alone))
        true = torch.zeros(pairs.shape, dtype=torch.bool, device=pairs.device)
        true[subject, object_] = True
        true[hidden_subject, hidden_object] = True
        logits = (-slope * pairs).masked_fill(true, torch.finfo(pairs.dtype).min)
        goal = slope * torch.cat([own, pairs[hidden_subject, hidden_object]])
        objects = torch.logsumexp(logits, 1)[torch.cat([subject, hidden_subject])]
        subjects = torch.logsumexp(logits, 0)[torch.cat([object_, hidden_object])]
        losses = functional.softplus(objects + goal) + functional.softplus(subjects + goal)
        loss = losses[goal.isfinite()].sum()  # the only fact of a KB has no proof without itself
        by_pair, by_fact = torch.autograd.grad(loss, (pairs, own))
    return loss.detach(), by_pair.numpy(), by_fact.numpy()
