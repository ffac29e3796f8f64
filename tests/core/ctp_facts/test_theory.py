"""The soft prover against a search that tries every fact at every place."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from ctp_core.ctp_facts import bounds, provers, search
from ctp_core.ctp_facts.bounds import Atoms, Meeting
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.entities import SoftFacts, SoftSearch
from ctp_core.ctp_facts.pairs import Chain, ChainPairs
from ctp_core.ctp_facts.ranking_loss import ranking_loss
from ctp_core.ctp_facts.search import Goals
from ctp_core.ctp_facts.tables import SoftTables
from ctp_core.ctp_facts.theory import SoftTheory
from ctp_core.errors import ConfigError
from ctp_core.proofs import ProofNode
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact, Goal
from tests.core.base.test_facts_model import HIDDEN, KB, ask, model_of

NUM_ENTITIES, NUM_PREDICATES = 4, 2
FACTS = np.array([(0, 0, 1), (1, 0, 2), (2, 1, 3), (3, 1, 3), (1, 1, 0)])
OWN = 1


def new_theory(**settings: object) -> SoftTheory:
    config = CtpFactsConfig(dim=3, **settings)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(3)
    return SoftTheory(config, NUM_ENTITIES, NUM_PREDICATES, generator, torch.device("cpu")).double()


def squared_distances(vectors: torch.Tensor, others: torch.Tensor) -> list[list[float]]:
    distances: list[list[float]] = ((vectors[:, None] - others[None]) ** 2).sum(-1).tolist()
    return distances


class Naive:
    """Proves by trying every fact, rule and middle entity, goal by goal, as the paper's recursion is written."""

    def __init__(self, theory: SoftTheory, own: int) -> None:
        self.theory = theory
        self.usable = [fact for fact in range(len(FACTS)) if fact != own]
        self.times = min if theory.config.semiring == "max-min" else math.prod
        self.entities = squared_distances(theory.entities, theory.entities)

    def goal(self, predicate: int, left: int, right: int) -> float:
        vector = self.theory.predicates[predicate]
        by_facts = self.by_fact(vector, left, right) if self.theory.match_facts else 0.0
        assert self.theory.config.depth is not None
        return max(by_facts, self.by_rule(vector, left, right, self.theory.config.depth))

    def prove(self, vector: torch.Tensor, left: int, right: int, depth: int) -> float:
        return max(self.by_fact(vector, left, right), self.by_rule(vector, left, right, depth) if depth else 0.0)

    def by_fact(self, vector: torch.Tensor, left: int, right: int) -> float:
        [predicates] = squared_distances(vector[None], self.theory.predicates)
        config, scores = self.theory.config, []
        for s, p, o in FACTS[self.usable].tolist():
            squared = (predicates[p], self.entities[left][s], self.entities[right][o])
            joined = sum(squared) if config.unification == "concat" else max(squared)
            scores.append(math.exp(-config.slope * math.sqrt(joined)))
        return max(scores)

    def by_rule(self, vector: torch.Tensor, left: int, right: int, depth: int) -> float:
        best = 0.0
        for rule in self.theory.select(vector[None], self.theory.predicates):
            ends = (right, left) if rule.template.reversed else (left, right)
            for g, bodies in enumerate(rule.bodies[0]):
                head = [] if rule.heads is None else [rule.heads[0, g].item()]
                for middle in product(range(NUM_ENTITIES), repeat=len(bodies) - 1):
                    path = (ends[0], *middle, ends[1])
                    atoms = [self.prove(v, path[i], path[i + 1], depth - 1) for i, v in enumerate(bodies)]
                    best = max(best, self.times([*head, *atoms]))
        return best


EVERY_SELECT = pytest.mark.parametrize("select", ["linear", "attentive", "memory", "ntp", "gntp"])
CASES = [(("0", "1", "1R", "2", "2", "3"), 1), (("0", "1R", "2R"), 1), (("2", "1R"), 2), (("0", "2R"), 2), (("1R",), 3)]


