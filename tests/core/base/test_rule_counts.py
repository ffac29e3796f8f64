"""Support and precision of rules on facts and on graphs."""

import numpy as np
import pytest

from ctp_core.base import rule_counts
from ctp_core.base.edges import EdgeList
from ctp_core.base.rule_counts import FactsCounter, GraphsCounter, counter_of, with_counts
from ctp_core.kb.knowledge_base import FactsKB, Graph, GraphsKB
from ctp_core.prolog_rules import parse_rule
from ctp_core.rules import UNARY, Atom, Rule, Template
from ctp_core.rules_from_atoms import rule_from_atoms
from ctp_core.symbols import Fact, Vocabulary
from tests.built_kbs import built


def counter_on(edges: EdgeList) -> FactsCounter:
    return FactsCounter(edges, Vocabulary("predicate", tuple("pqr"[: edges.num_predicates])))


def test_support_counts_pairs_not_paths() -> None:
    # a -p-> b -q-> d and a -p-> c -q-> d: two paths, one pair; head r(a, d) holds; b -q-> d alone is not a chain.
    a, b, c, d, e = range(5)
    p, q, r = range(3)
    facts = np.array([(a, p, b), (a, p, c), (b, q, d), (c, q, d), (a, r, d), (e, p, b)])
    counter = counter_on(EdgeList(facts, 5, 3))
    assert counter.count_atoms(r, Template(2), (p, q)) == (1, 2)
    assert counter.count_atoms(r, Template(2), (p, q + 3)) == (0, 0)


def test_a_rule_about_one_entity_does_not_count_the_fact_itself() -> None:
    # p(0,1), p(0,2), p(3,1): p(X,Y) :- p(X,Z) holds with another Z for both facts of 0, not for that of 3.
    facts = np.array([(0, 0, 1), (0, 0, 2), (3, 0, 1), (3, 1, 3)])
    counter = counter_on(EdgeList(facts, 4, 2))
    assert counter.count_atoms(0, UNARY[0], (0,)) == (2, 4 + 3)
    assert counter.count_atoms(0, UNARY[1], (0 + 2,)) == (2, 4 + 3)  # p(Z,Y): 1 is the object of two facts, 2 of one
    assert counter.count_atoms(0, UNARY[0], (1,)) == (1, 4)


def test_no_fact_supports_itself_by_way_of_its_own_inverse() -> None:
    """p(X,Y) :- p(X,Z), p(Z2,Z), p(Z2,Y) with Z = Y and Z2 = X is the fact itself; a third entity makes it a proof."""
    body = (0, 0 + 1, 0)
    alone = counter_on(EdgeList(np.array([(0, 0, 1)]), 4, 1))
    assert alone.count_atoms(0, Template(3), body) == (0, 0)
    square = counter_on(EdgeList(np.array([(0, 0, 1), (0, 0, 3), (2, 0, 1), (2, 0, 3)]), 4, 1))
    assert square.count_atoms(0, Template(3), body) == (4, 4)
    wide = counter_on(EdgeList(np.array([(0, 0, 1), (0, 0, 3), (2, 0, 1)]), 4, 1))
    # p(2,3) is not stated but concluded; each stated pair has no way but over itself.
    assert wide.count_atoms(0, Template(3), body) == (0, 1)


def test_a_loop_does_not_support_itself() -> None:
    p, q = 0, 1
    loop = counter_on(EdgeList(np.array([(0, p, 0), (0, p, 1), (1, q, 1)]), 2, 2))
    assert loop.count_atoms(p, Template(1), (p + 2,)) == (0, 1)  # p(Y,X): the loop is its own inverse, p(1,0) is new
    assert loop.count_atoms(p, Template(2), (p, q)) == (0, 0)  # p(0,1), q(1,1) concludes p(0,1) from itself


def test_what_few_pairs_tell_of_many_is_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = np.array([(2 * i, 0, 2 * i + 1) for i in range(50)])
    monkeypatch.setattr(rule_counts, "CHECKED", 5)
    assert counter_on(EdgeList(facts, 100, 1)).count_atoms(0, Template(3), (0, 1, 0)) == (0, 0)


def test_a_fact_of_a_graph_does_not_support_itself() -> None:
    graph = Graph((Fact("a", "p", "b"), Fact("b", "q", "b")), "a", "b", None)
    own, other = (GraphsCounter([graph]).count(parse_rule(f"{head}(X,Y) :- p(X,Z), q(Z,Y).")) for head in ("p", "r"))
    assert (own.support, other.support) == (0, 0)
    labelled = Graph(graph.facts, "a", "b", "r")
    assert GraphsCounter([labelled]).count(parse_rule("r(X,Y) :- p(X,Z), q(Z,Y).")).support == 1


