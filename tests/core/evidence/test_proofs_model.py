"""Proofs that add up to the logit."""

import json
import math
import tracemalloc
from itertools import pairwise, product
from typing import get_args

import numpy as np
import pytest
import torch

from ctp_core.artifact import Artifact
from ctp_core.base.edges import EdgeList
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Answer, Model
from ctp_core.confidence import PESSIMISM
from ctp_core.errors import ArtifactError
from ctp_core.evidence import attention_arrays
from ctp_core.evidence.config import EvidenceTemplate, ProofsConfig
from ctp_core.evidence.model import MIN_EVIDENCE
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.evidence.rules import chain_rule
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.proofs import ProofNode
from ctp_core.registry import create_trainer
from ctp_core.rules import Template
from ctp_core.symbols import Fact, Goal
from tests.core.base.test_facts_model import CONFIGS, CPU, FAMILY, HIDDEN, KB, ask, model_of
from tests.variants import slow_but

SATURATED = CONFIGS["proofs"].model_copy(update={"saturation": 0.2, "loss": "open_world"})
NEW = (Fact("new", "parent", HIDDEN.subject), Fact("new", "sister", HIDDEN.object))
GOALS = [Goal(*HIDDEN[:2], None), Goal(None, *HIDDEN[1:]), Goal(HIDDEN.subject, None, HIDDEN.object)]


@pytest.fixture(scope="module", params=slow_but(["saturated"], ["proofs", "saturated", "proofs by share"]))
def model(request: pytest.FixtureRequest) -> Model:
    return create_trainer(SATURATED, KB, CPU).fit() if request.param == "saturated" else model_of(request.param)