@pytest.mark.slow
@EVERY_SELECT
@pytest.mark.parametrize(("templates", "depth"), CASES)
@pytest.mark.parametrize("semiring", ["max-min", "max-product"])
@pytest.mark.parametrize("unification", ["concat", "per_symbol"])
@torch.no_grad()
def test_the_search_finds_the_best_proof(
    select: str, semiring: str, unification: str, templates: tuple[str, ...], depth: int
) -> None:
    theory = new_theory(
        select=select, semiring=semiring, unification=unification, templates=templates, depth=depth, top_k=3
    )
    goals = Goals(np.array([0, 1, 1]), np.array([1, 2, 0]), np.array([2, 3, 1]), np.array([OWN, -1, -1]))
    scores = theory.scores(goals, SoftFacts(FACTS, NUM_PREDICATES))
    for goal in range(3):
        expected = Naive(theory, int(goals.own[goal])).goal(
            *(int(x[goal]) for x in (goals.predicate, goals.subject, goals.object))
        )
        assert scores[goal].item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("semiring", ["max-min", "max-product"])
@pytest.mark.parametrize("unification", ["concat", "per_symbol"])
@torch.no_grad()
def test_two_atoms_meet_alike_with_and_without_a_table_of_all_entities(
    semiring: str, unification: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theory = new_theory(semiring=semiring, unification=unification, templates=("2", "2R"), depth=1)
    goals = Goals(np.array([0, 1, 1]), np.array([1, 2, 0]), np.array([2, 3, 1]), np.array([OWN, -1, -1]))
    facts = SoftFacts(FACTS, NUM_PREDICATES)
    few = theory.scores(goals, facts)
    monkeypatch.setattr("ctp_core.ctp_facts.entities.MAX_JOINED", 0)
    np.testing.assert_allclose(few.numpy(), theory.scores(goals, facts).numpy(), atol=1e-6)


@torch.no_grad()
def test_rules_that_are_not_tried_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    top_k = 2
    searched: list[tuple[int, int]] = []
    tables: list[Any] = []

    def meeting(places: SoftSearch, atoms: tuple[Atoms, Atoms], *rest: Any) -> Meeting:
        searched.append((len(atoms[0].row), len(atoms[0].costs)))
        return bounds.meeting(places, atoms, *rest)

    def pairs(*arguments: Any) -> ChainPairs:
        tables.append(arguments)
        return ChainPairs(*arguments)

    monkeypatch.setattr(search, "meeting", meeting)
    monkeypatch.setattr(provers, "ChainPairs", pairs)
    theory = new_theory(select="gntp", templates=("0", *("2",) * 20), top_k=top_k)
    goals = Goals(np.array([0, 1, 1]), np.array([1, 2, 0]), np.array([2, 3, 1]), np.array([OWN, -1, -1]))
    facts = SoftFacts(FACTS, NUM_PREDICATES)
    theory.scores(goals, facts)
    [(atoms, rows)] = searched
    assert atoms <= top_k * len(goals.predicate)
    assert rows <= top_k * NUM_PREDICATES
    provers.TableProver(theory, facts, NUM_ENTITIES).table(0)
    assert len(tables) <= 1 + top_k


@pytest.mark.slow
@EVERY_SELECT
@pytest.mark.parametrize(("templates", "depth"), CASES)
@pytest.mark.parametrize("unification", ["concat", "per_symbol"])
@torch.no_grad()
def test_tables_of_all_pairs_hold_the_same_scores(
    select: str, unification: str, templates: tuple[str, ...], depth: int
) -> None:
    """For every pair, and for every fact as if it were not there; what is traced has the distance it was traced for."""
    theory = new_theory(select=select, unification=unification, templates=templates, depth=depth, top_k=3)
    facts, everyone = SoftFacts(FACTS, NUM_PREDICATES), np.arange(NUM_ENTITIES)
    squared = theory.entity_squared()
    tables = SoftTables(facts, squared.numpy(), unification)
    subjects, objects = (grid.ravel() for grid in np.meshgrid(everyone, everyone, indexing="ij"))
    for predicate in range(NUM_PREDICATES):
        chains = [Chain(c, predicate, n) for c in theory.chains(torch.arange(NUM_PREDICATES)) for n in range(c.width)]
        pairs = [ChainPairs(tables, chain, np.maximum, predicate) for chain in chains]
        no_own = np.full(len(subjects), -1)
        open_goals = Goals(np.full(len(subjects), predicate), subjects, objects, no_own)
        found = np.min([one.distances for one in pairs], axis=0).ravel()
        np.testing.assert_allclose(np.exp(-found), theory.scores(open_goals, facts).numpy(), atol=1e-6)
        own = facts.of_predicate[predicate]
        goals = Goals(np.full(len(own), predicate), own.subject, own.object, own.rows)
        masked = np.min([one.own()[0] for one in pairs], axis=0)
        np.testing.assert_allclose(np.exp(-masked), theory.scores(goals, facts).numpy(), atol=1e-6)
        for one in pairs:
            traced = theory.distances_by_tables(one.chain.chains, one.trace(subjects, objects), facts, squared)
            np.testing.assert_allclose(traced.numpy(), one.distances.ravel(), atol=1e-6)
            distances, stations = one.own()
            traced = theory.distances_by_tables(
                one.chain.chains, one.trace_own(np.arange(len(own)), stations), facts, squared
            )
            np.testing.assert_allclose(traced.numpy(), distances, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("templates", [("0", "2"), ("1", "1R", "3")])
@pytest.mark.parametrize(
    "settings",
    [{}, {"ranked": "hidden"}, {"rivals": "local"}, {"rivals": "exclusive"}, {"questions": "objects"}],
    ids=str,
)
def test_the_ranking_loss_has_the_gradient_of_its_value(
    monkeypatch: pytest.MonkeyPatch, templates: tuple[str, ...], settings: dict[str, str]
) -> None:
    monkeypatch.setattr("ctp_core.ctp_facts.ranking_loss.NEGLIGIBLE", 0.0)
    theory = new_theory(templates=templates, **settings)
    seen, hidden = SoftFacts(FACTS[:-1], NUM_PREDICATES), SoftFacts(FACTS[-1:], NUM_PREDICATES)
    both = torch.arange(NUM_PREDICATES)
    value = ranking_loss(theory, seen, hidden, both)
    value.backward()  # type: ignore[no-untyped-call]
    step = 1e-6
    for parameter in (theory.entities, theory.predicates):
        assert parameter.grad is not None
        for index in product(range(parameter.shape[0]), range(parameter.shape[1])):
            with torch.no_grad():
                parameter[index] += step
                moved = ranking_loss(theory, seen, hidden, both)
                parameter[index] -= step
            assert (moved - value).item() / step == pytest.approx(parameter.grad[index].item(), abs=1e-4)


def worked(theory: SoftTheory, goal: tuple[int, int, int], others: list[tuple[int, int, int]], own: int) -> float:
    """softplus of log Σ e^-d(rival) + d(goal), by the naive prover."""
    distance = [-math.log(Naive(theory, own).goal(*atom)) for atom in (goal, *others)]
    return math.log(1 + sum(math.exp(-d + distance[0]) for d in distance[1:]))


@torch.no_grad()
def test_the_ranking_loss_ranks_what_it_is_told_to_rank_against_whom_it_is_told() -> None:
    """p(1, 0) is hidden; of predicate 1 the subjects stated are 1, 2, 3 and the objects 0, 3."""
    seen, hidden = SoftFacts(FACTS[:-1], NUM_PREDICATES), SoftFacts(FACTS[-1:], NUM_PREDICATES)
    one, goal, unseen = torch.tensor([1]), (1, 1, 0), len(FACTS) - 1
    objects = [(1, 1, o) for o in (1, 2, 3)]
    cases = (({"rivals": "all"}, objects), ({"rivals": "local"}, [(1, 1, 3)]), ({"rivals": "exclusive"}, objects))
    for settings, rivals in cases:
        theory = new_theory(templates=("0",), ranked="hidden", questions="objects", **settings)
        expected = worked(theory, goal, rivals, unseen)
        assert ranking_loss(theory, seen, hidden, one).item() == pytest.approx(expected, rel=1e-6)
    theory = new_theory(templates=("0",), ranked="hidden")
    both = worked(theory, goal, objects, unseen) + worked(theory, goal, [(1, s, 0) for s in (0, 2, 3)], unseen)
    assert ranking_loss(theory, seen, hidden, one).item() == pytest.approx(both, rel=1e-6)
    twice = SoftFacts(np.array([(1, 1, 0), (2, 1, 0)]), NUM_PREDICATES)  # 2 has the objects 3 and 0: no rivals
    theory = new_theory(templates=("0",), ranked="hidden", questions="objects", rivals="exclusive")
    goals = [worked(theory, (1, s, 0), [(1, s, o) for o in (1, 2)], unseen) for s in (1, 2)]
    assert ranking_loss(theory, seen, twice, one).item() == pytest.approx(sum(goals) / 2, rel=1e-6)
    nothing = SoftFacts(FACTS[:0], NUM_PREDICATES)
    assert ranking_loss(theory, seen, nothing, one).item() == 0


def test_a_step_hides_all_facts_of_a_subject_or_none() -> None:
    config = CtpFactsConfig(templates=("0",), dim=4, loss="all", hidden_subjects=0.5)
    trainer = create_trainer(config, KB, torch.device("cpu"))
    seen, hidden = trainer._seen_and_hidden()  # type: ignore[attr-defined]
    pairs = [set(map(tuple, facts.facts[:, :2].tolist())) for facts in (seen, hidden)]
    assert len(pairs[0] & pairs[1]) <= 1  # one fact is always seen
    assert len(pairs[1]) > 3
    assert len(seen.facts) + len(hidden.facts) == len(np.unique(trainer.split.train, axis=0))  # type: ignore[attr-defined]


def test_rules_learnt_one_deep_answer_two_deep() -> None:
    shallow = new_theory(templates=("2",), depth=2, train_depth=1)
    assert len(shallow.training_plans) == 1
    assert len(shallow.plans) == 4


def test_a_depth_that_makes_too_many_chains_is_refused() -> None:
    with pytest.raises(ConfigError, match="at depth 3 of 3"):
        new_theory(templates=("2",) * 3, depth=3)
    for depth in (None, 0):
        with pytest.raises(ValidationError, match="depth"):
            new_theory(depth=depth)


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


@pytest.mark.slow
def test_proofs_of_depth_two_are_trees_whose_scores_add_up() -> None:
    """Rules below rules, against the path as well: every body is a path between the entities that its goal names."""
    config = CtpFactsConfig(templates=("2R", "1R"), depth=2, dim=4, loss="all", batch_size=2, epochs=2)
    model = create_trainer(config, KB, torch.device("cpu")).fit()
    nested = 0
    for answer in ask(model, Goal(*HIDDEN[:2], None), top_k=2, proofs=12)[0]:
        assert answer.proofs[0].score == pytest.approx(answer.score, rel=1e-9)
        for proof in answer.proofs:
            assert proof.tree.goal == answer.fact
            assert proof.score == pytest.approx(recomputed(proof.tree), rel=1e-12)
            nested += sum(joined(node) for node in proof.tree.children)
    assert nested


def joined(node: ProofNode) -> int:
    """How many rules there are from here down; checks that each one's body is a path between the goal's entities."""
    if node.rule is None:
        return 0
    bound = node.bindings
    assert bound is not None
    assert (bound["X"], bound["Y"]) == (node.goal.subject, node.goal.object)
    for atom, child in zip(node.rule.body.atoms, node.children, strict=True):
        assert child.goal == Fact(bound[atom.subject], atom.predicate, bound[atom.object])
    return 1 + sum(joined(child) for child in node.children)
