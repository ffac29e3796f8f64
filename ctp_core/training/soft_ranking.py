"""A ranking loss for the soft prover: the true object among all objects, the true subject among all subjects.

The tables of a step hold the best proof of every pair, so that all rivals of a fact cost hardly more than one. The
loss is computed on distances first; its gradient says which pairs matter, and only their proofs are traced and made
differentiable.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ctp_core.models.soft_pairs import Chain, ChainPairs
from ctp_core.models.soft_theory import SoftTheory
from ctp_core.provers.soft_entities import Floats, SoftFacts
from ctp_core.provers.soft_tables import SoftTables

NEGLIGIBLE = 1e-3  # gradient of a distance below which its proof is not traced; that of a fact is up to 2


def ranking_loss(theory: SoftTheory, facts: SoftFacts, predicates: Tensor) -> Float[Tensor, ""]:
    """The mean over all facts of these predicates; its value is exact, its gradient but for what is negligible."""
    chains, squared = theory.chains(predicates.to(theory.predicates.device)), theory.entity_squared()
    tables = SoftTables(facts, squared.detach().cpu().numpy(), theory.config.unification)
    total, count = squared.new_zeros(()), 0
    for row, predicate in enumerate(predicates.tolist()):
        pairs = [
            ChainPairs(tables, Chain(one, row, number), theory.config.semiring, predicate)
            for one in chains
            for number in range(one.width)
        ]
        total = total + _predicate_loss(theory, facts, squared, pairs)
        count += len(facts.of_predicate[predicate])
    return total / max(1, count)


def _predicate_loss(theory: SoftTheory, facts: SoftFacts, squared: Tensor, pairs: list[ChainPairs]) -> Tensor:
    rivals = np.stack([one.distances for one in pairs])
    own, stations = zip(*(one.own() for one in pairs), strict=True)
    goals = np.stack(own)
    value, of_rivals, of_goals = _gradients(pairs[0], rivals.min(0), goals.min(0), theory.config.slope)
    best_rival, best_goal = rivals.argmin(0), goals.argmin(0)
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


def _gradients(pairs: ChainPairs, rivals: Floats, goals: Floats, slope: float) -> tuple[Tensor, Floats, Floats]:
    """The loss, and its gradient by every rival's distance and every fact's own."""
    assert pairs.predicate is not None
    facts = pairs.tables.facts.of_predicate[pairs.predicate]
    subject, object_ = torch.from_numpy(facts.subject), torch.from_numpy(facts.object)
    with torch.enable_grad():
        all_pairs, own = (torch.from_numpy(np.ascontiguousarray(d)).requires_grad_() for d in (rivals, goals))
        true = torch.zeros(all_pairs.shape, dtype=torch.bool, device=all_pairs.device)
        true[subject, object_] = True
        logits = (-slope * all_pairs).masked_fill(true, torch.finfo(all_pairs.dtype).min)
        objects, subjects = torch.logsumexp(logits, 1)[subject], torch.logsumexp(logits, 0)[object_]
        losses = functional.softplus(objects + slope * own) + functional.softplus(subjects + slope * own)
        loss = losses[own.isfinite()].sum()  # the only fact of a KB has no proof without itself
        by_pair, by_fact = torch.autograd.grad(loss, (all_pairs, own))
    return loss.detach(), by_pair.numpy(), by_fact.numpy()
