"""Attention, mined rules and rules with constants as one model: what adds up, what is chosen, and how it resumes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ctp_core.artifact import Artifact
from ctp_core.base.goals import GoalIds, Place
from ctp_core.base.model import Budget, Question
from ctp_core.evidence import attention_arrays, proofs_model
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.evidence.shares import SHARES, Share, Shares, choose_shares
from ctp_core.evidence.trainer import EvidenceTrainer
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.registry import create_trainer, load_model
from tests.core.evidence.towns import towns

CPU = torch.device("cpu")
CONFIG = ProofsConfig(mined=True, epochs=4, eval_every=2, max_length=2, steps=10, templates={"1": 2, "1X": 1, "2": 2})


@pytest.fixture(scope="module")
def trainer() -> EvidenceTrainer:
    one = create_trainer(CONFIG, towns(), CPU)
    assert isinstance(one, EvidenceTrainer)
    one.fit()
    return one


def whole(trainer: EvidenceTrainer) -> ProofsModel:
    """The model with all parts at their full share."""
    model = trainer._whole(trainer.split.visible(trainer.kb))
    assert model.head is not None
    assert model.table is not None
    return model


def questions(kb: FactsKB) -> list[GoalIds]:
    facts = kb.splits["train"][::17]
    return [GoalIds.hiding(facts, place) for place in (Place.SUBJECT, Place.PREDICATE, Place.OBJECT, None)]


@pytest.mark.slow
def test_the_logits_are_the_sum_of_both_parts(trainer: EvidenceTrainer) -> None:
    model = whole(trainer)
    parts = [
        ProofsModel(CONFIG, model.kb, model.head, model.offsets),
        ProofsModel(CONFIG, model.kb, None, None, model.table),
    ]
    for goals in questions(model.kb):
        expected = sum(part.kb_logits(goals) for part in parts)
        assert model.kb_logits(goals) == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_tables_and_walks_give_the_same_logits(trainer: EvidenceTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    by_table, by_walk = whole(trainer), whole(trainer)
    monkeypatch.setattr(proofs_model, "TABLE_CELLS", 0)
    assert not by_walk._by_table
    monkeypatch.undo()
    assert by_table._by_table
    for goals in questions(by_table.kb):
        assert by_walk.kb_logits(goals) == pytest.approx(by_table.kb_logits(goals), abs=1e-5)


def test_the_shares_of_all_proofs_and_the_bias_add_up_to_the_score(trainer: EvidenceTrainer) -> None:
    model = whole(trainer)
    asked = Question(("person1", "friend", None), proofs=10_000, top_k=5)
    answers = model.answer([asked], Budget())[0].items  # type: ignore[union-attr]
    for answer in answers:
        assert answer.score_parts is not None
        assert answer.score_parts["rest"] == pytest.approx(0, abs=1e-4)
        leaves = [
            (str(proof.tree.rule), tuple(str(leaf.goal) for leaf in proof.tree.children)) for proof in answer.proofs
        ]
        assert len(set(leaves)) == len(leaves)  # the same facts by the same rule are one proof


def test_the_best_proofs_are_the_same_when_not_all_are_listed(
    trainer: EvidenceTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [Question((f"person{number}", "friend", None), proofs=2, top_k=6) for number in range(4)]
    listed = whole(trainer).answer(asked, Budget())
    monkeypatch.setattr(attention_arrays, "MANY_WALKS", 0)
    for every, best in zip(listed, whole(trainer).answer(asked, Budget()), strict=True):
        for one, other in zip(every.items, best.items, strict=True):  # type: ignore[union-attr]
            assert one.score == pytest.approx(other.score)
            for proof, same in zip(one.proofs, other.proofs, strict=False):
                assert same.share == pytest.approx(proof.share)


@pytest.mark.slow
def test_a_run_that_stops_after_any_epoch_goes_on_to_the_same_bits(trainer: EvidenceTrainer) -> None:
    expected = trainer.model().to_artifact()
    checkpoints: list[Artifact] = []
    run = EvidenceTrainer(CONFIG, towns(), CPU)
    while not run.finished:
        run.train_epoch()
        checkpoints.append(run.checkpoint())
    assert len(checkpoints) == run.epochs
    for checkpoint in checkpoints[::2]:
        resumed = EvidenceTrainer(CONFIG, towns(), CPU)
        resumed.restore(checkpoint)
        found = resumed.fit().to_artifact()
        assert found.tensors.keys() == expected.tensors.keys()
        assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.tensors.items())


@pytest.mark.slow
def test_a_stored_model_answers_as_before(trainer: EvidenceTrainer) -> None:
    model = whole(trainer)
    loaded = load_model(model.to_artifact(), CPU)
    assert isinstance(loaded, ProofsModel)
    for goals in questions(model.kb):
        assert np.array_equal(loaded.kb_logits(goals), model.kb_logits(goals))
    assert loaded.rules() == model.rules()


@pytest.mark.slow
def test_rules_are_the_engine_without_attention() -> None:
    mined = create_trainer(CONFIG.model_copy(update={"templates": {}}), towns(), CPU).fit()
    rules = create_trainer(RulesConfig(max_length=2, steps=10), towns(), CPU).fit()
    assert isinstance(mined, ProofsModel)
    assert mined.head is None
    for goals in questions(towns()):
        assert np.array_equal(mined.kb_logits(goals), rules.kb_logits(goals))  # type: ignore[attr-defined]


def test_a_share_of_nothing_drops_the_part(trainer: EvidenceTrainer) -> None:
    model = whole(trainer)
    assert model.head is not None
    assert model.table is not None
    attention, mined = (Shares.of([share] * len(model.kb.predicates)) for share in (SHARES[0], SHARES[1]))
    assert attention.of_table(model.table) is None
    assert mined.of_head(model.head) is None


def test_a_part_counts_by_its_share(trainer: EvidenceTrainer) -> None:
    model = whole(trainer)
    assert model.head is not None
    assert model.table is not None
    facts = model.kb.splits["train"][:40]
    before = ProofsModel(CONFIG, model.kb, model.head).arrays.totals(model.kb_view.edges, facts)
    rules = ProofsModel(CONFIG, model.kb, None, None, model.table).arrays.totals(model.kb_view.edges, facts)
    shares = Shares.of([Share(0.5, 2.0, 2.0)] * len(model.kb.predicates))
    halved, doubled = shares.of_head(model.head), shares.of_table(model.table)
    after = ProofsModel(CONFIG, model.kb, halved, None, doubled).arrays.totals(model.kb_view.edges, facts)
    assert after == pytest.approx(before / 2 + 2 * rules, abs=1e-4)


def test_of_shares_that_rank_alike_the_simplest_is_chosen(trainer: EvidenceTrainer) -> None:
    """A model whose mined rules say nothing has nothing to gain from them."""
    model = whole(trainer)
    assert model.table is not None
    silent = replace(model.table, weight=0 * model.table.weight, constants=0 * model.table.constants)
    silenced = ProofsModel(CONFIG, model.kb, model.head, model.offsets, silent)
    chosen = choose_shares(silenced, trainer.split.valid)
    assert (chosen.attention == 1).all()
    assert not chosen.mined.any()
    assert not chosen.constants.any()


def test_without_held_out_facts_attention_speaks_alone(trainer: EvidenceTrainer) -> None:
    chosen = choose_shares(whole(trainer), trainer.split.valid[:0])
    assert (chosen.attention == 1).all()
    assert not chosen.mined.any()
