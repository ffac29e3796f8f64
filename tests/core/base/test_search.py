"""Settings that are chosen by measuring: what is tried, what is kept, and that a search can be resumed."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from ctp_core.artifact import decode, encode
from ctp_core.base.goals import GoalIds
from ctp_core.base.halving import Rung, Space
from ctp_core.base.search import SearchTrainer, preferred
from ctp_core.base.trainer import Progress, Trainer
from ctp_core.embeddings.candidates import at_effort
from ctp_core.embeddings.config import ComplexConfig
from ctp_core.embeddings.model import EmbeddingModel
from ctp_core.embeddings.trainer import EmbeddingTrainer
from ctp_core.errors import ArtifactError, ConfigError
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import forecast, search_space, with_settings
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact
from tests.core.families import random_family

CPU = torch.device("cpu")
FULL = ComplexConfig(epochs=4, rank=16, eval_every=2)


def family_kb(seeds: int = 1, valid: bool = True) -> FactsKB:
    names = ("parent", "sibling", "grandparent")
    facts = [
        Fact(f"{seed}{a}", name, f"{seed}{b}")
        for seed in range(seeds)
        for name in names
        for a, b in getattr(random_family(seed), name)
    ]
    held_out = facts[::10] if valid else []
    return FactsKB.from_facts({"train": [fact for fact in facts if fact not in held_out], "valid": held_out})


KB = family_kb()


def space(costs: list[float], budget: float) -> Space[ComplexConfig]:
    """Candidates whose rank is their number plus one; their cost is proportional to the share."""
    candidates = [FULL.model_copy(update={"rank": index + 1}) for index in range(len(costs))]

    def decayed(config: ComplexConfig, share: float) -> ComplexConfig:
        return config.model_copy(update={"decay": share})

    return Space(candidates, decayed, lambda one: costs[one.rank - 1] * (one.decay or 1), budget)


def test_a_plan_tries_all_candidates_where_they_can_be_paid() -> None:
    assert space([1.0] * 9, budget=100).plan() == (Rung(9, 1 / 3), Rung(3, 1.0), Rung(1, 1.0))
    assert [rung.size for rung in space([1.0] * 9, budget=9.1).plan()] == [9, 3, 1]


def test_with_less_budget_fewer_candidates_are_tried() -> None:
    sizes = [sum(rung.size for rung in space([1.0] * 9, budget).plan()) for budget in (6, 3, 1.5, 0.9, 0.5)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 0


@pytest.mark.parametrize("budget", [0.5, 1, 3, 6, 12, 40])
def test_a_search_takes_at_most_a_third_of_the_budget(budget: float) -> None:
    assert space([1.0, 2.0, 0.5, 1.0, 4.0, 1.0], budget).forecast_search() <= budget / 3


def searching(budget: float = 1000.0, kb: FactsKB = KB, **settings: Any) -> SearchTrainer:
    config = FULL.model_copy(update={"search": ("n3", "predicate_weight"), "budget_seconds": budget, **settings})
    trainer = create_trainer(config, kb, CPU)
    assert isinstance(trainer, SearchTrainer)
    return trainer


def same_bits(one: Trainer, other: Trainer) -> bool:
    ours, theirs = one.model().to_artifact(), other.model().to_artifact()
    tensors = ours.tensors.keys() == theirs.tensors.keys() and all(
        torch.equal(ours.tensors[name], theirs.tensors[name]) for name in ours.tensors
    )
    return tensors and ours.manifest == theirs.manifest


@pytest.mark.slow
def test_the_model_has_the_settings_that_were_chosen() -> None:
    trainer = searching()
    model = trainer.fit()
    chosen = [trial for trial in trainer.trials if trial.chosen]
    assert model.config.search == ()  # type: ignore[attr-defined]
    found = {name: getattr(model.config, name) for name in ("n3", "predicate_weight")}
    assert all(trial.settings == found for trial in chosen)
    assert len(trainer.trials) > 2


@pytest.mark.slow
def test_the_chosen_settings_given_by_hand_train_the_same_model() -> None:
    trainer = searching()
    config = trainer.fit().config
    assert same_bits(trainer, _fitted(create_trainer(config, KB, CPU)))


def _fitted(trainer: Trainer) -> Trainer:
    trainer.fit()
    return trainer


@pytest.mark.slow
def test_a_search_resumed_after_any_trial_ends_with_the_same_bits() -> None:
    whole = _fitted(searching())
    first = searching()
    while not first.finished:
        first.train_epoch()
        resumed = searching()
        resumed.restore(decode(encode(first.checkpoint())))
        assert resumed.epoch == first.epoch
        assert resumed.trials == first.trials
        first = resumed
    assert same_bits(first, whole)
    assert first.trials == whole.trials


def test_a_checkpoint_of_other_settings_is_refused() -> None:
    with pytest.raises(ArtifactError, match="another config"):
        searching().restore(searching(seed=1).checkpoint())


def test_a_checkpoint_of_a_search_among_other_candidates_is_refused() -> None:
    """A later version may try other settings: results that name them by number would be credited to the wrong ones."""
    written = searching()
    written.train_epoch()
    checkpoint = written.checkpoint()
    checkpoint.manifest["candidates"][0]["rank"] += 1
    with pytest.raises(ArtifactError, match="other settings"):
        searching().restore(checkpoint)


@pytest.mark.slow
def test_a_slow_machine_tries_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = _fitted(searching())
    clock = count_by(1e4)
    for name in ("time", "monotonic", "process_time", "perf_counter", "thread_time"):
        monkeypatch.setattr(time, name, lambda: next(clock))
    slow = _fitted(searching())
    assert slow.trials == quick.trials
    assert same_bits(slow, quick)


def count_by(step: float) -> Iterator[float]:
    now = 0.0
    while True:
        now += step
        yield now


@pytest.mark.slow
def test_progress_grows_to_its_end_and_names_the_search() -> None:
    trainer, seen = searching(), list[Progress]()
    note: Callable[[Progress], None] = seen.append
    while not trainer.finished:
        seen.append(trainer.train_epoch(note))
    phases = [progress.phase for progress in seen]
    assert phases == sorted(phases, key=lambda phase: phase != "search")
    epochs = [progress.epoch for progress in seen]
    assert epochs == sorted(epochs)
    assert seen[-1].epoch == seen[-1].epochs == trainer.epochs
    assert all(progress.step <= progress.steps for progress in seen)


def test_without_held_out_facts_the_first_candidate_is_trained() -> None:
    trainer = searching(kb=family_kb(1, valid=False), search=("n3",))
    trainer.fit()
    assert trainer.trials == ()
    assert trainer.epochs == FULL.epochs


def test_a_budget_too_small_to_compare_trains_the_first_candidate() -> None:
    trainer = searching(budget=1e-6)
    trainer.fit()
    assert trainer.trials == ()


class Overfits(EmbeddingModel):
    """Ranks like noise once it was trained for twelve epochs."""

    def kb_logits(self, goals: GoalIds) -> np.ndarray:
        if self.config.epochs < 12:
            return super().kb_logits(goals)
        return np.random.default_rng(0).normal(size=(len(goals), len(self.kb.entities)))


@pytest.mark.slow
@pytest.mark.parametrize("searched", [("n3", "epochs", "rank", "eval_every"), ("n3", "rank", "eval_every")])
def test_where_full_effort_overfits_a_lower_one_is_chosen_unless_it_was_given(searched: tuple[str, ...]) -> None:
    def create(config: Any, kb: FactsKB) -> Trainer:
        trainer = EmbeddingTrainer(config, kb, CPU)
        model = trainer.ranking_model
        monkey: Any = trainer
        monkey.ranking_model = lambda: _overfitting(model())
        return trainer

    full = FULL.model_copy(update={"epochs": 12})
    found = Space(
        [full, full.model_copy(update={"n3": 0.1}), full.model_copy(update={"n3": 0.2})], at_effort, _cost, 1e6
    )
    trainer = SearchTrainer(full.model_copy(update={"search": searched}), KB, create, found)
    trainer.fit()
    assert (trainer.fitted.epochs < 12) == ("epochs" in searched)


def _overfitting(model: Any) -> Any:
    model.__class__ = Overfits
    return model


def _cost(config: ComplexConfig) -> float:
    return float(config.epochs * config.rank)


def test_the_best_is_preferred_and_of_equals_the_earlier() -> None:
    choose = np.random.default_rng(0)
    base = choose.random(400)
    better, noise = base + 0.2, base + choose.normal(0, 0.3, 400) * 1e-3
    assert preferred({0: base, 1: better}, 1) == [1]
    assert preferred({0: base, 1: base.copy()}, 1) == [0]
    assert preferred({0: base, 1: noise, 2: better}, 2)[0] == 2
    luck = np.zeros(400)
    luck[:3] = 1.0, 1.0, -1.0  # so few questions of 400 say nothing
    assert preferred({0: base, 1: base + luck}, 1) == [0]


def test_a_candidate_that_cannot_be_trained_is_not_chosen() -> None:
    def create(config: Any, kb: FactsKB) -> Trainer:
        if config.rank == 2:
            raise ConfigError("diverged")
        return create_trainer(config, kb, CPU)

    found = space([1.0, 1.0], budget=1000)
    trainer = SearchTrainer(FULL.model_copy(update={"search": ("rank",)}), KB, create, found)
    trainer.fit()
    assert [trial.value for trial in trainer.trials][1] == 0
    assert [trial.chosen for trial in trainer.trials] == [True, False]


def test_what_a_user_gives_is_not_searched() -> None:
    preset = ComplexConfig(search=("rank", "n3", "predicate_weight"))
    values = with_settings(preset, {"rank": 7})
    assert values["rank"] == 7
    assert values["search"] == ["n3", "predicate_weight"]
    assert with_settings(preset, {"search": ["rank"], "rank": 7})["search"] == ["rank"]
    found = search_space(ComplexConfig.model_validate(values), _profile())
    assert found is not None
    assert {one.rank for one in found.candidates} == {7}
    assert len(found.candidates) > 2


def _profile() -> Profile:
    return Profile.of(KB)


def test_a_forecast_of_a_search_includes_its_trials() -> None:
    config = FULL.model_copy(update={"search": ("n3", "predicate_weight"), "budget_seconds": 1000.0})
    plain, whole = forecast(FULL, _profile()), forecast(config, _profile())
    assert plain is not None
    assert whole is not None
    assert plain.cpu_seconds < whole.cpu_seconds <= 1000


def test_search_names_only_settings_of_the_method() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        ComplexConfig(search=("nonsense",))
