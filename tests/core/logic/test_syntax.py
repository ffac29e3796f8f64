"""Questions as text and as objects: what is read, and where an error points."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctp_core.logic.formula import Conjunction, Formula, Not, Or, QueryAtom, Variable, conjunction_text
from ctp_core.logic.question import LogicalQuestion, check, selected
from ctp_core.logic.syntax import MAX_DEPTH, MAX_TEXT, BadQuery, parse, read_where

D, P = Variable("d"), Variable("p")
TREATS = QueryAtom("treats", D, "asthma")


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("treats(?d, asthma)", (TREATS,)),
        (" treats ( ?d ,asthma ) .", (TREATS,)),
        ('treats(?d, asthma), "has target"(?d, "a, (b)")', (TREATS, QueryAtom("has target", D, "a, (b)"))),
        ('p("?d", "\\u00e9\\"")', (QueryAtom("p", "?d", 'é"'),)),
        ("not treats(?d, asthma)", (Not(TREATS),)),
        ("((treats(?d, asthma)))", (TREATS,)),
        ('"not"(a, b)', (QueryAtom("not", "a", "b"),)),
        ("http://x.org/y#p(http://x.org/a-1, ?d)", (QueryAtom("http://x.org/y#p", "http://x.org/a-1", D),)),
        (
            "(treats(?d, asthma), a(?d, b) or not treats(?d, asthma))",
            (Or(((TREATS, QueryAtom("a", D, "b")), (Not(TREATS),))),),
        ),
    ],
)
def test_a_text_is_read(text: str, formulas: Conjunction) -> None:
    assert parse(text) == formulas


@pytest.mark.parametrize(
    ("text", "character", "reason"),
    [
        ("", 1, "expected an atom"),
        ("treats", 7, "expected a bracket after the predicate treats; the text ends here"),
        ("treats(?d asthma)", 11, "expected a comma and the second argument; found 'asthma'"),
        ("treats(?d, asthma", 18, "expected a closing bracket"),
        ("treats(?d, asthma, x)", 18, "an atom has two arguments; found ','"),
        ("treats(?d, asthma) targets(?d, ?p)", 20, "expected a comma and another atom"),
        ("treats(?d, asthma),", 20, "expected an atom"),
        ("?p(a, b)", 1, "a predicate cannot be a variable"),
        ("treats(?1, b)", 8, "a variable is a question mark and a word"),
        ('treats("a, b)', 8, 'this quoted name is not closed: add "'),
        ('treats("\\q", b)', 8, "not a JSON string"),
        ('treats("", b)', 8, "a name is empty"),
        ("(a(b, c), d(e, f))", 1, "a bracket holds alternatives"),
        ("(a(b, c) or d(e, f)", 20, "expected a comma, `or`, or the closing bracket"),
        ("or(a, b)", 1, "`or`"),
    ],
)
def test_an_error_points_at_the_character(text: str, character: int, reason: str) -> None:
    with pytest.raises(BadQuery) as caught:
        parse(text, "where.2")
    assert caught.value.character == character
    assert str(caught.value).startswith(f"where.2, character {character}: ")
    assert reason in str(caught.value)


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=8)
TERMS = NAMES | st.sampled_from([D, P])
ATOMS = st.builds(QueryAtom, NAMES, TERMS, TERMS)


def _larger(formulas: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    branches = st.lists(formulas, min_size=1, max_size=2).map(tuple)
    return st.builds(Not, formulas) | st.builds(Or, st.lists(branches, min_size=2, max_size=3).map(tuple))


@given(st.lists(st.recursive(ATOMS, _larger, max_leaves=4), min_size=1, max_size=3).map(tuple))
def test_what_is_written_is_read_again(formulas: Conjunction) -> None:
    assert parse(conjunction_text(formulas)) == formulas


@given(st.text('ab?_"\\(), .ornt\u00e9\n1', max_size=40))
def test_any_text_is_read_or_refused_at_a_character_of_it(text: str) -> None:
    try:
        parse(text)
    except BadQuery as error:
        assert error.character is not None
        assert 1 <= error.character <= len(text) + 1


def test_objects_and_texts_mean_the_same() -> None:
    atom = {"subject": "?d", "predicate": "treats", "object": "asthma"}
    assert read_where([atom]) == read_where(["treats(?d, asthma)"]) == (TREATS,)
    assert read_where([{"not": atom}, {"or": [["treats(?d, asthma)"], [atom, {"not": "a(?d, b)"}]]}]) == (
        Not(TREATS),
        Or(((TREATS,), (TREATS, Not(QueryAtom("a", D, "b"))))),
    )


@pytest.mark.parametrize(
    ("where", "place"),
    [
        ([7], "where.0"),
        ([{"predicate": "p", "subject": "a"}], "where.0"),
        ([{"predicate": "p", "subject": "a", "object": None}], "where.0.object"),
        ([{"predicate": "?p", "subject": "a", "object": "b"}], "where.0.predicate"),
        (["p(a, b)", {"not": "p(a, b), q(a, b)"}], "where.1.not"),
        ([{"or": [["p(a, b)"]]}], "where.0.or"),
        ([{"or": [["p(a, b)"], []]}], "where.0.or"),
        ([{"or": [["p(a, b)"], ["p(a b)"]]}], "where.0.or.1.0"),
        (["p" * (MAX_TEXT + 1)], "where.0"),
    ],
)
def test_an_object_that_is_none_is_refused_with_its_place(where: list[Any], place: str) -> None:
    with pytest.raises(BadQuery) as caught:
        read_where(where)
    assert caught.value.place == place


def test_what_stands_too_deep_is_refused() -> None:
    nested: Any = "p(a, b)"
    for _ in range(MAX_DEPTH + 1):
        nested = {"not": nested}
    for where in ([nested], ["not " * (MAX_DEPTH + 1) + "p(a, b)"], ["(" * 5000 + "p(a, b)"], [json.dumps("x" * 99)]):
        with pytest.raises(BadQuery):
            read_where(where)


@pytest.mark.parametrize(
    ("where", "select", "reason"),
    [
        ("p(?x, a), not q(?y, b)", ["?x"], r"\?y occurs under `not` alone"),
        ("not q(?x, b)", [], r"\?x occurs under `not` alone"),
        ("(p(?x, a) or not q(?x, ?y))", ["?x"], r"\?x occurs under `not` alone|\?y occurs under `not` alone"),
        ("p(?x, a)", ["?y"], r"select.0: \?y does not occur"),
        ("p(?x, a)", ["x"], r"select.0: 'x' is not a variable"),
        ("(p(?x, a) or q(?y, b))", ["?x"], r"select.0: \?x is not bound"),
        (", ".join(["p(?x, a)"] * 50), ["?x"], "the question has 50 atoms, more than 16"),
    ],
)
def test_a_question_without_a_meaning_is_refused(where: str, select: list[str], reason: str) -> None:
    read = parse(where)
    with pytest.raises(BadQuery, match=reason):
        check(LogicalQuestion(read, selected(read, select)))


def test_all_bound_variables_are_selected_unless_some_are_named() -> None:
    read = parse("p(?x, ?y), (q(?x, ?z) or q(?y, b)), not q(?y, ?x)")
    assert selected(read, None) == (Variable("x"), Variable("y"))
    assert selected(read, ["?y", "?y"]) == (Variable("y"),)


def test_a_question_with_too_many_atoms_is_refused_before_it_is_read_whole() -> None:
    branch = ", ".join(["p(?x, a)"] * 100)
    for where in ([branch, "this is not read any more("], [{"or": [[branch], ["nor this("]]}]):
        with pytest.raises(BadQuery, match=r"more than 16 \(CTP_MAX_ATOMS\) atoms"):
            read_where(where, 16, "CTP_MAX_ATOMS")
    assert len(read_where([branch])) == 100
