"""Finds settings by measuring them on the KB: tries candidates on held-out facts, then trains the best in full."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.artifact import Artifact
from ctp_core.base.config import BaseConfig, SearchedConfig
from ctp_core.base.evaluation import as_good, known_filters, rank_facts
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.halving import FULL, Space
from ctp_core.base.parts import TrainingPart
from ctp_core.base.progress import OnStep, Progress, Trial, ignore, parts_of, share_done
from ctp_core.base.trainer import Trainer
from ctp_core.base.training_state import check_config, under
from ctp_core.errors import ArtifactError, ConfigError
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.splits import FactsSplit, affordable

HELD_OUT = 2000  # the most facts on which candidates are compared

Fit = TypeVar("Fit", bound=Trainer[FactsModel])
Ranks = Float[np.ndarray, " question"]


@dataclass(frozen=True)
class Result:
    """One candidate on one rung: its reciprocal ranks of the held-out facts, and the work that this took."""

    rung: int
    candidate: int
    cpu_seconds: float
    reciprocal_ranks: Ranks


class SearchTrainer(Trainer[FactsModel], Generic[Fit]):
    """A trial is one epoch; when all are done, the epochs of the training with the chosen settings follow.

    What is tried, for how long and what is chosen depends on forecasts of work, the KB and the seed, never on a clock.
    Without held-out facts, or with a budget too small for two trials, the first candidate is trained at once.
    """

    def __init__(
        self, config: SearchedConfig, kb: FactsKB, create: Callable[[Any, FactsKB], Fit], space: Space[Any]
    ) -> None:
        self.config, self.kb = config, kb
        self._create, self._space = create, space
        self._split = FactsSplit.of(kb)
        self._rungs = space.plan() if self._split.measurable else ()
        self._num_trials = sum(rung.size for rung in self._rungs)
        self._results: list[Result] = []
        first = create(space.candidates[0], kb)  # raises at once where nothing can be learnt
        self._likely_epochs = first.epochs
        self._fit = None if self._rungs else first

    @property
    def fitted(self) -> Fit:
        """The trainer with the settings that were chosen, or that are best so far."""
        if self._fit is None:
            fit = self._create(self._chosen_config(), self.kb)
            if self._searching:
                return fit
            self._fit = fit
        return self._fit

    @property
    def _searching(self) -> bool:
        return len(self._results) < self._num_trials

    @property
    def epochs(self) -> int:  # type: ignore[override]
        return self._num_trials + (self._fit.epochs if self._fit else self._likely_epochs)

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return len(self._results) + (self._fit.epoch if self._fit else 0)

    @property
    def finished(self) -> bool:
        return self._fit is not None and self._fit.finished

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Every trial so far; `chosen` marks those of the settings that were chosen, once all are done."""
        chosen = None if self._searching else self._chosen()
        return tuple(
            Trial(
                self._settings(result),
                "mrr",
                float(result.reciprocal_ranks.mean()),
                result.cpu_seconds,
                chosen=result.candidate == chosen,
            )
            for result in self._results
            if result.cpu_seconds  # nothing was tried where an equal trial had been made
        )

    @property
    def work(self) -> float:
        """The forecast CPU seconds of all trials and of the training with the settings that are best so far."""
        return self._space.forecast_search() + self._space.cost(self._chosen_config())

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        if self._searching:
            return self._try_next(on_step)
        searched = self._space.forecast_search() / self.work
        return TrainingPart(self, self.fitted, self._num_trials, searched, 1 - searched).train_epoch(on_step)

    def sampled_metrics(self) -> dict[str, float]:
        return {} if self._fit is None else self._fit.sampled_metrics()

    def _try_next(self, on_step: OnStep) -> Progress:
        rung, candidate = self._next()
        config = self._trial_config(rung, candidate)
        known = self._known(config)
        cost = self._space.cost(config) if known is None else 0.0
        spent, work = sum(one.cpu_seconds for one in self._results), self.work

        def of_trial(step: Progress) -> Progress:
            return self._searched((spent + cost * share_done(step)) / work)

        ranks = self._measure(config, lambda step: on_step(of_trial(step))) if known is None else known
        self._results.append(Result(rung, candidate, cost, ranks))
        return self._searched((spent + cost) / work)

    def _searched(self, done: float) -> Progress:
        """A trial is a step of the search; the losses of trials compare nothing."""
        tried = len(self._results)
        return Progress(self.epoch, self.epochs, tried, self._num_trials, None, phase="search", done=done)

    def _trial_config(self, rung: int, candidate: int) -> BaseConfig:
        config: BaseConfig = self._space.at_effort(self._space.candidates[candidate], self._rungs[rung].share)
        return config

    def _known(self, config: BaseConfig) -> Ranks | None:
        """What an equal trial found: where effort cannot be lowered, two rungs try the same."""
        equal = (one for one in self._results if self._trial_config(one.rung, one.candidate) == config)
        return next((one.reciprocal_ranks for one in equal), None)

    def _measure(self, config: BaseConfig, on_step: OnStep) -> Ranks:
        """Trains on the visible facts and ranks the held-out ones; settings that cannot be trained rank nothing."""
        visible = self._split.visible(self.kb)
        facts = self._split.valid_sample(affordable(HELD_OUT, len(self.kb.entities)))
        try:
            trainer = self._create(config, visible)
            while not trainer.finished:
                on_step(trainer.train_epoch(on_step))
            model = trainer.ranking_model()
        except ConfigError:
            return np.zeros(2 * len(facts))
        ranked = parts_of("validation", Progress(1, 1, 1, 1, None), on_step)
        return np.asarray(1 / rank_facts(facts, model.kb_logits, known_filters(visible, "valid"), ranked))

    def _next(self) -> tuple[int, int]:
        """The rung and the candidate of the next trial."""
        rung = 0
        alive = self._alive(rung)
        while len(self._on(rung)) == len(alive):
            rung += 1
            alive = self._alive(rung)
        return rung, alive[len(self._on(rung))]

    def _alive(self, rung: int) -> list[int]:
        """The candidates that are tried on a rung, once those of the rung before have been."""
        if rung == 0:
            return list(range(self._rungs[0].size))
        return sorted(preferred(self._on(rung - 1), self._rungs[rung].size))

    def _on(self, rung: int) -> dict[int, Ranks]:
        return {one.candidate: one.reciprocal_ranks for one in self._results if one.rung == rung}

    def _chosen(self) -> int:
        """The best candidate of the last rung that has results."""
        if not self._results:
            return 0
        return preferred(self._on(self._results[-1].rung), 1)[0]

    def _chosen_config(self) -> BaseConfig:
        """The chosen candidate at full effort; at a lower effort where a trial at full effort was clearly worse.

        Settings that a user gave are never lowered.
        """
        candidate = self._chosen()
        full: BaseConfig = self._space.candidates[candidate]
        own = {one.rung: one.reciprocal_ranks for one in self._results if one.candidate == candidate}
        if self._searching or self._rungs[-1:] != FULL:
            return full
        last = len(self._rungs) - 1
        best = last - preferred({last - rung: ranks for rung, ranks in own.items()}, 1)[0]
        config = self._trial_config(best, candidate)
        lowered = {name for name in type(full).model_fields if getattr(full, name) != getattr(config, name)}
        return config if lowered <= set(self.config.search) else full

    def _settings(self, result: Result) -> dict[str, Any]:
        """Those of the searched settings in which the trials differ."""
        searched = set(self.config.search)
        every = [
            self._trial_config(one.rung, one.candidate).model_dump(mode="json", include=searched)
            for one in self._results
        ]
        own = self._trial_config(result.rung, result.candidate).model_dump(mode="json", include=searched)
        return {name: value for name, value in own.items() if any(one[name] != value for one in every)}

    def checkpoint(self) -> Artifact:
        results = [[one.rung, one.candidate, one.cpu_seconds] for one in self._results]
        manifest = {
            "config": self.config.model_dump(mode="json"),
            "candidates": self._candidates_tried,
            "results": results,
        }
        tensors = {f"results.{i}": torch.from_numpy(one.reciprocal_ranks.copy()) for i, one in enumerate(self._results)}
        if self._fit is not None:
            fit = self._fit.checkpoint()
            manifest["fit"] = fit.manifest
            tensors |= {f"fit.{name}": tensor for name, tensor in fit.tensors.items()}
        return Artifact(manifest, tensors)

    @property
    def _candidates_tried(self) -> list[dict[str, Any]]:
        """The settings that results name by their number."""
        size = self._rungs[0].size if self._rungs else 0
        return [one.model_dump(mode="json") for one in self._space.candidates[:size]]

    def restore(self, checkpoint: Artifact) -> None:
        check_config(checkpoint, self.config)
        if checkpoint.manifest.get("results") and checkpoint.manifest.get("candidates") != self._candidates_tried:
            raise ArtifactError("the checkpoint is of a search among other settings: another version wrote it")
        try:
            self._results = [
                Result(rung, candidate, cost, checkpoint.tensors[f"results.{index}"].numpy())
                for index, (rung, candidate, cost) in enumerate(checkpoint.manifest["results"])
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"the checkpoint of a search has no {error}") from None
        self._fit = None if self._rungs else self._fit
        if "fit" in checkpoint.manifest:
            self.fitted.restore(Artifact(checkpoint.manifest["fit"], under("fit.", checkpoint)))

    def model(self) -> FactsModel:
        """A model with the chosen settings, which name nothing to search."""
        return self.fitted.model()


def preferred(reciprocal_ranks: Mapping[int, Ranks], size: int) -> list[int]:
    """Chooses `size` candidates, the best first; of those as good as the best, the earlier is preferred.

    Two are as good as each other where their mean difference on the same questions is within a standard error.
    """
    left, chosen = dict(sorted(reciprocal_ranks.items())), list[int]()
    while left and len(chosen) < size:
        best = left[max(left, key=lambda one: float(left[one].mean()))]
        first = next(one for one, ranks in left.items() if as_good(ranks, best))
        chosen.append(first)
        del left[first]
    return chosen


def fitted(trainer: Fit | SearchTrainer[Fit]) -> Fit:
    """The trainer itself, or the one that a search has chosen."""
    return trainer.fitted if isinstance(trainer, SearchTrainer) else trainer
