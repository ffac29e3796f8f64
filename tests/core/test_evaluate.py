"""The figures of a model on a split are those of the benchmarks, and they add up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from ctp_core.base.facts_model import FactsModel
from ctp_core.base.model import Model
from ctp_core.benchmarks.clutrr import accuracy_on
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.benchmarks.links import calibration_error, ranking
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.errors import BadQuestion, DataError
from ctp_core.evaluate import Evaluation, Group, evaluate
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import FactsKB, GraphsKB, KnowledgeBase
from ctp_core.methods import METHODS, checked_config
from ctp_core.networks.model import NetworkModel
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact
from tests.core.families import random_family

FACTS = sorted(method for kind, method in METHODS if kind == "facts")
GRAPHS = sorted(method for kind, method in METHODS if kind == "graphs")


def family_kb() -> FactsKB:
    family = random_family(1)
    parents = [Fact(a, "parent", b) for a, b in family.parent]
    asked = [Fact(a, "grandparent", b) for a, b in family.grandparent]
    siblings = [Fact(a, "sibling", b) for a, b in family.sibling]
    stranger = Fact("stranger", "parent", parents[0].object)
    test = [*asked[3:6], *siblings[:4], stranger]
    return FactsKB.from_facts({"train": [*parents, *asked[6:], *siblings[4:]], "valid": asked[:3], "test": test})


def trained(method: str, kb: KnowledgeBase, **settings: Any) -> Model:
    trainer = create_trainer(checked_config(kb.kind, {"method": method, **settings}), kb, torch.device("cpu"))
    while not trainer.finished:
        trainer.train_epoch()
    return trainer.model()


def mean(groups: Sequence[Group], name: str) -> float:
    return sum(group.num_items * group.metrics[name] for group in groups) / sum(group.num_items for group in groups)


def check_sums(found: Evaluation, metric: str) -> None:
    parts = [found.by_predicate, found.by_direction or found.by_length]
    assert [mean(groups, metric) for groups in parts] == pytest.approx([found.metrics[metric]] * 2)


@pytest.mark.parametrize("method", FACTS)
def test_every_method_of_facts_has_the_figures_of_the_benchmark(method: str) -> None:
    kb = family_kb()
    model = trained(method, kb, **({} if method in ("rules",) else {"epochs": 1}))
    assert isinstance(model, FactsModel)
    found = evaluate(model, kb, "test")
    assert found.metrics == ranking(model, kb, "test")
    assert (found.calibration or {}).get("ece") == calibration_error(model, kb, "test").get("ece")
    assert (found.num_items, found.num_available, found.num_left_out) == (8, 8, 0)
    assert [(group.name, group.num_items) for group in found.by_predicate] == [
        ("sibling", 4),
        ("grandparent", 3),
        ("parent", 1),
    ]
    check_sums(found, "mrr")


@pytest.fixture(scope="module")
def proofs() -> FactsModel:
    model = trained("complex", family_kb(), epochs=2)
    assert isinstance(model, FactsModel)
    return model


def test_facts_about_entities_that_were_never_trained_on_are_counted_apart(proofs: FactsModel) -> None:
    unseen = evaluate(proofs, proofs.kb, "test").unseen
    assert unseen.num_items == 1
    assert set(unseen.metrics) == {"mrr", "hits@1", "hits@3", "hits@10"}


def test_a_sample_is_always_the_same_and_says_how_much_it_is_of(proofs: FactsModel) -> None:
    first, again = (evaluate(proofs, proofs.kb, "test", limit=5) for _ in range(2))
    assert first == again
    assert (first.num_items, first.num_available) == (5, 8)


def test_what_any_split_states_is_no_wrong_answer(proofs: FactsModel) -> None:
    """A model that ranks by whether a test fact is stated makes no mistake on validation facts either."""
    kb = proofs.kb
    fact = kb.splits["valid"][0]
    better = fact.copy()
    better[2] = 0

    class Seer(type(proofs)):  # type: ignore[misc]
        def kb_logits(self, goals: Any) -> np.ndarray:
            scores = np.zeros((len(goals), len(kb.entities)))
            scores[:, better[2]], scores[:, fact[2]] = 2.0, 1.0
            return scores

    seer = object.__new__(Seer)
    seer.calibration = None
    hits = []
    for test in (kb.splits["test"][:1], better[None]):
        seer.kb = replace(kb, splits={**kb.splits, "valid": fact[None], "test": test})
        hits.append(evaluate(seer, seer.kb, "valid").by_direction[0].metrics["hits@1"])
    assert hits == [0.0, 1.0]


def test_progress_ends_with_all_questions(proofs: FactsModel) -> None:
    parts: list[tuple[int, int]] = []
    evaluate(proofs, proofs.kb, "test", on_part=lambda done, total: parts.append((done, total)))
    assert parts[-1][0] == parts[-1][1]


def test_a_split_that_is_not_there_is_said(proofs: FactsModel) -> None:
    kb = replace(proofs.kb, splits={"train": proofs.kb.splits["train"]})
    with pytest.raises(DataError, match="'valid'"):
        evaluate(proofs.__class__.from_artifact(replace_splits(proofs, kb), torch.device("cpu")), kb, "valid")


def replace_splits(model: FactsModel, kb: FactsKB) -> Any:
    artifact = model.to_artifact()
    kept = {name: t for name, t in artifact.tensors.items() if name not in ("facts.valid", "facts.test")}
    assert len(kept) < len(artifact.tensors)
    return replace(artifact, tensors=kept)


def graphs() -> GraphsKB:
    test = [*family_graphs(8, (4,), seed=3), *family_graphs(6, (5,), seed=4)]
    odd = replace(test[0], facts=tuple(f._replace(predicate="unheard of") for f in test[0].facts))
    return graphs_kb({"train": family_graphs(120, (2, 3), seed=1), "test": [*test, odd]})


@pytest.mark.parametrize("method", GRAPHS)
def test_every_method_of_graphs_has_the_figures_of_the_benchmark(method: str) -> None:
    kb = graphs()
    model = trained(method, kb, epochs=1)
    assert isinstance(model, CtpGraphsModel | NetworkModel)
    found = evaluate(model, kb, "test")
    by_length = {
        length: [g for g in kb.splits["test"] if len(g.facts) == length]
        for length in sorted({len(g.facts) for g in kb.splits["test"]})
    }
    expected = {str(length): accuracy_on(model, some) for length, some in by_length.items()}
    assert {group.name: group.metrics["accuracy"] for group in found.by_length} == pytest.approx(expected)
    assert (found.num_items, found.unseen.num_items, found.unseen.metrics["accuracy"]) == (15, 1, 0.0)
    check_sums(found, "accuracy")
    assert found.calibration is not None
    assert sum(one["answers"] for one in found.calibration["bins"]) == 15


def test_a_model_of_graphs_is_not_evaluated_on_facts() -> None:
    model = trained("lstm", graphs(), epochs=1)
    with pytest.raises(BadQuestion, match="graphs"):
        evaluate(model, family_kb(), "test")
