"""Logical questions against an oracle that tries every binding, and what else an answer must keep to."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctp_core.base.deadline import OutOfTime
from ctp_core.base.model import Budget
from ctp_core.errors import BadQuestion, UnknownSymbol
from ctp_core.logic.answers import LogicalAnswers, answer
from ctp_core.logic.formula import Conjunction, Formula, Not, Or, QueryAtom, Variable, bound_by
from ctp_core.logic.question import LogicalQuestion, check, selected
from ctp_core.logic.syntax import BadQuery, parse
from ctp_core.logic.truth import TNORM_OF
from ctp_core.symbols import Fact
from tests.core.clock import BudgetOfLooks
from tests.core.logic.models import FACTS, KB, model_of
from tests.core.logic.oracle import NOTHING, Oracle
from tests.variants import slow_but

EVERY = 10_000
SHAPES = {
    "1p": "treats(?x, pain)",
    "2p": "targets(aspirin, ?y), causes(?y, ?x)",
    "3p": "targets(aspirin, ?y), causes(?y, ?z), treats(?x, ?z)",
    "2i": "treats(?x, pain), targets(?x, cox)",
    "3i": "treats(?x, pain), targets(?x, cox), treats(?x, fever)",
    "ip": "treats(?y, pain), targets(?y, cox), targets(?y, ?x)",
    "pi": "targets(aspirin, ?y), causes(?y, ?x), treats(aspirin, ?x)",
    "2u": "(treats(?x, pain) or targets(?x, cox))",
    "up": "(treats(?y, pain) or targets(?y, cox)), targets(?y, ?x)",
    "2in": "treats(?x, pain), not targets(?x, cox)",
    "3in": "treats(?x, pain), targets(?x, cox), not treats(?x, fever)",
    "inp": "treats(?y, pain), not targets(?y, cox), targets(?y, ?x)",
    "pin": "targets(aspirin, ?y), causes(?y, ?x), not treats(aspirin, ?x)",
    "pni": "targets(aspirin, ?y), not causes(?y, ?x), treats(ibuprofen, ?x)",
    "4 in a row": "targets(aspirin, ?a), causes(?a, ?b), treats(?c, ?b), targets(?c, ?x)",
    "4 in a star": "treats(?x, pain), targets(?x, cox), treats(?x, fever), causes(?y, ?x)",
    "4 in a ring": "targets(?x, ?a), causes(?a, ?b), treats(?c, ?b), targets(?c, ?a)",
    "a loop": "causes(?x, ?x), treats(?y, ?x)",
    "apart": "treats(?x, pain), causes(?y, fever)",
    "ground": "treats(aspirin, pain), targets(aspirin, salt)",
    "ors within": "(treats(?x, pain), not targets(?x, cox) or targets(?x, cox), (treats(?x, fever) or causes(?x, ?y)))",
    "a negated or": "treats(?x, pain), not (targets(?x, cox) or causes(?x, fever))",
    "twice not": "treats(?x, pain), not not targets(?x, cox)",
}
CASES = [(shape, tnorm, "proofs") for shape in SHAPES for tnorm in TNORM_OF]
OTHERS = [(shape, "product", method) for shape in SHAPES for method in ("complex", "hybrid", "ctp", "neurallp")]


@cache
def oracle_of(method: str) -> Oracle:
    return Oracle(model_of(method))


def ask(
    where: str | Conjunction, method: str = "proofs", select: list[str] | None = None, **more: object
) -> LogicalAnswers:
    question = questioned(where, select, **more)
    return answer(model_of(method), question, Budget())


def questioned(where: str | Conjunction, select: list[str] | None = None, **more: object) -> LogicalQuestion:
    read = parse(where) if isinstance(where, str) else where
    question = LogicalQuestion(read, selected(read, select), **{"top_k": EVERY, "proofs": 0, **more})
    check(question)
    return question


def found_by(answers: LogicalAnswers) -> dict[str, float]:
    return {", ".join(one.bindings.values()): one.score for one in answers.items if one.score > NOTHING}


@pytest.mark.parametrize(("shape", "tnorm", "method"), slow_but(CASES[:12], [*CASES, *OTHERS]))
def test_the_answers_are_those_of_trying_every_binding(shape: str, tnorm: str, method: str) -> None:
    question = questioned(SHAPES[shape], ["?x"] if "?x" in SHAPES[shape] else None, tnorm=tnorm)
    found = answer(model_of(method), question, Budget())
    assert found_by(found) == pytest.approx(oracle_of(method).answers(question), abs=1e-9)
    scores = [one.score for one in found.items]
    assert scores == sorted(scores, reverse=True)
    assert found.exact and not found.truncated


@st.composite
def conjunctions(draw: st.DrawFn, atoms: int) -> Conjunction:
    """Formulas of so many atoms over three variables and some entities, negations and alternatives among them."""
    terms = st.sampled_from([Variable("x"), Variable("x"), Variable("y"), Variable("z"), "cox", "pain", "aspirin"])
    left, found = atoms, list[Formula]()
    while left:
        size = draw(st.integers(1, left))
        left -= size
        some = [QueryAtom(draw(st.sampled_from(list(KB.predicates))), draw(terms), draw(terms)) for _ in range(size)]
        kind = draw(st.sampled_from(["and", "and", "not", "or"]))
        if kind == "or" and size > 1:
            cut = draw(st.integers(1, size - 1))
            branches: tuple[Conjunction, ...] = (tuple(some[:cut]), tuple(some[cut:]))
            found.append(Not(Or(branches)) if draw(st.booleans()) else Or(branches))
        else:
            found += [Not(atom) for atom in some] if kind == "not" else some
    return tuple(found)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(1, 4).flatmap(conjunctions), st.sampled_from(list(TNORM_OF)), st.booleans())
def test_the_answers_to_any_question_are_those_of_trying_every_binding(
    where: Conjunction, tnorm: str, first_alone: bool
) -> None:
    names = sorted(map(str, bound_by(where)))
    question = LogicalQuestion(where, selected(where, names[:1] if first_alone else names), tnorm=tnorm, top_k=EVERY)
    try:
        check(question)
    except BadQuery:
        return
    found = answer(model_of("proofs"), question, Budget())
    assert found_by(found) == pytest.approx(oracle_of("proofs").answers(question), abs=1e-9)


def test_a_stated_fact_scores_1_and_is_its_own_proof() -> None:
    best = ask("treats(?x, pain)", proofs=2).items[0]
    assert (best.score, best.atoms[0].stated) == (1.0, True)
    assert [proof.text for proof in best.atoms[0].proofs] == ["treats(aspirin, pain) ⇐ treats(aspirin, pain)"]


def test_a_fact_that_is_not_stated_comes_with_the_proofs_and_the_probability_that_its_own_question_gives() -> None:
    [best] = ask("treats(aspirin, fever)", proofs=3).items
    assert best.bindings == {}
    assert 0 < best.score < 1
    assert best.score == pytest.approx(oracle_of("proofs").score(Fact("aspirin", "treats", "fever")), rel=1e-12)
    assert best.atoms[0].proofs
    assert {fact for proof in best.atoms[0].proofs for fact in proof.facts} <= set(FACTS)


def test_the_atoms_come_in_the_order_of_the_question_whatever_the_plan_is() -> None:
    best = ask("causes(?y, ?z), not treats(?x, ?z), targets(?x, ?y)", explain=True).items[0]
    assert [atom.fact.predicate for atom in best.atoms] == ["causes", "treats", "targets"]
    assert [atom.negated for atom in best.atoms] == [False, True, False]
    assert best.score == pytest.approx(best.atoms[0].score * best.atoms[1].score * best.atoms[2].score)


def test_the_plan_begins_with_the_fewest_candidates_and_names_what_each_step_checks() -> None:
    plan = ask("causes(?y, ?z), targets(aspirin, ?y)", explain=True).plan
    assert plan == [
        {"variable": "?y", "checks": ["targets(aspirin, ?y)"], "candidates": 1.0, "partial_answers": 1.0},
        {"variable": "?z", "checks": ["causes(?y, ?z)"], "candidates": 1.5, "partial_answers": 1.5},
    ]


def test_each_binding_is_an_answer_once_unless_all_of_them_are_wanted() -> None:
    where = "targets(?x, ?y), causes(?y, ?z)"
    assert len(ask(where, select=["?x"]).items) == len(KB.entities)
    every = ask(where, select=["?x"], distinct=False)
    assert len(every.items) == len(KB.entities) ** 3


def test_facts_of_the_question_hold_and_may_name_new_entities() -> None:
    facts = (Fact("novel", "targets", "cox"),)
    best = ask("targets(?x, cox), treats(?x, pain)", facts=facts, without=(Fact("aspirin", "treats", "pain"),))
    assert "novel" in found_by(best)
    question = questioned("targets(?x, cox), treats(?x, pain)", facts=facts)
    expected = Oracle(model_of("proofs"), facts).answers(question)
    assert found_by(answer(model_of("proofs"), question, Budget())) == pytest.approx(expected, abs=1e-9)


def test_a_fact_that_is_left_out_neither_holds_nor_proves() -> None:
    stated = Fact("cox", "causes", "fever")
    [with_it] = ask("causes(cox, fever)").items
    [left_out] = ask("causes(cox, fever)", proofs=5, without=(stated,)).items
    assert with_it.score == 1.0 > left_out.score
    assert all(stated not in proof.facts for proof in left_out.atoms[0].proofs)
    before, after = (ask("treats(aspirin, fever)", proofs=9, without=some) for some in ((), (stated,)))
    assert any(stated in proof.facts for proof in before.items[0].atoms[0].proofs)
    assert not any(stated in proof.facts for proof in after.items[0].atoms[0].proofs)


def test_leaving_out_what_is_not_there_is_warned_of() -> None:
    [warning] = ask("causes(cox, ?x)", without=(Fact("cox", "causes", "joy"),)).warnings
    assert "does not state causes(cox, joy)" in warning


def test_a_type_limits_what_a_variable_may_be() -> None:
    drugs = (Fact("aspirin", "targets", "Drug"),)
    where = "causes(?y, ?z)"
    of_type = ask(where, facts=drugs, types={Variable("y"): "Drug"}, type_predicate="targets")
    assert {one.bindings["?y"] for one in of_type.items} == {"aspirin"}
    with pytest.raises(UnknownSymbol, match=r"type 'Drog' is unknown as an object of 'targets'; .* 'Drug'"):
        ask(where, facts=drugs, types={Variable("y"): "Drog"}, type_predicate="targets")
    with pytest.raises(BadQuery, match="name it in `type_predicate`"):
        ask(where, types={Variable("y"): "Drug"})


@pytest.mark.parametrize("where", ["treets(?x, pain)", "treats(?x, paen)"])
def test_an_unknown_name_is_refused_with_the_nearest_ones(where: str) -> None:
    with pytest.raises(UnknownSymbol, match=r"the nearest known names are '(treats|pain)'"):
        ask(where)


def test_a_search_without_time_ends_and_says_so() -> None:
    question = questioned("causes(?a, ?b), causes(?c, ?d), causes(?e, ?f), causes(?g, ?h)")
    found = answer(model_of("proofs"), question, BudgetOfLooks(looks=5))
    assert found.truncated and not found.exact


def test_time_that_is_over_before_the_atoms_are_shown_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of large KBs look at the time while they score the atoms of the answers."""

    def late(*_: object) -> None:
        raise OutOfTime

    monkeypatch.setattr("ctp_core.logic.answers._Answering._proved", late)
    found = answer(model_of("proofs"), questioned("treats(?x, pain)"), Budget())
    assert (found.items, found.exact, found.truncated) == ((), False, True)


def test_answers_that_were_complete_when_time_was_over_are_kept() -> None:
    question = questioned("causes(?a, ?b), causes(?c, ?d), causes(?e, ?f)")
    found = answer(model_of("proofs"), question, BudgetOfLooks(looks=20))
    assert found.truncated
    assert found.items


def test_a_narrow_search_says_that_it_is_not_exact_and_finds_what_is_stated_first() -> None:
    found = answer(model_of("proofs"), questioned("treats(?x, pain)"), Budget(), width=2)
    assert [one.score for one in found.items] == [1.0, 1.0]
    assert not found.exact and not found.truncated


def test_questions_of_graphs_are_refused() -> None:
    class Graphs:
        pass

    with pytest.raises(BadQuestion, match="a model of facts"):
        answer(Graphs(), questioned("p(?x, ?y)"), Budget())  # type: ignore[arg-type]
