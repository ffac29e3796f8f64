"""Both provers against naive recursion, on random graphs."""

from itertools import pairwise

import pytest
import torch

from ctp_core.aggregations import Best
from ctp_core.base.deadline import OutOfTime
from ctp_core.ctp_graphs import exact, tabled
from ctp_core.ctp_graphs.theory import FixedRule
from ctp_core.rules import Template
from ctp_core.select.registry import VARIANTS
from ctp_core.tnorm.registry import TNORMS
from tests.core.ctp_graphs.oracle import NaiveProver, NaiveTabled
from tests.core.ctp_graphs.worlds import CPU, NAMES, PREDICATES, edges, instance, theory

ENTITIES = 3
ASSOCIATIVE = [name for name, tnorm in TNORMS.items() if tnorm.associative]
DEEP = [("2 2", 2), ("1 1R 2", 2), ("2", 3), ("2R 1R", 3), ("3 1", 3)]
FIXED = (FixedRule(0, Template(2), (1, 2), 0.7), FixedRule(2, Template(1, reversed=True), (1,), 0.4))
CASES = [
    *(pytest.param(*case, marks=pytest.mark.slow) for case in DEEP),
    *[("2", 2), ("2 2R", 1), ("3 0", 1), ("0 1R", 3), ("2", 0)],
]


def exact_scores(made, facts, depth: int, semiring: str, entities: int = ENTITIES) -> torch.Tensor:
    prover = exact.ExactProver(made.templates)
    batch = prover.stack([instance(facts, entities)], depth, CPU)
    levels = exact.grow(made, made.vectors, depth, Best(TNORMS[semiring]))
    return exact.prove(batch, levels, Best(TNORMS[semiring]))


def tabled_scores(made, facts, depth, semiring: str, attention: bool = False, entities: int = ENTITIES) -> torch.Tensor:
    prover = tabled.TabledProver(made.templates)
    batch = prover.stack([instance(facts, entities)], depth, CPU)
    aggregation = tabled.Aggregations.answering(TNORMS[semiring])
    return tabled.prove(batch, tabled.close(made, TNORMS[semiring], attention), aggregation)


