"""`ctp bench links`: trains on a published data set and ranks the facts of a split, seed by seed."""

import resource
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from ctp_core import artifact
from ctp_core.base.calibration import answers_of
from ctp_core.base.config import BaseConfig
from ctp_core.base.evaluation import auc_pr, known_filters, rank_facts, rank_facts_by_each, ranking_metrics
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.goals import GoalIds
from ctp_core.base.reliability import expected_calibration_error
from ctp_core.base.trainer import OnStep, Progress, Trainer, ignore
from ctp_core.benchmarks.data import COUNTRIES, countries_regions, read_benchmark, read_resplit
from ctp_core.errors import ConfigError, DataError
from ctp_core.hybrid.model import HybridModel
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.manifest import MANIFEST
from ctp_core.methods import checked_config, find_method, preset_for, with_settings
from ctp_core.presets import DEFAULT_PRESET
from ctp_core.registry import create_trainer


def ranking(model: FactsModel, kb: FactsKB, split: str) -> dict[str, float]:
    """Filtered MRR and Hits@k in both directions; facts of this split and of earlier splits are filtered out."""
    filters = known_filters(kb, split)
    return ranking_metrics(rank_facts(kb.splits[split], model.kb_logits, filters))


def hybrid_ranking(model: HybridModel, kb: FactsKB, split: str) -> dict[str, float]:
    """Like `ranking`, for a hybrid and, as `proofs_mrr`, `embedding_mrr`, …, its parts; each part scores once."""
    ranks = rank_facts_by_each(kb.splits[split], model.kb_parts, known_filters(kb, split))
    return {f"{part}{name}": value for part, each in ranks.items() for name, value in ranking_metrics(each).items()}


def calibration_error(model: FactsModel, kb: FactsKB, split: str) -> dict[str, float]:
    """As `ece`, how far scores are from the share of true ones among the unknown answers that people see."""
    if model.calibration is None:
        return {}
    answers = answers_of(lambda goals: model.to_calibrate(model.kb_logits(goals)), model.calibration, kb, split)
    return {"ece": expected_calibration_error(*answers)}


def countries_auc_pr(model: FactsModel, kb: FactsKB, split: str, regions: list[str]) -> float:
    """AUC-PR over exactly the countries of a split × the regions."""
    facts = kb.splits[split]
    countries = np.unique(facts[:, 0])
    region_ids = np.array([kb.entities.id(region) for region in regions])
    goals = GoalIds.for_objects(countries, np.full(len(countries), facts[0, 1]), for_ranking=True)
    logits = model.kb_logits(goals)[:, region_ids]
    true = np.zeros(logits.shape, dtype=bool)
    for country, _, region in facts.tolist():
        true[np.searchsorted(countries, country), np.flatnonzero(region_ids == region)] = True
    return auc_pr(logits.ravel(), true.ravel())


RESPLIT = "resplit"

CPU_SECONDS = "cpu_seconds"  # in the manifest of a checkpoint


@dataclass(frozen=True)
class LinksRun:
    """One row of a table: what is trained, on what, and how often. `resume` is the folder for checkpoints.

    `split` is test or valid of the published data, or RESPLIT: every seed then has its own new split. `only` are the
    seeds to run; nothing in it means all.
    """

    data: Path
    dataset: str
    model: str
    preset: str = DEFAULT_PRESET
    settings: dict[str, Any] | None = None
    seeds: int = 1
    split: str = "test"
    resume: Path | None = None
    only: tuple[int, ...] = ()

    @property
    def chosen(self) -> list[int]:
        return [seed for seed in range(self.seeds) if not self.only or seed in self.only]

    @property
    def ranked(self) -> str:
        """The split of the KB whose facts are ranked."""
        return "test" if self.split == RESPLIT else self.split

    def checkpoint(self, seed: int) -> str:
        """The folder of a seed's checkpoint, the same for test and valid: one model ranks both."""
        resplit = (RESPLIT,) if self.split == RESPLIT else ()
        return "-".join((self.dataset.replace("/", "_"), self.model, self.preset, *resplit, str(seed)))

    def kb(self, seed: int) -> FactsKB:
        if self.split == RESPLIT:
            return read_resplit(self.data, self.dataset, seed)
        kb = read_benchmark(self.data, self.dataset)
        if self.split not in kb.splits:
            raise DataError(f"data set {self.dataset!r} has no split {self.split!r}, only {', '.join(kb.splits)}")
        return kb

    def config(self, kb: FactsKB, seed: int) -> BaseConfig:
        """What the preset means for this method, overridden by `settings`."""
        settings = self.settings or {}
        find_method("facts", self.model)
        preset = preset_for(Profile.of(kb), self.preset, self.model, settings.get("select"))
        return checked_config("facts", with_settings(preset, {**settings, "seed": seed}))


