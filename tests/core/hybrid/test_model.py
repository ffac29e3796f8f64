"""The embedding as one more part of the score."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from ctp_core.artifact import decode, encode
from ctp_core.base.goals import GoalIds, Place
from ctp_core.embeddings.config import ComplexConfig, DistMultConfig
from ctp_core.embeddings.factorisations import FACTORISATIONS
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import ProofsConfig
from ctp_core.frontier.config import FrontierConfig
from ctp_core.hybrid.config import HybridConfig, hybrid_preset
from ctp_core.hybrid.model import HybridModel, Weighed
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.presets import PRESETS
from ctp_core.registry import create_trainer, load_model
from ctp_core.symbols import Fact, Goal
from service.samples import read_sample
from tests.core.base.test_facts_model import FAMILY, HIDDEN, KB, ask, model_of


def test_the_parts_of_a_hybrid_add_up_to_its_logit() -> None:
    for answer in ask(model_of("hybrid"), Goal(*HIDDEN[:2], None))[0]:
        assert answer.score_parts is not None
        assert set(answer.score_parts) == {"bias", "shown", "rest", "num_proofs", "embedding"}
        total = sum(value or 0 for name, value in answer.score_parts.items() if name != "num_proofs")
        assert 1 / (1 + math.exp(-total)) == pytest.approx(answer.score)


def test_an_entity_never_seen_is_answered_from_proofs_alone() -> None:
    hybrid = model_of("hybrid")
    assert isinstance(hybrid, HybridModel)
    facts = (Fact("stranger", "parent", "newcomer"), Fact("newcomer", "parent", HIDDEN.object))
    goal = Goal("stranger", "grandparent", None)
    (answers,), (proved,) = ask(hybrid, goal, facts=facts), ask(hybrid.proofs, goal, facts=facts)
    assert all(answer.score_parts is not None and answer.score_parts["embedding"] is None for answer in answers)
    assert [(a.fact, a.score) for a in answers] == [(a.fact, a.score) for a in proved]


def test_an_embedding_knows_nothing_of_an_entity_never_seen() -> None:
    facts = (Fact("stranger", "parent", FAMILY.parent[0][0]),)
    (answers,) = ask(model_of("complex"), Goal("stranger", "parent", None), facts=facts)
    assert len({answer.score for answer in answers}) == 1
    assert all(answer.score_parts is not None and answer.score_parts["embedding"] is None for answer in answers)


@pytest.mark.parametrize("config", [ComplexConfig(rank=3), DistMultConfig(rank=3)], ids=["complex", "distmult"])
def test_the_averaged_predicate_is_the_mean_of_both_directions(config: ComplexConfig | DistMultConfig) -> None:
    generator = torch.Generator().manual_seed(1)
    module = FACTORISATIONS[config.method]((5, 2), config.width, generator, torch.device("cpu"))
    for parameter in module.parameters():
        parameter.data.normal_(generator=generator)
    subject, predicate, object_ = torch.tensor([0, 3]), torch.tensor([0, 1]), torch.tensor([4, 1])
    forward, _ = module.queries(module.entities[subject], predicate, tied=False)
    backward, _ = module.queries(module.entities[object_], predicate + 2, tied=False)
    one = (forward * module.entities[object_]).sum(-1)
    other = (backward * module.entities[subject]).sum(-1)
    averaged = module.compose(module.entities[subject], module.averaged()[predicate])
    assert torch.allclose((averaged * module.entities[object_]).sum(-1), (one + other) / 2, atol=1e-6)


def test_complex_is_the_product_of_complex_numbers() -> None:
    generator = torch.Generator().manual_seed(2)
    module = FACTORISATIONS["complex"]((3, 1), 8, generator, torch.device("cpu"))
    for parameter in module.parameters():
        parameter.data.normal_(generator=generator)

    def number(vector: torch.Tensor) -> np.ndarray:
        real, imaginary = vector.detach().numpy().reshape(2, 4)
        return np.asarray(real + 1j * imaginary)

    query, _ = module.queries(module.entities[torch.tensor([1])], torch.tensor([0]), tied=False)
    product = number(module.entities[1]) * number(module.predicates[0]) * number(module.entities[2]).conj()
    assert (query[0] @ module.entities[2]).item() == pytest.approx(product.sum().real, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_a_weight_that_is_given_is_not_learnt(weight: float) -> None:
    config = HybridConfig(
        proofs=ProofsConfig(templates={"1": 2}, epochs=1), embedding=ComplexConfig(rank=2, epochs=1), weight=weight
    )
    hybrid = create_trainer(config, KB, torch.device("cpu")).fit()
    assert isinstance(hybrid, HybridModel)
    assert set(hybrid.weights.tolist()) == {weight}
    goals = GoalIds.hiding(KB.splits["train"][:3], Place.OBJECT, for_ranking=True)
    proved, embedded = (part.kb_logits(goals) for part in (hybrid.proofs, hybrid.embedding))
    assert np.allclose(hybrid.kb_logits(goals), proved + weight * embedded)


def weighing_apart() -> HybridModel:
    """A hybrid whose first predicate has another weight than the others."""
    hybrid = model_of("hybrid")
    assert isinstance(hybrid, HybridModel)
    weights = np.full(len(KB.predicates), 0.5)
    weights[0] = 3.0
    return HybridModel(hybrid.config, hybrid.proofs, hybrid.embedding, weights)


def test_a_predicate_may_have_a_weight_of_its_own_whichever_place_is_asked_for() -> None:
    hybrid = weighing_apart()
    facts = KB.splits["train"][::3]
    predicates = facts[:, 1]
    assert set(predicates.tolist()) > {0}
    proved, embedded = (part.kb_logits(GoalIds.hiding(facts, None)) for part in (hybrid.proofs, hybrid.embedding))
    expected = proved[:, 0] + np.where(predicates == 0, 3.0, 0.5) * embedded[:, 0]
    for place in Place:
        found = hybrid.kb_logits(GoalIds.hiding(facts, place))[np.arange(len(facts)), facts[:, place]]
        assert np.allclose(found, expected, atol=1e-6)


def test_an_artifact_with_one_weight_for_all_predicates_is_still_read() -> None:
    artifact = weighing_apart().to_artifact()
    assert HybridModel.from_artifact(artifact, torch.device("cpu")).weights[:2].tolist() == [3.0, 0.5]
    del artifact.manifest["weights"]
    with pytest.raises(ArtifactError, match="weight"):
        HybridModel.from_artifact(artifact, torch.device("cpu"))
    artifact.manifest["weight"] = 0.7
    assert set(HybridModel.from_artifact(artifact, torch.device("cpu")).weights.tolist()) == {0.7}


@pytest.mark.parametrize("weight", [1e308, -1e10, float("nan")])
def test_a_weight_that_cannot_be_computed_with_is_refused(weight: float) -> None:
    artifact = weighing_apart().to_artifact()
    artifact.manifest["weights"][0] = weight
    with pytest.raises(ArtifactError, match="the weights of the artifact are not all finite, or beyond 1e"):
        HybridModel.from_artifact(artifact, torch.device("cpu"))


def test_a_checkpoint_that_does_not_name_a_setting_had_its_default() -> None:
    config = HybridConfig(proofs=ProofsConfig(templates={"1": 2}, epochs=2), embedding=ComplexConfig(rank=2, epochs=1))
    trainer = create_trainer(config, KB, torch.device("cpu"))
    trainer.train_epoch()
    checkpoint = trainer.checkpoint()
    del checkpoint.manifest["config"]["weight"]
    again = create_trainer(config, KB, torch.device("cpu"))
    again.restore(checkpoint)
    assert again.epoch == 1
    other = create_trainer(config.model_copy(update={"weight": 0.5}), KB, torch.device("cpu"))
    with pytest.raises(ArtifactError, match="another config"):
        other.restore(checkpoint)


@pytest.mark.slow
def test_who_goes_back_to_a_checkpoint_chooses_the_weight_again() -> None:
    config = HybridConfig(proofs=ProofsConfig(templates={"1": 2}, epochs=3), embedding=ComplexConfig(rank=2, epochs=1))
    trainer = create_trainer(config, KB, torch.device("cpu"))
    trainer.train_epoch()
    early, before = trainer.checkpoint(), trainer.model()
    while not trainer.finished:
        trainer.train_epoch()
    trainer.restore(early)
    again = trainer.model()
    assert isinstance(before, HybridModel)
    assert isinstance(again, HybridModel)
    assert again.weights.tolist() == before.weights.tolist()


def test_only_the_whole_has_metrics_without_the_name_of_a_part() -> None:
    config = HybridConfig(
        proofs=ProofsConfig(templates={"1": 2}, epochs=2, eval_every=1),
        embedding=ComplexConfig(rank=2, epochs=2, eval_every=1),
    )
    kb = replace(KB, splits={"train": KB.splits["train"][5:], "valid": KB.splits["train"][:5]})
    trainer = create_trainer(config, kb, torch.device("cpu"))
    metrics = [set(trainer.train_epoch().metrics) for _ in range(trainer.epochs)]
    assert [{name.split("_")[0] for name in names} for names in metrics[:3]] == [{"proofs"}, {"proofs"}, {"embedding"}]
    assert metrics[3] == {"mrr", "hits@1", "hits@3", "hits@10"}


@pytest.mark.slow
def test_without_validation_facts_the_embedding_leaves_the_lead_to_proofs() -> None:
    """It knows the facts by heart: however sure it is of all others that they are false, it has not been asked once."""
    kb = read_sample("family").kb
    hybrid = create_trainer(hybrid_preset(Profile.of(kb), PRESETS["best"]), kb, torch.device("cpu")).fit()
    assert isinstance(hybrid, HybridModel)
    (answers,) = ask(hybrid, Goal("rick", "grandparent", None))
    assert answers[0].fact.object == "morty"
    assert answers[0].score > 0.5
    parts = [answer.score_parts or {} for answer in answers]
    lead = parts[0]["shown"] or 0
    assert all(abs(part["embedding"] or 0) < lead / 2 for part in parts)


def test_an_embedding_of_another_method_than_the_settings_name_is_refused() -> None:
    config = HybridConfig(proofs=ProofsConfig(templates={"1": 2}, epochs=1), embedding=ComplexConfig(rank=2, epochs=1))
    stored = create_trainer(config, KB, torch.device("cpu")).fit().to_artifact()
    stored.manifest["config"]["embedding"]["method"] = "distmult"
    with pytest.raises(ArtifactError, match="an embedding of method 'complex'"):
        HybridModel.from_artifact(stored, torch.device("cpu"))


THREE = HybridConfig(
    proofs=ProofsConfig(templates={"1": 2, "2": 3}, epochs=5),
    embedding=ComplexConfig(rank=4, epochs=4),
    frontier=FrontierConfig(steps=2, dim=8, epochs=6, batch_size=8, eval_every=6),
)


@cache
def hybrid_of_three() -> HybridModel:
    hybrid = create_trainer(THREE, KB, torch.device("cpu")).fit()
    assert isinstance(hybrid, HybridModel)
    assert hybrid.frontier is not None
    # What validation chooses on so few facts is not what is tested here.
    frontier = Weighed(hybrid.frontier.model, np.full(len(KB.predicates), 0.5))
    weights = (hybrid.weights, frontier, hybrid.alone)
    return HybridModel(hybrid.config, hybrid.proofs, hybrid.embedding, *weights).calibrated_by(hybrid.calibration)


@pytest.mark.slow
def test_the_parts_of_a_hybrid_of_three_add_up_to_its_logit() -> None:
    for answer in ask(hybrid_of_three(), Goal(*HIDDEN[:2], None))[0]:
        assert answer.score_parts is not None
        assert set(answer.score_parts) == {"bias", "shown", "rest", "num_proofs", "embedding", "frontier"}
        total = sum(value or 0 for name, value in answer.score_parts.items() if name != "num_proofs")
        assert 1 / (1 + math.exp(-total)) == pytest.approx(answer.score)


@pytest.mark.slow
def test_a_fact_has_one_score_in_a_hybrid_of_three() -> None:
    hybrid, facts = hybrid_of_three(), KB.splits["train"][::5]
    whole = hybrid.kb_logits(GoalIds.hiding(facts, None))[:, 0]
    for place in Place:
        found = hybrid.kb_logits(GoalIds.hiding(facts, place))[np.arange(len(facts)), facts[:, place]]
        assert found == pytest.approx(whole, abs=1e-5)


@pytest.mark.slow
def test_a_hybrid_of_three_is_stored_and_loads_again() -> None:
    hybrid = hybrid_of_three()
    again = load_model(decode(encode(hybrid.to_artifact())), torch.device("cpu"))
    goals = [Goal(*HIDDEN[:2], None), Goal(None, *HIDDEN[1:]), Goal(HIDDEN.subject, None, HIDDEN.object)]
    assert ask(again, *goals) == ask(hybrid, *goals)


@pytest.mark.slow
def test_the_training_of_three_parts_goes_on_where_it_stopped() -> None:
    straight, interrupted, resumed = (create_trainer(THREE, KB, torch.device("cpu")) for _ in range(3))
    for _ in range(12):
        interrupted.train_epoch()
    resumed.restore(decode(encode(interrupted.checkpoint())))
    expected, found = straight.fit().to_artifact(), resumed.fit().to_artifact()
    assert expected.manifest == found.manifest
    assert all(torch.equal(tensor, found.tensors[name]) for name, tensor in expected.tensors.items())


@pytest.mark.slow
def test_a_hybrid_of_three_answers_about_strangers_without_its_embedding() -> None:
    hybrid = hybrid_of_three()
    renamed = [Fact(f"new-{fact.subject}", fact.predicate, f"new-{fact.object}") for fact in KB.facts("train")]
    applied = hybrid.on(FactsKB.from_facts({"train": renamed}))
    goal = Goal(f"new-{HIDDEN.subject}", "grandparent", None)
    for answer in ask(applied, goal)[0]:
        parts = answer.score_parts
        assert parts is not None and parts["embedding"] is None and parts["frontier"] is not None
        total = sum(value or 0 for name, value in parts.items() if name != "num_proofs")
        assert 1 / (1 + math.exp(-total)) == pytest.approx(answer.score)
