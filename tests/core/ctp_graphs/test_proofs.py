"""The proofs of a graph: all there are, the best first, whatever circles the graph has."""

import itertools
import math
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from ctp_core.base.model import Answer, Answers, Budget, Question
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.reasoner import GraphReasoner, build_theory
from ctp_core.ctp_graphs.rules import BODIES, decode
from ctp_core.symbols import Fact, Goal, Vocabulary
from ctp_core.tnorm.registry import TNORMS

NAMES = ("p", "q", "r")


def model(*rules: str, seed: int = 0, names: tuple[str, ...] = NAMES, **settings: Any) -> CtpGraphsModel:
    given = {"select": "attentive", "prover": "tabled", "templates": ("0",), "depth": None, "dim": 6, **settings}
    config = CtpGraphsConfig(**given, rules=rules)
    predicates = Vocabulary("predicate", names)
    theory = build_theory(config, predicates, torch.Generator().manual_seed(seed)).requires_grad_(False)
    return CtpGraphsModel(GraphReasoner(config, predicates, names, theory), [])


def proofs(asked: CtpGraphsModel, fact: Fact, facts: tuple[Fact, ...], wanted: int, **more: Any) -> Answer:
    [answers] = asked.answer([Question(Goal(*fact), facts, proofs=wanted, **more)], Budget())
    assert isinstance(answers, Answers)
    [answer] = answers.items
    assert len(answer.proofs) == wanted or answers.truncated
    return answer


def ring(size: int) -> tuple[Fact, ...]:
    return tuple(Fact(f"e{i}", "p", f"e{(i + way) % size}") for i in range(size) for way in (1, -1))


@pytest.mark.slow
@pytest.mark.parametrize("semiring", ["max-product", "max-min"])
@pytest.mark.parametrize("depth", [None, 3, 400])
@pytest.mark.parametrize("size", [3, 8])
def test_whatever_has_a_score_has_a_proof_though_all_ways_round_a_ring_are_equal(
    semiring: str, depth: int | None, size: int
) -> None:
    asked = model("p(X,Y) :- p(X,Z), p(Z,Y).", semiring=semiring)
    for target in range(size):
        distance = min(target, size - target) or 2  # nobody is next to oneself
        answer = proofs(asked, Fact("e0", "p", f"e{target}"), ring(size), 1, depth=depth)
        assert answer.score == 1.0
        assert answer.proofs[0].score == 1.0
        assert len(answer.proofs[0].facts) == distance


