"""The generated KBs: their size, their rules and their truth."""

import numpy as np
import pytest

from ctp_core.base.evaluation import known_filters, rank_facts_by_each
from ctp_core.base.goals import GoalIds, Place
from ctp_core.benchmarks.ladder.planted import Conclusions, concluded, planted_ranks
from ctp_core.benchmarks.ladder.synthetic import Shape, SyntheticKB, generate
from ctp_core.errors import ConfigError
from ctp_core.kb.facts_builder import digest
from ctp_core.kb.knowledge_base import FactSet


@pytest.fixture(scope="module")
def made() -> SyntheticKB:
    return generate(Shape(3_000, 25, "dense"))


@pytest.mark.slow
@pytest.mark.parametrize("density", ["sparse", "dense"])
@pytest.mark.parametrize("predicates", [6, 25, 1_000])
def test_a_generated_kb_has_the_size_asked_for(predicates: int, density: str) -> None:
    kb = generate(Shape(10_000, predicates, density)).kb
    assert sum(map(len, kb.splits.values())) == 10_000
    assert 0.98 * predicates <= len(kb.predicates) <= predicates
    per_entity = 10_000 / len(kb.entities)
    assert (9 < per_entity < 12) if density == "dense" else (3 < per_entity < 5.5)


def test_the_same_seed_makes_the_same_kb_and_another_seed_another(made: SyntheticKB) -> None:
    again, other = generate(Shape(3_000, 25, "dense")), generate(Shape(3_000, 25, "dense", seed=1))
    assert digest(again.kb) == digest(made.kb) != digest(other.kb)
    assert again.rules == made.rules
    assert np.array_equal(again.truth, made.truth)


def test_rules_of_every_kind_are_planted(made: SyntheticKB) -> None:
    lengths = {len(rule.body.steps) for rule in made.rules}
    assert lengths == {1, 2, 3}
    assert any(rule.constant for rule in made.rules)
    assert any(rule.body.predicates == (rule.predicate,) and rule.body.steps[0].inverse for rule in made.rules)
    assert any(step.inverse for rule in made.rules if len(rule.body.steps) > 1 for step in rule.body.steps)


def test_what_is_stated_is_true_and_some_of_what_is_true_is_not_stated(made: SyntheticKB) -> None:
    sizes = len(made.kb.entities), len(made.kb.predicates)
    stated = np.concatenate(list(made.kb.splits.values()))
    assert FactSet(made.truth, *sizes).states(stated).all()
    assert len(stated) < len(made.truth) < 1.05 * len(stated)
    splits = [FactSet(made.kb.splits[name], *sizes) for name in ("train", "valid", "test")]
    assert not any(one.states(made.kb.splits["test"]).any() for one in splits[:2])


def test_a_rule_concludes_true_facts_as_often_as_its_confidence_says() -> None:
    made = generate(Shape(50_000, 25, "dense"))
    true = FactSet(made.truth, len(made.kb.entities), len(made.kb.predicates))
    for rule in made.rules:
        assert true.states(concluded(made.kb, rule)).mean() == pytest.approx(rule.confidence, abs=0.06), rule.text


def test_an_object_that_many_share_is_a_hub(made: SyntheticKB) -> None:
    counts = np.sort(np.bincount(made.kb.splits["train"][:, 2]))[::-1]
    assert counts[0] > 10 * np.median(counts[counts > 0])


def test_planted_rules_rank_as_their_scores_written_out_would(made: SyntheticKB) -> None:
    kb, found = made.kb, Conclusions(made.kb, made.rules)

    def scores(goals: GoalIds) -> dict[str, np.ndarray]:
        rows = np.zeros((len(goals.given), len(kb.entities)))
        given = Place.SUBJECT if goals.place == Place.OBJECT else Place.OBJECT
        for row, entity, predicate in zip(rows, goals.given, goals.predicates, strict=True):
            mine = (found.facts[:, given] == entity) & (found.facts[:, 1] == predicate)
            row[found.facts[mine, 2 - given]] = found.scores[mine]
        return {"": rows}

    naive = rank_facts_by_each(kb.splits["test"], scores, known_filters(kb, "test"))[""]
    assert np.allclose(planted_ranks(made, "test"), naive)


def test_a_shape_that_cannot_be_met_says_so() -> None:
    with pytest.raises(ConfigError, match="at least 100 facts"):
        generate(Shape(10))
    with pytest.raises(ConfigError, match="'dotted' is unknown; choose from sparse, dense"):
        generate(Shape(1_000, density="dotted"))