def answers_to(model: Model, goal: Goal, extra: tuple[Fact, ...], proofs: int) -> tuple[Answer, ...]:
    return ask(model, goal, facts=extra, top_k=1000, proofs=proofs)[0]


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
def test_where_walks_are_too_many_scores_stay_and_proofs_are_left_out(
    model: Model, goal: Goal, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = answers_to(model, goal, NEW, proofs=100_000)
    monkeypatch.setattr(attention_arrays, "MAX_WALKS", 20)
    bounded = answers_to(model, goal, NEW, proofs=100_000)
    assert {answer.fact: answer.score for answer in bounded} == pytest.approx({a.fact: a.score for a in whole})
    assert sum(len(answer.proofs) for answer in bounded) < sum(len(answer.proofs) for answer in whole)
    assert None in [(answer.score_parts or {})["num_proofs"] for answer in bounded]
    numbers = {answer.fact: (answer.score_parts or {})["num_proofs"] for answer in whole}
    for answer in bounded:
        parts = answer.score_parts or {}
        assert parts["num_proofs"] in (None, numbers[answer.fact])
        total = sum(parts[name] or 0.0 for name in ("bias", "shown", "rest"))
        assert total == pytest.approx(math.log(answer.score / (1 - answer.score)), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("extra", [(), NEW])
@pytest.mark.parametrize("goal", GOALS)
def test_the_shares_of_all_proofs_and_the_bias_are_the_logit(model: Model, goal: Goal, extra: tuple[Fact, ...]) -> None:
    for answer in answers_to(model, goal, extra, proofs=100_000):
        parts = answer.score_parts
        assert parts is not None
        shares = [proof.share or 0.0 for proof in answer.proofs]
        logit = math.log(answer.score / (1 - answer.score))
        assert parts["num_proofs"] == len(shares)
        assert parts["shown"] == pytest.approx(sum(shares))
        assert parts["rest"] == pytest.approx(0, abs=1e-4)
        assert (parts["bias"] or 0.0) + sum(shares) == pytest.approx(logit, abs=1e-4)


@pytest.mark.parametrize("extra", [(), NEW])
def test_the_parts_add_up_however_few_proofs_are_shown(model: Model, extra: tuple[Fact, ...]) -> None:
    goal = Goal(*HIDDEN[:2], None)
    complete = {a.fact: a for a in answers_to(model, goal, extra, proofs=100_000)}
    for answer in answers_to(model, goal, extra, proofs=2):
        parts, everything = answer.score_parts, complete[answer.fact]
        assert parts is not None
        total = sum(parts[name] or 0.0 for name in ("bias", "shown", "rest"))
        assert 1 / (1 + math.exp(-total)) == pytest.approx(answer.score)
        assert answer.proofs == everything.proofs[:2]
        assert parts["num_proofs"] == len(everything.proofs)


def test_proofs_are_distinct_best_first_and_stand_on_facts(model: Model) -> None:
    stated = {*KB.facts("train"), *NEW}
    for answer in answers_to(model, Goal(None, *HIDDEN[1:]), NEW, proofs=50):
        assert len({(proof.tree.rule, proof.facts) for proof in answer.proofs}) == len(answer.proofs)
        assert all((a.share or 0) >= (b.share or 0) for a, b in pairwise(answer.proofs))
        assert all(fact in stated for proof in answer.proofs for fact in proof.facts)
        assert all(proof.tree.goal == answer.fact for proof in answer.proofs)


def test_a_fact_never_proves_itself(model: Model) -> None:
    for a, b in FAMILY.parent[:5]:
        (answer,) = answers_to(model, Goal(a, "parent", b), (), proofs=100)
        assert all(answer.fact not in proof.facts for proof in answer.proofs)


def recomputed(node: ProofNode) -> float:
    return math.prod([u.score for u in node.unifications] + [recomputed(child) for child in node.children])


def test_the_score_of_a_node_is_the_product_of_its_unifications_and_children(model: Model) -> None:
    for answer in answers_to(model, Goal(*HIDDEN[:2], None), (), proofs=20):
        for proof in answer.proofs:
            assert proof.score == pytest.approx(recomputed(proof.tree))
            assert len(proof.tree.unifications) == len(proof.tree.children)


def added(model: ProofsModel, predicate: str, share: float) -> float:
    """What a share adds to the calibrated logit of a fact about which nothing else is known."""
    assert model.calibration is not None
    predicates = np.full(2, KB.predicates.id(predicate))
    start = model.biases(np.array([[0, predicates[0], 0]]))[0]
    without, with_it = model.calibration.logits(np.array([start, start + share]), predicates)
    return float(with_it - without)


def test_the_weight_of_a_rule_is_what_its_only_proof_adds_where_entities_are_not_common() -> None:
    model = create_trainer(ProofsConfig(templates={"2": 3}, epochs=60), KB, torch.device("cpu")).fit()
    assert isinstance(model, ProofsModel)
    calibration, facts = model.calibration, (Fact("a", "parent", "b"), Fact("b", "parent", "c"))
    ((answer,),) = ask(model.calibrated_by(None), Goal("a", "grandparent", "c"), facts=facts)
    model.calibrated_by(calibration)
    (proof,) = answer.proofs
    assert proof.facts == facts
    assert proof.tree.rule is not None
    listed = {rule.text: rule for rule in model.rules()}[proof.tree.rule.text]
    assert listed.weight == pytest.approx(added(model, "grandparent", proof.share or 0.0))
    assert listed.confidence == proof.tree.rule.confidence
    assert listed.support is not None
    assert listed.precision is not None
    assert listed.confidence == pytest.approx(listed.support / (listed.support / listed.precision + PESSIMISM))


@pytest.mark.slow
def test_a_proof_cites_a_listed_rule_unless_it_hardly_counts(model: Model) -> None:
    listed = {rule.text: rule.confidence for rule in model.rules()}
    people = sorted({name for pair in FAMILY.parent for name in pair})[:6]
    goals = [Goal(person, predicate, None) for person in people for predicate in KB.predicates]
    proofs = [proof for goal in goals for answer in ask(model, goal, proofs=50)[0] for proof in answer.proofs]
    counting = [proof for proof in proofs if (proof.share or 0.0) >= MIN_EVIDENCE]
    assert {len(proof.facts) for proof in counting} >= {1, 2}
    for proof in counting:
        assert proof.tree.rule is not None
        assert listed[proof.tree.rule.text] == proof.tree.rule.confidence


def test_a_rule_is_listed_as_far_as_its_evidence_says(model: Model) -> None:
    assert isinstance(model, ProofsModel)
    arrays, predicate = model.arrays, KB.predicates.id("grandparent")
    atoms = range(2 * len(KB.predicates))
    rules = [(t, body) for t in arrays.attention for body in product(atoms, repeat=t.length)]
    strong = {rule for rule in rules if arrays.evidence(predicate, *rule) >= MIN_EVIDENCE}
    assert arrays.bodies(predicate, MIN_EVIDENCE) == strong
    assert {template for template, _ in strong} >= {Template(1), Template(2)}


def test_predicates_asked_for_together_have_the_logits_they_have_alone(model: Model) -> None:
    assert isinstance(model, ProofsModel)
    predicates, subjects = np.arange(3), np.zeros(3, dtype=np.int64)
    fresh = ProofsModel(model.config, KB, model.head)
    together = fresh.kb_logits(GoalIds.for_objects(subjects, predicates))
    facts = KB.splits["train"]
    for predicate in predicates.tolist():
        alone = model.arrays.reach(EdgeList(facts, len(KB.entities), 3), predicate, 0, forward=True)
        assert together[predicate] == pytest.approx(alone, abs=1e-4)


def test_an_unseen_entity_is_answered_from_the_facts_of_the_question(model: Model) -> None:
    child = HIDDEN.object
    facts = (Fact("stranger", "parent", "newcomer"), Fact("newcomer", "parent", child))
    (answers,) = ask(model, Goal("stranger", "grandparent", None), facts=facts, top_k=1)
    assert answers[0].fact.object == child
    assert answers[0].proofs[0].facts == facts


@pytest.mark.parametrize("extra", [(), NEW])
@pytest.mark.parametrize("goal", [*GOALS, Goal(FAMILY.parent[0][0], "parent", None)])
def test_who_asks_for_no_proofs_gets_the_same_scores(model: Model, goal: Goal, extra: tuple[Fact, ...]) -> None:
    listed = {answer.fact: answer for answer in answers_to(model, goal, extra, proofs=3)}
    for answer in answers_to(model, goal, extra, proofs=0):
        other = listed[answer.fact]
        assert (answer.proofs, answer.score) == ((), other.score)
        assert answer.score_parts is not None
        assert other.score_parts is not None
        assert set(answer.score_parts) == set(other.score_parts) == {"bias", "shown", "rest", "num_proofs"}
        assert answer.score_parts["num_proofs"] is None, "nobody has counted them"
        proved = (other.score_parts["shown"] or 0.0) + (other.score_parts["rest"] or 0.0)
        assert answer.score_parts["rest"] == pytest.approx(proved)


def test_the_longest_body_has_a_variable_between_any_two_atoms() -> None:
    longest = max(map(Template.parse, get_args(EvidenceTemplate)))
    rule = chain_rule(("p",), 0, longest, (0,) * longest.length, weight=1.0)
    assert len({atom.subject for atom in rule.body.atoms}) == longest.length


def test_what_is_said_of_one_entity_alone_is_part_of_the_bias_and_never_a_proof() -> None:
    templates = {"1": 2, "1X": 2, "1Y": 2}
    model = create_trainer(ProofsConfig(templates=templates, epochs=30), KB, torch.device("cpu")).fit()
    assert isinstance(model, ProofsModel)
    asked = Goal(FAMILY.parent[0][0], "parent", None)
    ((*shown,), (*hidden,)) = (answers_to(model, asked, (), proofs=number) for number in (50, 0))
    for answer, same in zip(shown, hidden, strict=True):
        assert not any(proof.tree.rule is None or proof.tree.rule.prior for proof in answer.proofs)
        assert answer.score_parts is not None
        assert same.score_parts is not None
        assert answer.score_parts["bias"] == pytest.approx(same.score_parts["bias"])
    biases = {round(answer.score_parts["bias"] or 0.0, 3) for answer in shown if answer.score_parts}
    assert len(biases) > 1, "entities are not equally common"
    listed = [rule for rule in model.rules() if rule.predicate == "parent"]
    assert [rule.prior for rule in listed] == sorted(rule.prior for rule in listed)


def test_a_loaded_model_knows_what_was_counted(model: Model) -> None:
    assert isinstance(model, ProofsModel)
    listed = {rule.text: rule.confidence for rule in model.rules()}
    loaded = ProofsModel.from_artifact(model.to_artifact(), torch.device("cpu"))
    assert loaded._counts == model._counts  # counting anew would keep the first question waiting
    assert {rule.text: rule.confidence for rule in loaded.rules()} == listed


def test_counts_are_stored_by_what_a_rule_says_and_never_by_its_id(model: Model) -> None:
    assert isinstance(model, ProofsModel)
    listed = {rule.text: rule.support for rule in model.rules()}
    stored = model.to_artifact()
    assert not any(rule.id in json.dumps(stored.manifest["rule_counts"]) for rule in model.rules())
    earlier = Artifact({**stored.manifest, "rule_counts": {"0123456789ab": [7, 8]}}, stored.tensors)
    loaded = ProofsModel.from_artifact(earlier, CPU)
    assert not loaded._counts
    assert {rule.text: rule.support for rule in loaded.rules()} == listed


@pytest.mark.parametrize("counts", [7, [7], [[0, "1", 7, 1, 2]], [[0, "1", [0], 1]], [[0, "1", [0], "a", 2]]])
def test_counts_that_cannot_be_read_are_an_error_of_the_artifact(model: Model, counts: object) -> None:
    stored = model.to_artifact()
    with pytest.raises(ArtifactError, match="counts of rules"):
        ProofsModel.from_artifact(Artifact({**stored.manifest, "rule_counts": counts}, stored.tensors), CPU)


@pytest.mark.slow
def test_long_chains_of_a_dense_kb_are_looked_for_in_little_memory() -> None:
    """Every entity has twenty edges: six atoms join two of them in millions of ways."""
    choose = np.random.default_rng(0)
    drawn = choose.integers((20, 2, 20), size=(220, 3)).tolist()
    facts = dict.fromkeys(Fact(f"e{subject}", f"p{predicate}", f"e{object_}") for subject, predicate, object_ in drawn)
    kb = FactsKB.from_facts({"train": list(facts)})
    config = ProofsConfig(templates={"1": 1, "6": 1}, counting="share", epochs=2, eval_every=2)
    model = create_trainer(config, kb, torch.device("cpu")).fit()
    tracemalloc.start()
    (answers,) = ask(model, Goal("e1", "p1", None), top_k=10, proofs=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert all(answer.proofs for answer in answers)
    assert peak < 300e6