@pytest.mark.slow
@pytest.mark.parametrize("select", VARIANTS)
def test_sub_goals_grown_in_pieces_are_those_grown_at_once_and_the_clock_is_looked_at(
    select: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = theory(select, "2 1", fixed=FIXED)
    whole = exact.grow(made, made.vectors, 2, Best(TNORMS["max-product"]))
    monkeypatch.setattr(exact, "GROWN_AT_ONCE", 2)
    looks: list[None] = []
    pieces = exact.grow(made, made.vectors, 2, Best(TNORMS["max-product"]), lambda: bool(looks.append(None)))
    assert len(looks) > 2
    for left, right in zip(whole, pieces, strict=True):
        torch.testing.assert_close(left.vectors, right.vectors)
        for one, other in zip(left.growths, right.growths, strict=True):
            assert one.goals == other.goals
            torch.testing.assert_close(one.guard, other.guard)
    with pytest.raises(OutOfTime):
        exact.grow(made, made.vectors, 2, Best(TNORMS["max-product"]), lambda: True)


@pytest.mark.slow
@pytest.mark.parametrize("select", VARIANTS)
@pytest.mark.parametrize(("templates", "depth"), CASES)
@pytest.mark.parametrize("semiring", list(TNORMS))
@torch.no_grad()
def test_exact_equals_the_naive_recursion(select: str, templates: str, depth: int, semiring: str) -> None:
    for seed in range(2):
        made = theory(select, templates, seed, FIXED if seed else (), head=bool(seed), gate=bool(seed))
        facts = edges(ENTITIES, 4, seed)
        naive = NaiveProver(made, facts, ENTITIES, semiring)
        scores = exact_scores(made, facts, depth, semiring).tolist()
        for row, (i, j) in enumerate((i, j) for i in range(ENTITIES) for j in range(ENTITIES)):
            for predicate in range(PREDICATES):
                expected = naive.prove(made.vectors[predicate].tolist(), i, j, depth)
                assert scores[row][predicate] == pytest.approx(expected, abs=1e-9), (i, j, predicate)


@pytest.mark.parametrize("semiring", ["max-min", "max-product", "max-mean"])  # by Łukasiewicz all is too far apart
@torch.no_grad()
def test_a_rule_that_is_not_selected_proves_nothing_in_any_semiring(semiring: str) -> None:
    made, chain = theory("gntp", "1R 1R 2"), [(0, 0, 1), (1, 0, 2)]
    made.select.heads["1R"].copy_(made.vectors[:1].expand(2, -1))
    made.select.heads["2"].copy_(made.vectors[:1] + 1)  # third best, and two are tried
    assert exact_scores(made, chain, 1, semiring)[2, 0] == 0
    made.select.heads["2"].copy_(made.vectors[:1])
    assert exact_scores(made, chain, 1, semiring)[2, 0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("select", VARIANTS)
@pytest.mark.parametrize(
    ("templates", "depth"), [pytest.param("1 1R 2", 2, marks=pytest.mark.slow), ("2", 2), ("2 3R", 1), ("0 1", 3)]
)
@pytest.mark.parametrize("semiring", ASSOCIATIVE)
@pytest.mark.parametrize("attention", [False, True])
@torch.no_grad()
def test_tabled_equals_its_naive_recursion(
    select: str, templates: str, depth: int, semiring: str, attention: bool
) -> None:
    made = theory(select, templates, seed=3, gate=True)
    facts = edges(ENTITIES, 4, seed=3)
    naive = NaiveTabled(tabled.close(made, TNORMS[semiring], attention), facts, ENTITIES, semiring)
    scores = tabled_scores(made, facts, depth, semiring, attention).tolist()
    for row, (i, j) in enumerate((i, j) for i in range(ENTITIES) for j in range(ENTITIES)):
        for predicate in range(PREDICATES):
            assert scores[row][predicate] == pytest.approx(naive.prove(predicate, i, j, depth), abs=1e-9)


@pytest.mark.parametrize("select", VARIANTS)
@pytest.mark.parametrize("semiring", ASSOCIATIVE)
@pytest.mark.parametrize("depth", [0, 1])
@torch.no_grad()
def test_the_provers_agree_up_to_depth_one(select: str, semiring: str, depth: int) -> None:
    for seed in range(3):
        made = theory(select, "2 1R 3", seed, head=True, gate=True, fixed=(FixedRule(0, Template(2), (1, 2), 0.7),))
        facts = edges(4, 7, seed)
        recursive = exact_scores(made, facts, depth, semiring, entities=4)
        torch.testing.assert_close(tabled_scores(made, facts, depth, semiring, entities=4), recursive)


@pytest.mark.parametrize("semiring", ASSOCIATIVE)
@torch.no_grad()
def test_the_provers_agree_at_any_depth_where_generated_vectors_are_predicates(semiring: str) -> None:
    rules = (FixedRule(0, Template(2), (1, 2), 0.9), FixedRule(1, Template(1, True), (2,), 0.5))
    made = theory("linear", "0", fixed=(*rules, FixedRule(2, Template(2), (2, 0), 0.8)))
    made.vectors.mul_(1e4)  # far apart: only equal predicates meet
    for seed in range(4):
        facts = edges(4, 6, seed)
        for depth in range(4):
            recursive = exact_scores(made, facts, depth, semiring, entities=4)
            torch.testing.assert_close(tabled_scores(made, facts, depth, semiring, entities=4), recursive)
            if depth == 3:
                assert recursive.max() > 0


@torch.no_grad()
def test_the_provers_are_different_models_elsewhere() -> None:
    made, facts = theory("linear", "2 2"), [(0, 0, 1), (1, 1, 2), (2, 2, 3), (3, 0, 4)]
    scores = [f(made, facts, 2, "max-product", entities=5) for f in (exact_scores, tabled_scores)]
    assert (scores[0] - scores[1]).abs().max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("templates", ["2", "1 2", "1R 2", "3", "2R"])
@pytest.mark.parametrize("semiring", ASSOCIATIVE)
@torch.no_grad()
def test_the_fixpoint_is_where_deeper_search_ends(templates: str, semiring: str) -> None:
    """On cyclic graphs and on chains, whose steps are computed in different ways."""
    made = theory("attentive", templates, seed=1, gate=True)
    chain = [(i, i % PREDICATES, i + 1) for i in range(5)]
    for facts in (edges(5, 7, seed=1), chain):
        deep = tabled_scores(made, facts, 40, semiring, entities=6)
        torch.testing.assert_close(tabled_scores(made, facts, None, semiring, entities=6), deep)


@pytest.mark.parametrize("select", VARIANTS)
@torch.no_grad()
def test_deeper_search_never_lowers_a_score(select: str) -> None:
    made, facts = theory(select, "2 1R", seed=5), edges(4, 6, seed=5)
    for scores in (exact_scores, tabled_scores):
        depths = [scores(made, facts, depth, "max-product", entities=4) for depth in range(4)]
        assert all((deeper >= shallower).all() for shallower, deeper in pairwise(depths))
        assert (depths[2] > depths[0]).any()


@pytest.mark.slow
@pytest.mark.parametrize("select", VARIANTS)
@pytest.mark.parametrize("way", ["max-product", "max-min", "max-mean", "tabled"])
def test_gradients_are_those_of_finite_differences(select: str, way: str) -> None:
    made, facts = theory(select, "2 1R", seed=2, head=True, gate=True), [(0, 0, 1), (1, 1, 2), (2, 2, 3)]
    names = [name for name, _ in made.named_parameters()]

    def loss(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(made, dict(zip(names, values, strict=True)), (run,)).sum()

    def run() -> torch.Tensor:
        if way != "tabled":
            return exact_scores(made, facts, 2 if way == "max-product" else 1, way, entities=4)
        batch = tabled.TabledProver(made.templates).stack([instance(facts, 4)], 2, CPU)
        closed = tabled.close(made, TNORMS["max-product"], select == "attentive")
        return tabled.prove(batch, closed, tabled.TRAINING)

    made.forward = lambda call: call()  # type: ignore[method-assign]
    values = tuple(parameter.detach().clone().requires_grad_() for parameter in made.parameters())
    assert torch.autograd.gradcheck(loss, values, eps=1e-6, atol=1e-5)


@torch.no_grad()
def test_a_batch_of_different_graphs_scores_each_as_if_alone() -> None:
    made = theory("linear", "2 1R", seed=7)
    graphs = [edges(4, 5, seed) for seed in (1, 2)] + [edges(4, 5, 1), [(0, 0, 1), (1, 2, 2), (2, 1, 3)]]
    instances = [instance(facts, 4) for facts in graphs]
    layered = exact.ExactProver(made.templates).stack(instances, 2, CPU)
    together = exact.prove(layered, exact.grow(made, made.vectors, 2, Best(TNORMS["max-min"])), Best(TNORMS["max-min"]))
    torch.testing.assert_close(together, torch.cat([exact_scores(made, f, 2, "max-min", entities=4) for f in graphs]))
    stepped = tabled.TabledProver(made.templates).stack(instances, None, CPU)
    answering = tabled.Aggregations.answering(TNORMS["max-min"])
    together = tabled.prove(stepped, tabled.close(made, TNORMS["max-min"], attention=False), answering)
    alone = [tabled_scores(made, f, None, "max-min", entities=4) for f in graphs]
    torch.testing.assert_close(together, torch.cat(alone))


def test_predicate_names_are_only_read_not_guessed() -> None:
    assert instance([(0, 2, 1)], 2).facts.tolist() == [[0, NAMES.id("p2")]]