def all_scores(asked: CtpGraphsModel, facts: tuple[Fact, ...], goal: Fact, least: float) -> list[float]:
    """Scores of all proofs that reach `least` and repeat no goal below itself, by plain recursion, best first."""
    [rules], count = asked.reasoner.closed.rules, len(NAMES)
    assert rules.guard is None
    unify = [place.view(count, -1, count).tolist() for place in rules.places]  # [body predicate, reformulator, head]
    entities = sorted({name for fact in facts for name in (fact.subject, fact.object)})

    def weight(head: str, left: str, right: str) -> float:
        first, second = (place[NAMES.index(name)] for place, name in zip(unify, (left, right), strict=True))
        column = NAMES.index(head)
        return max(a[column] * b[column] for a, b in zip(first, second, strict=True))

    def derive(fact: Fact, above: frozenset[Fact], least: float) -> Iterator[float]:
        if fact in facts:
            yield 1.0
        below = above | {fact}
        for middle, left, right in itertools.product(entities, NAMES, NAMES):
            body = (Fact(fact.subject, left, middle), Fact(middle, right, fact.object))
            own = weight(fact.predicate, left, right)
            if own < least or below & set(body):
                continue
            for first in derive(body[0], below, least / own):
                for second in derive(body[1], below, least / own / first):
                    yield own * first * second

    return sorted((score for score in derive(goal, frozenset(), least) if score >= least), reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("depth", [None, 20])
def test_the_n_best_proofs_of_a_circle_are_the_n_best_of_all(seed: int, depth: int | None) -> None:
    asked = model(seed=seed, templates=("2", "2"), semiring="max-product")
    facts = (Fact("a", "p", "b"), Fact("b", "q", "a"))
    goal = Fact("a", "r", "b")
    for wanted in (1, 3, 12):
        found = [proof.score for proof in proofs(asked, goal, facts, wanted, depth=depth).proofs]
        assert len(found) == wanted
        assert found == pytest.approx(all_scores(asked, facts, goal, found[-1] * (1 - 1e-9)), rel=1e-9)


@pytest.mark.parametrize("semiring", ["max-product", "max-min"])
def test_the_n_best_proofs_by_a_long_body_are_the_n_best_of_all(semiring: str) -> None:
    """All predicates between each two neighbours: 3 to the fourth bodies, of which a few are kept on the way."""
    asked = model(templates=("4", "4"), semiring=semiring, seed=2)
    facts = tuple(Fact(a, name, b) for a, b in itertools.pairwise("abcde") for name in NAMES)
    [rules] = asked.reasoner.closed.rules
    columns = [
        place.view(len(NAMES), -1, len(NAMES))[..., 1] for place in rules.places
    ]  # [body predicate, reformulator]
    join = math.prod if semiring == "max-product" else min
    expected = sorted(
        max(
            join(float(column[p, g]) for column, p in zip(columns, body, strict=True))
            for g in range(columns[0].shape[1])
        )
        for body in itertools.product(range(len(NAMES)), repeat=4)
    )
    found = proofs(asked, Fact("a", "q", "e"), facts, 9, depth=1).proofs
    assert [proof.score for proof in found] == pytest.approx(expected[::-1][:9], rel=1e-9)


def test_the_proofs_by_the_longest_body_take_little_memory() -> None:
    asked = model(templates=("8",), semiring="max-product", names=tuple("pqrstu"))
    facts = tuple(Fact(a, name, b) for a, b in itertools.pairwise("abcdefghi") for name in "pqrstu")
    tracemalloc.start()
    try:
        proofs(asked, Fact("a", "q", "i"), facts, 20)
        assert tracemalloc.get_traced_memory()[1] < 2e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("prover", ["tabled", "exact"])
def test_the_two_ways_to_bracket_three_facts_are_two_proofs(prover: str) -> None:
    asked = model("q(X,Y) :- q(X,Z), q(Z,Y).", prover=prover, semiring="max-product")
    chain = tuple(Fact(a, "q", b) for a, b in itertools.pairwise("abcd"))
    answer = proofs(asked, Fact("a", "q", "d"), chain, 2, depth=2)
    assert {len(proof.tree.children[0].children) for proof in answer.proofs} == {0, 2}


@pytest.mark.parametrize("prover", ["tabled", "exact"])
def test_equal_proofs_are_in_the_order_of_their_texts(prover: str) -> None:
    asked = model("q(X,Y) :- p(X,Z), p(Z,Y).", prover=prover, semiring="max-min", depth=1)
    for middles in itertools.permutations("bmz"):
        facts = tuple(fact for name in middles for fact in (Fact("a", "p", name), Fact(name, "p", "c")))
        texts = [proof.text for proof in proofs(asked, Fact("a", "q", "c"), facts, 3).proofs]
        assert texts == sorted(texts)


@pytest.mark.parametrize("prover", ["tabled", "exact"])
@pytest.mark.parametrize(("exclude_known", "best"), [(False, "a1"), (True, "b")])
def test_of_equal_answers_those_that_are_shown_have_their_proofs(prover: str, exclude_known: bool, best: str) -> None:
    """Entities come in another order than their names: `top_k` leaves out others than the first to come."""
    asked = model("q(X,Y) :- p(X,Z), p(Z,Y).", prover=prover, depth=1)
    facts = (*(Fact("m", "p", end) for end in "zyb"), Fact("a", "p", "m"), Fact("a", "q", "a1"))
    question = Question(Goal("a", "q", None), facts, top_k=1, exclude_known=exclude_known)
    [answers] = asked.answer([question], Budget())
    assert isinstance(answers, Answers)
    [answer] = answers.items
    assert answer.fact.object == best
    assert answer.proofs[0].score == answer.score == 1.0


def test_fewer_proofs_than_there_are_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctp_core.ctp_graphs.explainer.REPEATED", 0)
    monkeypatch.setattr("ctp_core.ctp_graphs.explainer.TIES", 1)
    [answers] = model("q(X,Y) :- q(X,Z), q(Z,Y).", semiring="max-product").answer(
        [Question(Goal("a", "q", "d"), tuple(Fact(a, "q", b) for a, b in itertools.pairwise("abcd")), proofs=2)],
        Budget(),
    )
    assert isinstance(answers, Answers)
    assert answers.truncated


@pytest.mark.parametrize("select", ["linear", "attentive"])
def test_a_unification_names_what_was_generated_and_rules_agree_with_the_listed_ones(select: str) -> None:
    asked = model("0.9::r(X,Y) :- p(X,Z), q(Z,Y).", select=select, templates=("2",), semiring="max-product", seed=3)
    rules = decode(
        asked.reasoner.theory, asked.reasoner.predicates, TNORMS["max-product"], attention=select == "attentive"
    )
    listed = {rule.text: rule for rule in rules}
    facts = (Fact("a", "p", "b"), Fact("b", "q", "c"))
    learnt, given = model(select=select, templates=("2",), semiring="max-product", seed=3), asked
    [group], count = learnt.reasoner.closed.rules, len(NAMES)
    for head in NAMES:
        tree = proofs(learnt, Fact("a", head, "c"), facts, 1).proofs[0].tree
        assert tree.rule is not None
        assert tree.rule.approximate == (select == "linear")
        for place, unification, right in zip(group.places, tree.unifications, "pq", strict=True):
            column = place.view(count, -1, count)[:, 0, NAMES.index(head)]
            assert unification.left == NAMES[int(column.argmax())]
            assert unification.right == right
            assert unification.score == pytest.approx(float(column[NAMES.index(right)]))
            assert unification.approximate == (select == "linear")
    sure = proofs(given, Fact("a", "r", "c"), facts, 1).proofs[0].tree
    assert sure.rule is not None
    assert not sure.rule.approximate
    assert [(u.left, u.right, u.score) for u in sure.unifications[1:]] == [("p", "p", 1.0), ("q", "q", 1.0)]
    assert not listed[sure.rule.text].approximate


@pytest.mark.slow
def test_of_a_long_body_the_best_rules_are_listed_and_not_all() -> None:
    asked = model(templates=("8",), select="linear", slope=0.02)
    for tnorm in TNORMS.values():
        listed = decode(asked.reasoner.theory, asked.reasoner.predicates, tnorm, attention=False)
        assert len(listed) == BODIES * len(NAMES)
        body = [place.view(len(NAMES), len(NAMES)) for place in asked.reasoner.closed.rules[0].places]  # [body, head]
        for head in range(len(NAMES)):
            own = [rule.confidence for rule in listed if rule.head.predicate == NAMES[head]]
            every = itertools.product(*(place[:, head].tolist() for place in body))
            best = sorted(map(tnorm.of, every), reverse=True)[:BODIES]
            assert own == pytest.approx(best, rel=1e-5)
