"""The soft prover against a search that tries every fact at every place."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from ctp_core.config import CtpConfig
from ctp_core.models.soft_theory import Goals, Shape, SoftTheory
from ctp_core.proofs import ProofNode
from ctp_core.provers.soft_entities import SoftFacts
from ctp_core.symbols import Goal
from tests.core.models.test_facts_models import HIDDEN, ask, model_of

NUM_ENTITIES, NUM_PREDICATES = 4, 2
FACTS = np.array([(0, 0, 1), (1, 0, 2), (2, 1, 3), (3, 1, 3), (1, 1, 0)])
OWN = 1


def new_theory(**settings: object) -> SoftTheory:
    config = CtpConfig(dim=3, **settings)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(3)
    return SoftTheory(config, NUM_ENTITIES, NUM_PREDICATES, generator, torch.device("cpu")).double()


def unify(theory: SoftTheory, vector: torch.Tensor, left: int, right: int, fact: int) -> float:
    s, p, o = FACTS[fact].tolist()
    pairs = [(vector, theory.predicates[p]), (theory.entities[left], theory.entities[s])]
    pairs.append((theory.entities[right], theory.entities[o]))
    squared = [((a - b) ** 2).sum().item() for a, b in pairs]
    joined = sum(squared) if theory.config.unification == "concat" else max(squared)
    return math.exp(-theory.config.slope * math.sqrt(joined))


def naive(theory: SoftTheory, shape: Shape, row: int, ends: tuple[int, int], own: int) -> float:
    """The best over reformulators, middle entities and facts, one by one."""
    best = 0.0
    usable = [fact for fact in range(len(FACTS)) if fact != own]
    times = min if theory.config.semiring == "max-min" else math.prod
    ends = ends[::-1] if shape.template.reversed else ends
    for g, bodies in enumerate(shape.bodies[row]):
        for middle in product(range(NUM_ENTITIES), repeat=len(bodies) - 1):
            stations = (ends[0], *middle, ends[1])
            atoms = [
                max(unify(theory, bodies[place], stations[place], stations[place + 1], fact) for fact in usable)
                for place in range(len(bodies))
            ]
            head = [] if shape.heads is None else [shape.heads[row, g].item()]
            best = max(best, times([*head, *atoms]))
    return best


@pytest.mark.parametrize("select", ["linear", "attentive", "memory", "ntp", "gntp"])
@pytest.mark.parametrize("semiring", ["max-min", "max-product"])
@pytest.mark.parametrize("unification", ["concat", "per_symbol"])
def test_the_search_finds_the_best_proof(select: str, semiring: str, unification: str) -> None:
    theory = new_theory(
        select=select, semiring=semiring, unification=unification, templates=("0", "1", "1R", "2", "2", "3"), top_k=3
    )
    goals = Goals(np.array([0, 1, 1]), np.array([1, 2, 0]), np.array([2, 3, 1]), np.array([OWN, -1, -1]))
    scores = theory.scores(goals, SoftFacts(FACTS, NUM_PREDICATES))
    shapes = theory.shapes(torch.arange(NUM_PREDICATES))
    for goal in range(3):
        ends = (int(goals.subject[goal]), int(goals.object[goal]))
        found = [naive(theory, s, int(goals.predicate[goal]), ends, int(goals.own[goal])) for s in shapes]
        assert scores[goal].item() == pytest.approx(max(found), abs=1e-5)


def test_facts_get_their_gradient() -> None:
    """The entities of a fact that is used move, also where they are no part of the goal."""
    theory = new_theory(templates=("0",))
    goals = Goals(np.array([0]), np.array([1]), np.array([2]), np.array([OWN]))
    theory.scores(goals, SoftFacts(FACTS, NUM_PREDICATES)).sum().backward()  # type: ignore[no-untyped-call]
    assert theory.entities.grad is not None
    moved = set(theory.entities.grad.abs().sum(1).nonzero().flatten().tolist())
    assert moved - {1, 2}


def test_gradients_are_exact() -> None:
    theory = new_theory(templates=("0", "2"), semiring="max-product")
    goals = Goals(np.array([0, 1]), np.array([1, 0]), np.array([2, 3]), np.array([OWN, -1]))
    facts = SoftFacts(FACTS, NUM_PREDICATES)

    def scores(entities: torch.Tensor) -> torch.Tensor:
        theory.entities.data = entities.data
        leaf = torch.nn.Parameter(entities)
        theory.entities = leaf
        return theory.scores(goals, facts).sum()

    base = theory.entities.data.clone()
    value = scores(base)
    value.backward()  # type: ignore[no-untyped-call]
    gradient = theory.entities.grad
    assert gradient is not None
    step = 1e-6
    for entity, axis in product(range(NUM_ENTITIES), range(3)):
        moved = base.clone()
        moved[entity, axis] += step
        assert (scores(moved) - value).item() / step == pytest.approx(gradient[entity, axis].item(), abs=1e-4)


def recomputed(node: ProofNode) -> float:
    return min([u.score for u in node.unifications] + [recomputed(child) for child in node.children])


def test_the_first_proof_has_the_answers_score_and_every_node_the_minimum_of_its_parts() -> None:
    for answer in ask(model_of("ctp"), Goal(*HIDDEN[:2], None), top_k=5)[0]:
        assert answer.proofs[0].score == pytest.approx(answer.score, rel=1e-4)
        assert len({(p.tree.rule, p.facts) for p in answer.proofs}) == len(answer.proofs)
        for proof in answer.proofs:
            assert proof.score == pytest.approx(recomputed(proof.tree))
            assert proof.score <= answer.score * (1 + 1e-4)
