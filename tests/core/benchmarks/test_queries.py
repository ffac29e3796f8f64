"""Questions of the field's shapes: each needs a withheld fact, and its answers are ranked as by hand."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ctp_core.base.edges import EdgeList
from ctp_core.base.model import Budget
from ctp_core.benchmarks.links import LinksRun
from ctp_core.benchmarks.queries import QueriesRun, Question, draw_questions, ranks_of
from ctp_core.benchmarks.query_shapes import ANSWER, SHAPES, Drawn, answers, written
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.logic.answers import answer
from ctp_core.logic.formula import atoms_of, conjunction_text
from ctp_core.logic.question import LogicalQuestion, check, selected
from ctp_core.symbols import Fact
from tests.core.families import random_family
from tests.core.logic.models import KB, model_of

SAMPLES = Path(__file__).parents[3] / "service" / "samples"
NUM_ATOMS = {"1p": 1, "2p": 2, "2i": 2, "2u": 2, "2in": 2}


def family_kb() -> FactsKB:
    """Every sixth fact of a family is withheld."""
    family = random_family(1)
    pairs = {"parent": family.parent, "sibling": family.sibling, "aunt": family.aunt, "old": family.grandparent}
    facts = [Fact(a, predicate, b) for predicate, some in pairs.items() for a, b in some]
    return FactsKB.from_facts({"train": [f for n, f in enumerate(facts) if n % 6], "test": facts[::6]})


@pytest.mark.parametrize("shape", SHAPES)
def test_every_question_has_answers_that_the_training_facts_do_not_give(shape: str) -> None:
    kb = family_kb()
    questions = draw_questions(kb, "test", shape, 5, np.random.default_rng(0))
    assert len(questions) == 5
    stated = EdgeList(kb.splits["train"], len(kb.entities), len(kb.predicates))
    for question in questions:
        assert question.hard
        assert question.hard <= question.true
        assert not question.hard & answers(question.drawn, stated)
        where = written(question.drawn, kb)
        check(LogicalQuestion(where, selected(where, ["?x"])))
        assert len(list(atoms_of(where))) == NUM_ATOMS.get(shape, 3)


def test_a_question_is_written_and_answered_by_sets() -> None:
    step = Drawn("step", KB.predicates.id("targets"), (Drawn("anchor", KB.entities.id("aspirin")),))
    drawn = Drawn("step", KB.predicates.id("causes"), (step,))
    assert conjunction_text(written(drawn, KB)) == "targets(aspirin, ?y0), causes(?y0, ?x)"
    edges = EdgeList(KB.splits["train"], len(KB.entities), len(KB.predicates))
    assert {KB.entities.names[entity] for entity in answers(drawn, edges)} == {"pain", "fever"}


def test_ranks_leave_out_the_other_true_answers_and_share_what_is_not_listed() -> None:
    kb, queries = KB, QueriesRun(LinksRun(Path(), "", "proofs"))
    drawn = Drawn("step", kb.predicates.id("treats"), (Drawn("anchor", kb.entities.id("aspirin")),))
    fever, pain = kb.entities.id("fever"), kb.entities.id("pain")
    question = Question(drawn, frozenset([fever]), frozenset([fever, pain]))
    where = written(drawn, kb)
    found = answer(model_of("proofs"), LogicalQuestion(where, (ANSWER,), top_k=99, proofs=0), Budget())
    scores = {one.bindings["?x"]: one.score for one in found.items}
    above = sum(score > scores["fever"] for name, score in scores.items() if name != "pain")
    equal = sum(score == scores["fever"] for name, score in scores.items() if name not in ("pain", "fever"))
    [rank], truncated = ranks_of(model_of("proofs"), kb, queries, question)
    assert (rank, truncated) == (1 + above + equal / 2, False)
    [unlisted], _ = ranks_of(model_of("proofs"), kb, QueriesRun(queries.links, listed=1), question)
    assert unlisted == 1 + (len(kb.entities) - 2) / 2, "only pain is listed, which does not count"


@pytest.mark.slow
def test_the_command_writes_the_figures_of_each_shape(tmp_path: Path) -> None:
    config = json.dumps({"rank": 8, "epochs": 2})
    file = tmp_path / "figures.json"
    words = ["bench", "queries", "--data", str(SAMPLES), "--dataset", "umls", "--model", "complex", "--config", config]
    command = [sys.executable, "-m", "service.cli", *words, "--questions", "2", "--json", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())
    assert list(figures["shapes"]) == list(SHAPES)
    assert all(0 < row["mrr"] <= 1 and row["truncated"] == 0 for row in figures["shapes"].values())
    assert "3in     2 questions  mrr" in done.stdout
