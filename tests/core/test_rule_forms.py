"""The same rule has one text and one id, whoever writes it and however it was written before."""

import random
from dataclasses import replace

import pytest

from ctp_core.errors import DataError
from ctp_core.proofs import ProofNode
from ctp_core.rules import MAX_BODY, About, Atom, Body, Rule, Step, Template, each_once, quoted, steps_of
from ctp_core.rules_from_atoms import rule_from_atoms
from ctp_core.symbols import Fact

NAMES = ("a", "b", "it's", "X")  # predicates and entities may be called as variables are
SEEDS = range(100)


def random_rule(draw: random.Random) -> Rule:
    """A path between X and Y of any length, what is said of one of them, or a rule with constants."""
    kind = draw.choice(("path", "unary", "constant"))
    length = 1 if kind == "unary" else draw.randint(1, MAX_BODY)
    steps = tuple(Step(draw.choice(NAMES), draw.random() < 0.5) for _ in range(length))
    about: About = "" if kind == "path" else draw.choice(("X", "Y"))
    if kind != "constant":
        return Rule("p", Body(steps, about), 0.5)
    return Rule("p", Body(steps, about, draw.choice((*NAMES, None))), 0.5, constant=draw.choice(NAMES))


def rewritten(rule: Rule, draw: random.Random) -> tuple[Atom, list[Atom]]:
    """Head and body with other names for the variables; the path is read from its end, or its atoms are shuffled."""
    atoms = [rule.head, *rule.body.atoms]
    variables = {place for atom in atoms for place in (atom.subject, atom.object) if not place.startswith("'")}
    others = draw.sample(["X", "Y", "Z", "Z2", "W", *(f"A{i}" for i in range(MAX_BODY))], len(variables))
    names = dict(zip(sorted(variables), others, strict=True))
    head, *body = (
        replace(atom, subject=names.get(atom.subject, atom.subject), object=names.get(atom.object, atom.object))
        for atom in atoms
    )
    return head, draw.choice((body, body[::-1], draw.sample(body, len(body))))


@pytest.mark.parametrize("seed", SEEDS)
def test_renamed_variables_and_a_turned_path_leave_text_and_id(seed: int) -> None:
    draw = random.Random(seed)
    rule = random_rule(draw)
    again = rule_from_atoms(*rewritten(rule, draw), confidence=0.5)
    assert again == rule
    assert (again.text, again.id, again.template) == (rule.text, rule.id, rule.template)


@pytest.mark.parametrize("seed", SEEDS)
def test_another_body_has_another_id(seed: int) -> None:
    draw = random.Random(seed)
    one, other = random_rule(draw), random_rule(draw)
    assert (one.id == other.id) == (one == other)


def test_a_rule_is_the_same_by_a_template_and_by_numbered_atoms() -> None:
    """`ctp` generates predicates in the order of a template; the other methods walk atoms and their inverses."""
    names = ("a", "b", "c")
    for template, atoms in ((Template(3), (0, 1, 2)), (Template(2, reversed=True), (1 + 3, 0 + 3))):
        proved = Rule("p", Body.of(template, names[: template.length]), 0.9)
        walked = Rule("p", Body(steps_of(names, atoms)), 0.2)
        assert (proved.text, proved.id, proved.template) == (walked.text, walked.id, walked.template)


@pytest.mark.parametrize(
    ("rule", "text", "template"),
    [
        (Rule("p", Body((Step("q"),), "X"), 1.0), "p(X,Y) :- q(X,Z)", "1X"),
        (Rule("p", Body((Step("q", inverse=True),), "Y"), 1.0), "p(X,Y) :- q(Z,Y)", "1Y"),
        (Rule("p", Body((Step("q"),), "X", "d"), 1.0, constant="c"), "p(X,'c') :- q(X,'d')", "cX"),
        (Rule("p", Body((Step("q"), Step("r")), "Y"), 1.0, constant="c"), "p('c',Y) :- q(Y,Z), r(Z,Z2)", "cY"),
        (Rule("p", Body((Step("q"), Step("r", inverse=True))), 1.0), "p(X,Y) :- q(X,Z), r(Y,Z)", "2"),
    ],
)
def test_every_shape_of_a_body_is_written_from_the_variable_it_is_about(rule: Rule, text: str, template: str) -> None:
    assert (rule.text, str(rule.template)) == (text, template)


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (Atom("p", "X", "X"), [Atom("q", "X", "X")]),
        (Atom("p", "X", "Y"), []),
        (Atom("p", "X", "Y"), [Atom("q", "A", "B")]),
        (Atom("p", "X", "Y"), [Atom("q", "X", "Z"), Atom("r", "X", "Y")]),
        (Atom("p", "X", "Y"), [Atom("q", "X", "Z"), Atom("r", "Z", "W")]),
        (Atom("p", "X", "Y"), [Atom("q", "X", quoted("d"))]),
        (Atom("p", "X", "Y"), [Atom("q", "X", quoted("d")), Atom("q", quoted("d"), "Y")]),
        (Atom("p", quoted("c"), quoted("d")), [Atom("q", quoted("c"), quoted("d"))]),
        (Atom("p", "X", quoted("c")), [Atom("q", "Z", quoted("c"))]),
    ],
)
def test_atoms_that_are_no_path_are_no_rule(head: Atom, body: list[Atom]) -> None:
    with pytest.raises(DataError, match="must be a path"):
        rule_from_atoms(head, body, 1.0)


def test_of_equal_rules_the_most_confident_is_kept() -> None:
    weak, strong, other = (
        Rule("p", Body((Step("q"),)), 0.2),
        Rule("p", Body((Step("q"),)), 0.7),
        Rule("r", Body((Step("q"),)), 0.5),
    )
    assert each_once([weak, other, strong]) == [strong, other]


def leaf(*fact: str) -> ProofNode:
    return ProofNode(Fact(*fact), 1.0, "fact", fact=Fact(*fact))


def test_a_proof_says_what_each_variable_stands_for() -> None:
    rule = Rule("aunt", Body((Step("sister"), Step("parent", inverse=True), Step("knows"))), 1.0)
    children = (leaf("ann", "sister", "bob"), leaf("eve", "parent", "bob"), leaf("eve", "knows", "kim"))
    node = ProofNode(Fact("ann", "aunt", "kim"), 1.0, "rule", rule=rule, children=children)
    assert rule.text == "aunt(X,Y) :- sister(X,Z), parent(Z2,Z), knows(Z2,Y)"
    assert list((node.bindings or {}).items()) == [("X", "ann"), ("Y", "kim"), ("Z", "bob"), ("Z2", "eve")]
    assert children[0].bindings is None


def test_a_constant_is_bound_to_nothing() -> None:
    rule = Rule("speaks", Body((Step("lives in"),), "X", "Paris"), 1.0, constant="french")
    children = (leaf("ann", "lives in", "Paris"),)
    assert ProofNode(Fact("ann", "speaks", "french"), 1.0, "rule", rule=rule, children=children).bindings == {
        "X": "ann"
    }
