"""Several members of one model: rules averaged, answers with proofs, artifacts and checkpoints."""

from functools import cache
from typing import Any

import pytest
import torch

from ctp_core.artifact import decode, encode
from ctp_core.base.graph_examples import Examples, read_graphs, stacked
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.members import merge
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.tabled import TabledRules, TabledTheory
from ctp_core.ctp_graphs.trainer import CtpGraphsTrainer
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import GraphsKB
from ctp_core.registry import load_model
from ctp_core.rules import Template
from ctp_core.symbols import Fact, Goal
from ctp_core.tnorm.registry import TNORMS
from tests.variants import slow_but

CPU = torch.device("cpu")
PRODUCT = TNORMS["max-product"]
CHAIN = (Fact("a", "brother", "b"), Fact("b", "father", "c"), Fact("c", "sister", "d"), Fact("d", "mother", "e"))


@cache
def family_kb() -> GraphsKB:
    return graphs_kb({"train": family_graphs(120, (2, 3), seed=1)})


def trainer(**settings: Any) -> CtpGraphsTrainer:
    tabled = {"prover": "tabled", "semiring": "max-product", "gate": True, "members": 3, "select": "attentive"}
    small = {"templates": ("2", "2", "1R"), "dim": 8, "epochs": 4, "distinct": True, "depth": None, "validation": 0.1}
    optimiser = {"optimiser": "adam", "learning_rate": 0.05, "batch_size": 32, "eval_every": 1}
    return CtpGraphsTrainer(CtpGraphsConfig(**{**tabled, **small, **optimiser, **settings}), family_kb(), CPU)


@cache
def model(select: str, members: int = 3) -> CtpGraphsModel:
    made = trainer(select=select, members=members)
    made.fit()
    return made.model()


def answers_of(asked: CtpGraphsModel, **more: Any) -> Answers:
    [answers] = asked.answer([Question(Goal("a", None, "e"), CHAIN, **more)], Budget())
    assert isinstance(answers, Answers), answers
    return answers


def one_rule(head: int, body: tuple[int, int], weight: float) -> TabledTheory:
    """A theory of three predicates with one reformulator, which makes one rule."""
    places = [torch.zeros(3, 3, dtype=torch.double) for _ in body]
    for place, predicate in zip(places, body, strict=True):
        place[predicate, head] = 1.0
    guard = torch.zeros(1, 3, dtype=torch.double)
    guard[0, head] = weight
    return TabledTheory((TabledRules(Template.parse("2"), tuple(places), guard),), None, 3)


def weights_of(theory: TabledTheory) -> dict[tuple[int, int, int], float]:
    """The weight of every rule (head, body) that is not 0."""
    [rules] = theory.rules
    assert rules.guard is not None
    first, second = (place.reshape(3, -1, 3) for place in rules.places)
    found = {}
    for rank, head in rules.guard.nonzero().tolist():
        body = int(first[:, rank, head].argmax()), int(second[:, rank, head].argmax())
        found[head, *body] = float(rules.guard[rank, head])
    return found


def test_a_rule_weighs_its_mean_over_the_members() -> None:
    agreed, alone = (0, (1, 2)), (0, (2, 2))
    merged = merge([one_rule(*agreed, 0.9), one_rule(*agreed, 0.6), one_rule(*alone, 0.9)], PRODUCT)
    assert weights_of(merged) == pytest.approx({(0, 1, 2): 0.5, (0, 2, 2): 0.3})


def test_a_single_member_stays_as_it_is() -> None:
    only = one_rule(0, (1, 2), 0.9)
    assert merge([only], PRODUCT) is only


def test_a_member_that_makes_one_rule_twice_counts_its_better_one() -> None:
    places = [torch.zeros(3, 6, dtype=torch.double) for _ in range(2)]
    places[0][1, [0, 3]] = places[1][2, [0, 3]] = 1.0  # both reformulators, head 0
    guard = torch.tensor([[0.4, 0, 0], [0.8, 0, 0]], dtype=torch.double)
    twice = TabledTheory((TabledRules(Template.parse("2"), tuple(places), guard),), None, 3)
    assert weights_of(merge([twice, one_rule(0, (1, 2), 0.2)], PRODUCT)) == pytest.approx({(0, 1, 2): 0.5})


@pytest.mark.slow
@pytest.mark.parametrize("select", ["linear", "attentive", "memory", "ntp", "gntp"])
def test_an_answer_scores_what_its_first_proof_scores(select: str) -> None:
    for answer in answers_of(model(select)).items:
        assert answer.proofs[0].score == pytest.approx(answer.score, rel=1e-9)
        assert set(answer.proofs[0].facts) <= set(CHAIN)


@pytest.mark.parametrize("select", slow_but(["attentive"], ["linear", "attentive"]))
def test_scores_of_many_graphs_are_those_of_the_answers(select: str) -> None:
    asked = model(select)
    graph = family_kb().splits["train"][0]
    question = Question(Goal(graph.subject, None, graph.object), graph.facts, top_k=100, proofs=0)
    [answers] = asked.answer([question], Budget())
    assert isinstance(answers, Answers)
    examples = Examples.of(read_graphs([graph], merge=True), asked.scorer, 1.0)
    [batch] = stacked(examples, asked.scorer, None)
    [scores] = asked.scorer.scores(batch).tolist()
    found = {answer.fact.predicate: answer.score for answer in answers.items}
    for name, score in zip(asked.scorer.targets, scores, strict=True):
        assert found.get(name, 0.0) == pytest.approx(score, abs=1e-4)


def test_listed_rules_are_those_of_the_proofs() -> None:
    asked = model("attentive")
    confidences = {rule.text: rule.confidence for rule in asked.rules()}
    assert confidences
    used = [answer.proofs[0].tree.rule for answer in answers_of(asked).items]
    for rule in used:
        assert rule is not None
        assert rule.confidence == pytest.approx(confidences.get(rule.text, rule.confidence))


@pytest.mark.slow
def test_an_artifact_answers_the_same() -> None:
    asked = model("attentive")
    again = load_model(decode(encode(asked.to_artifact())), CPU)
    assert isinstance(again, CtpGraphsModel)
    assert answers_of(again) == answers_of(asked)
    assert again.rules() == asked.rules()


@pytest.mark.slow
def test_a_resumed_run_ends_bit_equal() -> None:
    whole, half, rest = trainer(), trainer(), trainer()
    whole.fit()
    half.train_epoch()
    rest.restore(decode(encode(half.checkpoint())))
    rest.fit()
    expected, found = (run.model().to_artifact().tensors for run in (whole, rest))
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_members_start_apart_and_the_first_as_if_it_were_alone() -> None:
    three, one = trainer().scorer, trainer(members=1).scorer
    assert len(three.theories) == 3
    assert torch.equal(three.theories[0].vectors, one.theory.vectors)
    assert not torch.equal(three.theories[0].vectors, three.theories[1].vectors)


def test_the_exact_prover_has_one_member() -> None:
    assert len(trainer(prover="exact").scorer.theories) == 1


@pytest.mark.slow
def test_artifacts_from_before_members_have_one() -> None:
    artifact = model("attentive", members=1).to_artifact()
    del artifact.manifest["config"]["members"]
    again = load_model(artifact, CPU)
    assert isinstance(again, CtpGraphsModel)
    assert again.config.members == 1
    assert answers_of(again) == answers_of(model("attentive", members=1))
