"""A ranking loss over all proofs of the soft prover: their sum, sharpened until the best proof decides.

Where squared distances add over the places of an atom, the sum over all facts is a product of matrices,

    Σ over facts r(s, o) of exp(-β (|v-r|² + |a-s|² + |b-o|²))  =  Σ_r exp(-β |v-r|²) (K A_r K)[a, b],

with K = exp(-β |e-e'|²) and A_r = 1 where r is stated. For large β, -log of the sum divided by β is the squared
distance of the best proof. For small β every proof has its share of the gradient, even if it is not yet the best.
Answers come from the best proof alone; squaring does not change which one is best.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from ctp_core.ctp_facts.entities import SoftFacts
from ctp_core.ctp_facts.search import Chains, as_tensor
from ctp_core.ctp_facts.theory import SoftTheory

FIRST, LAST = 0.1, 8.0  # β: at first most facts of a predicate count, at the end only the nearest
LEAST = 1e-300  # float64 sums are clamped to this, so that their logarithm is finite


def sharpness(made: float) -> float:
    """β after this share of all steps, 0 to 1."""
    return float(FIRST * (LAST / FIRST) ** made)


def summed_loss(
    theory: SoftTheory, facts: SoftFacts, hidden: SoftFacts, predicates: Tensor, beta: float
) -> Float[Tensor, ""]:
    """Mean over the hidden facts of these predicates, each ranked against facts that are not stated.

    Its object and its subject compete with all entities; its predicate, with weight `predicate_weight`, competes with
    the other predicates of the batch.
    """
    seen = stated(facts, theory)
    asked = stated(hidden, theory)[predicates] > 0
    logits = -theory.config.slope * soft_squared(theory, seen, predicates, beta)
    rivals = logits.masked_fill(asked | (seen[predicates] > 0), torch.finfo(logits.dtype).min)
    predicate, subject, object_ = asked.nonzero(as_tuple=True)
    goals, total = logits[asked], logits.sum() * 0  # so that there is a gradient even where nothing is ranked
    for sought, given, weight in (
        (2, (predicate, subject), 1.0),
        (1, (predicate, object_), 1.0),
        (0, (subject, object_), theory.config.predicate_weight),
    ):
        total = total + weight * functional.softplus(torch.logsumexp(rivals, sought)[given] - goals).sum()
    return (total / max(1, len(goals))).to(theory.entities.dtype)


def stated(facts: SoftFacts, theory: SoftTheory) -> Float[Tensor, "predicate subject object"]:
    """1 where a fact is stated, else 0. In float64, as all sums here: a distant fact counts exp(-hundreds)."""
    sizes = (len(theory.predicates), len(theory.entities), len(theory.entities))
    table = torch.zeros(sizes, dtype=torch.float64, device=theory.entities.device)
    table[tuple(as_tensor(column, table) for column in (facts.predicate, facts.subject, facts.object))] = 1
    return table


def soft_squared(
    theory: SoftTheory, seen: Float[Tensor, "known entity entity"], predicates: Tensor, beta: float
) -> Float[Tensor, "predicate subject object"]:
    """-log of the sum over all proofs, divided by β: a smooth stand-in for the best proof's squared distance."""
    near = torch.exp(-beta * theory.entity_squared().double())
    by_known = near @ seen @ near
    chains = theory.chains(predicates.to(near.device), theory.training_plans)
    return -torch.stack([_summed(one, by_known, beta) for one in chains]).sum(0).clamp(min=LEAST).log() / beta


def _summed(
    chains: Chains, by_known: Float[Tensor, "known entity entity"], beta: float
) -> Float[Tensor, "predicate subject object"]:
    """Sum over all facts and over all chains of one shape with one atom."""
    weights = torch.exp(-beta * chains.squared[:, :, 0].double()).sum(1)  # [predicate, known]
    table = torch.einsum("pk,kij->pij", weights, by_known)
    return table.transpose(1, 2) if chains.plan.flips[0] else table
