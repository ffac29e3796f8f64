"""The order of the proofs of an answer, on shares written down by hand."""

import numpy as np
import pytest

from ctp_core.base.facts_model import FactsView
from ctp_core.evidence.proofs import WeighedPaths, count_proofs, explained, list_proofs, unexplained
from ctp_core.evidence.rules import chain_rule
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.rules import Rule, Template
from ctp_core.symbols import Fact

KB = FactsKB.from_facts({"train": [Fact(*names) for names in (("a", "p", "b"), ("b", "q", "c"), ("a", "r", "c"))]})
A, B, C = range(3)
P, Q, R = range(3)
GOALS = np.array([(A, R, C), (A, R, B)])


def paths(
    template: str, fact: list[int], atoms: list[list[int]], stations: list[list[int]], shares: list[float]
) -> WeighedPaths:
    length, one = len(atoms[0]), np.ones((len(fact), 1))
    columns = (np.array(column, dtype=np.int64) for column in (fact, atoms, stations))
    return WeighedPaths(Template.parse(template), *columns, np.array(shares), [one] * length, np.ones((2, 1)), 2)


WEIGHED = [
    paths("2", [0, 0, 0], [[P, Q], [P, R], [Q, Q]], [[A, B, C], [A, B, C], [A, B, C]], [0.5, 0.7, 0.0]),
    paths("1", [0, 0, 1], [[Q], [P], [P]], [[A, C], [A, C], [A, B]], [0.5, 0.5, 0.1]),
]


def rule_of(predicate: int, template: Template, body: tuple[int, ...]) -> Rule:
    return chain_rule(KB.predicates.names, predicate, template, body, weight=1.0)


def listed(num_proofs: int) -> list[list[tuple[float | None, str]]]:
    proofs = list_proofs(FactsView.of(KB), GOALS, WEIGHED, num_proofs, rule_of)
    return [[(proof.share, ", ".join(map(str, proof.facts))) for proof in found] for found in proofs]


def test_the_largest_share_comes_first_then_fewer_facts_then_text() -> None:
    assert listed(9) == [
        [(0.7, "p(a, b), r(b, c)"), (0.5, "p(a, c)"), (0.5, "q(a, c)"), (0.5, "p(a, b), q(b, c)")],
        [(0.1, "p(a, b)")],
    ]


@pytest.mark.parametrize("wanted", range(1, 5))
def test_fewer_proofs_are_the_first_of_more_also_among_equal_shares(wanted: int) -> None:
    assert listed(wanted) == [found[:wanted] for found in listed(9)]


def test_what_adds_nothing_is_not_counted_and_what_was_not_walked_is_not_known() -> None:
    assert count_proofs(WEIGHED, 2) == [4, 1]
    few = WeighedPaths(**{**vars(WEIGHED[1]), "num_walked": 1})
    assert count_proofs([WEIGHED[0], few], 2) == [4, None]


def test_bias_proofs_shown_and_the_rest_add_up_to_the_logit() -> None:
    proofs = list_proofs(FactsView.of(KB), GOALS, WEIGHED, 2, rule_of)
    logits, biases = np.array([1.2, -1.9]), np.array([-1.0, -2.0])
    first, second = explained(logits, biases, [4, 1], proofs)
    assert first.score_parts == pytest.approx({"bias": -1.0, "shown": 1.2, "rest": 1.0, "num_proofs": 4})
    assert second.score_parts == pytest.approx({"bias": -2.0, "shown": 0.1, "rest": 0.0, "num_proofs": 1})
    bare = unexplained(logits, biases)[0]
    assert bare.proofs == ()
    assert bare.score_parts == {"bias": -1.0, "shown": 0.0, "rest": 2.2, "num_proofs": None}
