"""Templates, Prolog in and out, counts over a KB."""

from dataclasses import replace
from itertools import pairwise

import pytest

from ctp_core.errors import ConfigError, DataError
from ctp_core.prolog_rules import MAX_RULE_LENGTH, clause, parse_rule
from ctp_core.rules import MAX_BODY, About, Body, Rule, Step, Template, by_what_they_explain, most_telling


def written(rule: Rule) -> str:
    values = rule.values()
    return clause(values["head"], values["body"])


@pytest.mark.parametrize("text", ["0", "1", "1R", "2", "3R", "8", "1X", "1Y", "cX", "cY"])
def test_a_template_prints_as_it_was_read(text: str) -> None:
    assert str(Template.parse(text)) == text


@pytest.mark.parametrize("text", ["", "R", "0R", "9", "22", "2r", "-1", "2RR", "2X", "c", "cZ", "٢"])
def test_what_is_no_template_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(ConfigError, match="such as 1, 1R or 2"):
        Template.parse(text)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("1", "p(X,Y) :- a(X,Y)"),
        ("1R", "p(X,Y) :- a(Y,X)"),
        ("2", "p(X,Y) :- a(X,Z), b(Z,Y)"),
        ("2R", "p(X,Y) :- b(Z,X), a(Y,Z)"),
        ("3", "p(X,Y) :- a(X,Z), b(Z,Z2), c(Z2,Y)"),
    ],
)
def test_rules_are_written_as_prolog_and_read_back(template: str, expected: str) -> None:
    shape = Template.parse(template)
    rule = Rule("p", Body.of(shape, ("a", "b", "c")[: shape.length]), confidence=1.0)
    assert (rule.text, rule.template) == (expected, shape)
    assert parse_rule(written(rule)) == rule


@pytest.mark.parametrize("name", ["father-in-law", "it's", "a\\b", "Éa b", "p(x)", "two\nlines", "a,b", "a:-b", ":"])
def test_any_name_survives_prolog(name: str) -> None:
    rule = Rule(name, Body.of(Template(2), ("plain", name)), confidence=1.0)
    assert parse_rule(written(rule)) == rule


def test_a_weight_may_stand_in_front_and_variables_may_have_any_name() -> None:
    rule = parse_rule("0.75::grand(A, B) :- parent(A, C), parent(C, B).")
    assert (rule.text, rule.confidence) == ("grand(X,Y) :- parent(X,Z), parent(Z,Y)", 0.75)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "p(X,Y)",
        "p(X,Y) :-",
        "p(X,Y) :- q(X,Z), r(Y,Z)",
        "p(X,Y) :- q(X,Z) r(Z,Y)",
        "p(X,Y) :- q(X,rick)",
        "p(X,Y) :- q(X)",
        "p(X,Y) :- q(X,Y), r(Y,X)",
        "2::p(X,Y) :- q(X,Y)",
        "p(X,Y), q(X,Y)",
        "p(X,Y) :- 'q(X,Y)",
        "p(X,Y) :- " + ", ".join(f"q(X{i},X{i + 1})" for i in range(20)),
    ],
)
def test_what_is_no_path_rule_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="rule"):
        parse_rule(text)


@pytest.mark.parametrize(
    ("atoms", "why"), [(9, "more than 8 atoms"), (900, "more than 8 atoms"), (3000, "longer than")]
)
def test_a_rule_that_is_too_long_is_refused_before_it_is_read_to_its_end(atoms: int, why: str) -> None:
    text = "p(X,Y) :- " + ", ".join(["q(X,Y)"] * atoms)
    with pytest.raises(DataError, match=why) as refused:
        parse_rule(text)
    assert len(str(refused.value)) < MAX_RULE_LENGTH + 100


def test_a_rule_may_have_as_many_atoms_as_a_template() -> None:
    names = ["X", *(f"Z{i}" for i in range(1, MAX_BODY)), "Y"]
    atoms = ", ".join(f"q({a},{b})" for a, b in pairwise(names))
    assert len(parse_rule(f"p(X,Y) :- {atoms}.").body.atoms) == MAX_BODY


def test_the_confidence_of_a_counted_rule_is_pessimistic_and_its_former_one_the_weight() -> None:
    rule = Rule("p", Body((Step("q"),)), 0.9)
    few, many, none = rule.counted(2, 2), rule.counted(899, 1215), rule.counted(0, 0)
    assert (few.confidence, few.precision, few.weight) == (pytest.approx(2 / 7), 1.0, 0.9)
    assert many.confidence == pytest.approx(899 / 1220)
    assert (none.confidence, none.precision) == (0.0, None)
    assert replace(rule, weight=1.5).counted(2, 2).weight == 1.5


def test_rules_are_grouped_by_head_and_ordered_by_what_they_explain() -> None:
    def rule(head: str, body: str, weight: float, support: int, about: About = "") -> Rule:
        return Rule(head, Body((Step(body),), about), 0.5, support=support, weight=weight)

    rules = [
        rule("p", "a", 1.0, 5),
        rule("q", "a", 1.0, 30),
        rule("p", "prior", 9.0, 90, "X"),
        rule("p", "b", 0.5, 20),
        rule("q", "b", 9.0, 0),
        rule("r", "prior", 9.0, 90, "Y"),
    ]
    listed = [(found.predicate, found.body.predicates[0]) for found in by_what_they_explain(rules)]
    assert listed == [("q", "a"), ("q", "b"), ("p", "b"), ("p", "a"), ("p", "prior"), ("r", "prior")]
    assert [found.prior for found in by_what_they_explain(rules)] == [False] * 4 + [True] * 2
    kept = [(found.predicate, found.body.predicates[0]) for found in most_telling(by_what_they_explain(rules), 3)]
    assert kept == [("q", "a"), ("p", "b"), ("p", "a")], "the best of all heads, in the same order"