def run(links: LinksRun, on_epoch: OnStep = ignore) -> dict[str, Any]:
    """The figures of all seeds as JSON: lists hold one value per seed.

    A figure that some seed lacks is left out: a batch is timed only where one was trained in this process, and not
    where training was restored from a checkpoint.
    """
    if not links.chosen:
        raise ConfigError(f"no seed is left to run: --only names seeds from 0 to {links.seeds - 1}")
    seeds = [run_seed(links, links.kb(seed), seed, on_epoch) for seed in links.chosen]
    config = links.config(links.kb(0), 0).model_dump()
    summary = {"dataset": links.dataset, "model": links.model, "preset": links.preset, "split": links.split}
    figures = {name: [seed[name] for seed in seeds] for name in seeds[0] if all(name in seed for seed in seeds)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**summary, "seeds": links.chosen, **figures, "peak_rss_mb": peak, "config": config}


def run_seed(links: LinksRun, kb: FactsKB, seed: int, on_epoch: OnStep = ignore) -> dict[str, float]:
    """Trains and ranks once."""
    steps = _StepClock()
    model, spent = _train(links, kb, seed, on_epoch, steps)
    trained = time.process_time()
    figures = _evaluate(links, kb, model)
    per_fact = 1000 * (time.process_time() - trained) / len(kb.splits[links.ranked])
    if isinstance(model, HybridModel):
        figures["weight"] = float(np.median(model.weights))
    if steps.seconds:
        figures["train_batch_cpu_ms"] = 1000 * median(steps.seconds)
    return {**figures, "train_cpu_seconds": spent, "rank_triple_cpu_ms": per_fact}


def trained(links: LinksRun, kb: FactsKB, seed: int, on_epoch: OnStep = ignore) -> FactsModel:
    """The model of a seed, trained or restored from its checkpoint."""
    return _train(links, kb, seed, on_epoch, _StepClock())[0]


class _StepClock:
    """CPU time of each gradient step of this process, without what comes between them, such as validations."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = 0.0

    def start(self) -> None:
        self._last = time.process_time()

    def tick(self, progress: Progress) -> None:
        now = time.process_time()
        if progress.loss is not None:
            self.seconds.append(now - self._last)
        self._last = now


def train(links: LinksRun, kb: FactsKB, seed: int, on_epoch: OnStep = ignore) -> tuple[FactsModel, float]:
    """Returns (model, CPU seconds)."""
    return _train(links, kb, seed, on_epoch, _StepClock())


def _train(links: LinksRun, kb: FactsKB, seed: int, on_epoch: OnStep, steps: _StepClock) -> tuple[FactsModel, float]:
    """Returns (model, CPU seconds), including the CPU seconds of earlier processes."""
    started = time.process_time()
    trainer = create_trainer(links.config(kb, seed), kb, torch.device("cpu"))
    before = _go_on(links, seed, trainer)
    while not trainer.finished:
        steps.start()
        on_epoch(trainer.train_epoch(steps.tick))
        if links.resume:
            checkpoint = trainer.checkpoint()
            spent = before + time.process_time() - started
            checkpoint = replace(checkpoint, manifest={**checkpoint.manifest, CPU_SECONDS: spent})
            artifact.save(checkpoint, links.resume / links.checkpoint(seed))
    model = trainer.model()
    return model, before + time.process_time() - started


def _go_on(links: LinksRun, seed: int, trainer: Trainer[FactsModel]) -> float:
    """Restores what an earlier run saved; returns the CPU seconds that it took."""
    if links.resume is None or not (links.resume / links.checkpoint(seed) / MANIFEST).is_file():
        return 0.0
    checkpoint = artifact.load(links.resume / links.checkpoint(seed))
    trainer.restore(checkpoint)
    return float(checkpoint.manifest.get(CPU_SECONDS, 0.0))


def _evaluate(links: LinksRun, kb: FactsKB, model: FactsModel) -> dict[str, float]:
    """The figures of a model; of a hybrid also those of each part alone, as `proofs_…` and `embedding_…`."""
    if links.dataset in COUNTRIES:
        parts = {"": model}
        if isinstance(model, HybridModel):
            parts |= model.alone_by_name()
        regions = countries_regions(links.data)
        return {f"{part}auc_pr": countries_auc_pr(one, kb, links.ranked, regions) for part, one in parts.items()}
    error = calibration_error(model, kb, links.ranked)
    if isinstance(model, HybridModel):
        return hybrid_ranking(model, kb, links.ranked) | error
    return ranking(model, kb, links.ranked) | error


def spread(values: list[float]) -> str:
    """Mean ± standard deviation over the seeds."""
    return f"{np.mean(values):.4f} ± {np.std(values):.4f}"
