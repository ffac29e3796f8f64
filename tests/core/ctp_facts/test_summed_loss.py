"""The loss by all proofs of the soft prover, against a sum over every fact."""

import math
from itertools import product

import pytest
import torch
from pydantic import ValidationError

from ctp_core.base import cost
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.entities import SoftFacts
from ctp_core.ctp_facts.summed_loss import FIRST, LAST, sharpness, soft_squared, stated, summed_loss
from ctp_core.errors import ConfigError
from ctp_core.registry import create_trainer
from tests.core.base.test_facts_model import KB
from tests.core.ctp_facts.test_theory import FACTS, NUM_ENTITIES, NUM_PREDICATES, Naive, new_theory

SUMMED = {"loss": "summed", "ranked": "hidden", "hidden_facts": 0.5, "templates": ("0", "1R")}
SEEN, HIDDEN = FACTS[:-1], FACTS[-1]
ALL = torch.arange(NUM_PREDICATES)
Atom = tuple[int, int, int]  # subject, predicate, object


def facts_of(rows: object) -> SoftFacts:
    return SoftFacts(rows, NUM_PREDICATES)  # type: ignore[arg-type]


def squared_by_hand(select: str, beta: float) -> dict[Atom, float]:
    """-log Σ exp(-β distance²) / β over every fact, met by the goal itself and by the reversed body of its rule."""
    theory = new_theory(select=select, **SUMMED)
    bodies = theory.select(theory.predicates, theory.predicates)[0].bodies[:, 0, 0]
    found = {}
    for s, p, o in product(range(NUM_ENTITIES), range(NUM_PREDICATES), range(NUM_ENTITIES)):
        total = 0.0
        for vector, (left, right) in ((theory.predicates[p], (s, o)), (bodies[p], (o, s))):
            for subject, predicate, object_ in SEEN.tolist():
                gaps = [vector - theory.predicates[predicate]]
                gaps += [theory.entities[left] - theory.entities[subject]]
                gaps += [theory.entities[right] - theory.entities[object_]]
                total += math.exp(-beta * torch.cat(gaps).square().sum().item())
        found[s, p, o] = -math.log(total) / beta
    return found


def worked(squared: dict[Atom, float], rivals: list[Atom]) -> float:
    known = set(map(tuple, FACTS.tolist()))
    goal = squared[tuple(HIDDEN.tolist())]  # type: ignore[index]
    return math.log1p(sum(math.exp(goal - squared[rival]) for rival in rivals if rival not in known))


@torch.no_grad()
@pytest.mark.parametrize("select", ["linear", "attentive", "memory"])
@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_a_hidden_fact_is_ranked_by_the_sum_over_all_proofs_of_it_and_of_its_rivals(select: str, weight: float) -> None:
    squared = squared_by_hand(select, beta=0.7)
    s, p, o = HIDDEN.tolist()
    expected = worked(squared, [(s, p, other) for other in range(NUM_ENTITIES)])
    expected += worked(squared, [(other, p, o) for other in range(NUM_ENTITIES)])
    expected += weight * worked(squared, [(s, other, o) for other in range(NUM_PREDICATES)])
    theory = new_theory(select=select, predicate_weight=weight, **SUMMED)
    loss = summed_loss(theory, facts_of(SEEN), facts_of(FACTS[-1:]), ALL, 0.7)
    assert loss.item() == pytest.approx(expected, rel=1e-6)
    assert summed_loss(theory, facts_of(SEEN), facts_of(FACTS[:0]), ALL, 0.7).item() == 0


@torch.no_grad()
def test_the_sharper_the_sum_the_nearer_it_is_to_the_best_proof() -> None:
    theory, sharp = new_theory(**SUMMED), 50.0
    naive, proofs = Naive(theory, own=len(FACTS) - 1), 2 * len(SEEN)
    squared = soft_squared(theory, stated(facts_of(SEEN), theory), ALL, sharp)
    for p, s, o in product(range(NUM_PREDICATES), range(NUM_ENTITIES), range(NUM_ENTITIES)):
        best = math.log(naive.goal(p, s, o)) ** 2
        assert best - math.log(proofs) / sharp <= squared[p, s, o].item() <= best + 1e-6
    assert (sharpness(0.0), sharpness(1.0)) == (FIRST, pytest.approx(LAST))


def test_every_weight_learns_from_the_sum_that_of_rules_too() -> None:
    theory = new_theory(**SUMMED)
    summed_loss(theory, facts_of(SEEN), facts_of(FACTS[-1:]), ALL, FIRST).backward()  # type: ignore[no-untyped-call]
    for name, parameter in theory.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    "changed",
    [
        {"templates": ("0", "2")},
        {"unification": "per_symbol"},
        {"ranked": "all"},
        {"hidden_facts": 0.0},
        {"select": "ntp"},
        {"neighbours": "nearest"},
    ],
    ids=str,
)
def test_what_cannot_be_summed_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="loss 'summed' needs"):
        CtpFactsConfig(**{**SUMMED, **changed})  # type: ignore[arg-type]


def test_sums_that_do_not_fit_are_refused_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    config = CtpFactsConfig(dim=4, epochs=2, batch_size=2, neighbours="tables", **SUMMED)  # type: ignore[arg-type]
    create_trainer(config, KB, torch.device("cpu")).fit()
    tables = float(len(KB.predicates) * len(KB.entities) ** 2)  # these fit, the sums do not
    monkeypatch.setattr(cost, "MAX_CELLS", tables)
    with pytest.raises(ConfigError, match="use loss 'all'"):
        create_trainer(config, KB, torch.device("cpu"))