def test_the_counts_of_a_large_kb_are_estimates_from_some_of_the_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 entities have one p each; every second has the q that the rule r(X,Y) :- p(X,Z), q(Z,Y) promises."""
    p, q, r, size = 0, 1, 2, 400
    begin = np.arange(size)
    facts = [
        np.column_stack([begin, np.full(size, p), begin + size]),
        np.column_stack([begin + size, begin * 0 + q, begin]),
    ]
    facts += [np.column_stack([begin, begin * 0 + r, begin])[::2]]
    counter = counter_on(EdgeList(np.concatenate(facts), 2 * size, 3))
    assert counter.count_atoms(r, Template(2), (p, q)) == (200, 400)
    monkeypatch.setattr(rule_counts, "COUNTED_FROM", 100)
    support, pairs = counter.count_atoms(r, Template(2), (p, q))
    assert pairs == 400
    assert support % 4 == 0  # each counted stands for four
    assert 140 <= support <= 260
    assert counter.count_atoms(r, Template(2), (p, q)) == (support, pairs)


FACTS = [("a", "p", "b"), ("b", "p", "c"), ("c", "p", "d"), ("a", "g", "c"), ("d", "i", "c")]


def counted(rule: Rule) -> tuple[int | None, float | None]:
    [out] = with_counts(
        [rule], FactsKB.from_facts({"train": [Fact(*fact) for fact in FACTS], "test": [Fact("b", "g", "d")]})
    )
    return out.support, out.precision


def test_support_and_precision_count_pairs_of_the_training_facts() -> None:
    assert counted(parse_rule("g(X,Y) :- p(X,Z), p(Z,Y)")) == (1, 0.5)
    assert counted(parse_rule("i(X,Y) :- p(Y,X)")) == (1, 1 / 3)
    assert counted(parse_rule("g(X,Y) :- g(X,Z), g(Z,Y)")) == (0, None)
    assert counted(parse_rule("p(X,Y) :- never(X,Y)")) == (0, None)


def test_atoms_of_a_body_may_stand_either_way_round() -> None:
    # p(c,d), g(a,c) and again g(a,c): from d back to a, and on to c.
    body = Atom("p", "W", "X"), Atom("g", "V", "W"), Atom("g", "V", "Y")
    assert counted(rule_from_atoms(Atom("i", "X", "Y"), body, 1.0)) == (1, 1.0)
    # i(d,c) is walked from c to d, and so joins b with d, of whom no g is stated.
    assert counted(rule_from_atoms(Atom("g", "X", "Y"), (Atom("p", "X", "Z"), Atom("i", "Y", "Z")), 1.0)) == (0, 0.0)


def test_graphs_count_the_label_of_the_query_pair_and_weigh_equal_graphs() -> None:
    chain = (Fact("a", "p", "b"), Fact("b", "p", "c"))
    renamed = (Fact("u", "p", "v"), Fact("v", "p", "w"))
    graphs = (Graph(chain, "a", "c", "g"), Graph(renamed, "u", "w", "g"), Graph(chain, "a", "c", "other"))
    kb = GraphsKB(Vocabulary("predicate", ("p", "g", "other")), ("g", "other"), {"train": graphs})
    [rule] = with_counts([parse_rule("g(X,Y) :- p(X,Z), p(Z,Y)")], kb)
    assert (rule.support, rule.precision) == (2, 2 / 3)


TEXTS = (
    "r(X,Y) :- p(X,Z), q(Z,Y)",
    "r(X,Y) :- p(Y,Z), q(Z,X)",
    "p(X,Y) :- q(Y,X)",
    "q(X,Y) :- p(X,Y)",
    "r(X,Y) :- s(X,Y)",
)


@pytest.mark.parametrize("text", TEXTS)
def test_facts_and_graphs_are_counted_alike_where_something_is_known_of_every_pair(text: str) -> None:
    """One graph in which each pair has a predicate is a KB of facts: counts are the same, whatever the way round."""
    draw, names = np.random.default_rng(0), "abcd"
    facts = [Fact(a, "pqr"[draw.integers(3)], b) for a in names for b in names]
    on_facts = counter_of(FactsKB.from_facts({"train": facts}))
    on_graph = GraphsCounter([Graph(tuple(facts), "a", "b", None)])
    rule = parse_rule(text)
    stated = {tuple(fact) for fact in facts}
    assert on_facts.count(rule) == on_graph.count(rule)
    holding = [pair for pair in np.ndindex(4, 4) if _holds(rule, {"X": names[pair[0]], "Y": names[pair[1]]}, stated)]
    heads = [pair for pair in holding if (names[pair[0]], rule.predicate, names[pair[1]]) in stated]
    assert on_facts.count(rule) == (len(heads), len(holding))


def _holds(rule: Rule, pair: dict[str, str], stated: set[tuple[str, ...]]) -> bool:
    for middle in "abcd":
        at = {**pair, "Z": middle}
        if all((at[atom.subject], atom.predicate, at[atom.object]) in stated for atom in rule.body.atoms):
            return True
    return False


def test_a_body_with_too_many_paths_is_estimated_from_fewer_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub joins all with all: every start of p, p sees the same, so that few of them tell the truth about all."""
    facts = [(f"a{i}", "p", "hub") for i in range(50)] + [("hub", "p", f"b{i}") for i in range(50)]
    facts += [(f"a{i}", "g", f"b{j}") for i in range(50) for j in range(10)]
    kb = built(facts).kb
    rule = parse_rule("g(X,Y) :- p(X,Z), p(Z,Y)")
    whole = FactsCounter.of(kb).count(rule)
    monkeypatch.setattr(rule_counts, "MAX_PATHS", 5 * 50)
    heard: list[tuple[int, int]] = []
    [counted] = with_counts([rule], kb, lambda part, parts: heard.append((part, parts)))
    assert whole == (500, 2500)
    assert counted.support != 500
    assert (counted.support, counted.precision, heard) == (pytest.approx(500, rel=0.2), pytest.approx(0.2), [(1, 1)])
