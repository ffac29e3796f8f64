"""`ctp bench links`: train and rank on a published data set, seed by seed."""

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ctp_core import artifact
from ctp_core.config import BaseConfig, Profile, parse_config, presets
from ctp_core.config.facts import facts_config
from ctp_core.datasets.benchmarks import countries_regions, read_benchmark
from ctp_core.datasets.kb import FactsKB
from ctp_core.errors import ConfigError
from ctp_core.evaluation.links import countries_auc_pr, ranking
from ctp_core.manifest import MANIFEST
from ctp_core.models.facts_model import FactsModel
from ctp_core.models.hybrid import HybridModel
from ctp_core.models.registry import create_trainer
from ctp_core.training.trainer import OnStep, ignore


@dataclass(frozen=True)
class LinksRun:
    """One row of a table: what is trained, on what, and how often. `resume` keeps checkpoints of each seed there."""

    data: Path
    dataset: str
    model: str
    preset: str = "fast"
    settings: dict[str, Any] | None = None
    seeds: int = 1
    split: str = "test"
    resume: Path | None = None

    def config(self, kb: FactsKB, seed: int) -> BaseConfig:
        """What the preset means for this method, overridden by `settings`."""
        profile = Profile.of(kb)
        if self.preset not in presets(profile):
            raise ConfigError(f"preset {self.preset!r} is unknown; choose from {', '.join(presets(profile))}")
        values = facts_config(profile, self.model, self.preset).model_dump()
        return parse_config({**values, **(self.settings or {}), "seed": seed})


def run(links: LinksRun, on_epoch: OnStep = ignore) -> dict[str, Any]:
    """The figures of all seeds as JSON: lists hold one value per seed."""
    kb = read_benchmark(links.data, links.dataset)
    seeds = [run_seed(links, kb, seed, on_epoch) for seed in range(links.seeds)]
    config = links.config(kb, 0).model_dump()
    summary = {"dataset": links.dataset, "model": links.model, "preset": links.preset, "split": links.split}
    figures = {name: [seed[name] for seed in seeds] for name in seeds[0]}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**summary, "seeds": list(range(links.seeds)), **figures, "peak_rss_mb": peak, "config": config}


def run_seed(links: LinksRun, kb: FactsKB, seed: int, on_epoch: OnStep = ignore) -> dict[str, float]:
    """Trains and ranks once."""
    started = time.process_time()
    model = _train(links, kb, seed, on_epoch)
    trained = time.process_time()
    figures = _evaluate(links, kb, model)
    ranked = time.process_time()
    per_fact = 1000 * (ranked - trained) / len(kb.splits[links.split])
    if isinstance(model, HybridModel):
        figures |= _part_figures(links, kb, model)
    return {**figures, "train_cpu_seconds": trained - started, "rank_triple_cpu_ms": per_fact}


def _part_figures(links: LinksRun, kb: FactsKB, model: HybridModel) -> dict[str, float]:
    """What each part of a hybrid reaches alone, and how much the embedding weighs."""
    parts: dict[str, FactsModel] = {"proofs": model.proofs, "embedding": model.embedding}
    figures = {
        f"{part}_{name}": value for part, one in parts.items() for name, value in _evaluate(links, kb, one).items()
    }
    return {**figures, "weight": model.weight}


def _train(links: LinksRun, kb: FactsKB, seed: int, on_epoch: OnStep) -> FactsModel:
    trainer = create_trainer(links.config(kb, seed), kb, torch.device("cpu"))
    folder = links.resume and links.resume / f"{links.dataset}-{links.model}-{links.preset}-{seed}"
    if folder and (folder / MANIFEST).is_file():
        trainer.restore(artifact.load(folder))
    while not trainer.finished:
        on_epoch(trainer.train_epoch())
        if folder:
            artifact.save(trainer.checkpoint(), folder)
    model = trainer.model()
    assert isinstance(model, FactsModel)
    return model


def _evaluate(links: LinksRun, kb: FactsKB, model: FactsModel) -> dict[str, float]:
    if links.dataset.startswith("countries"):
        return {"auc_pr": countries_auc_pr(model, kb, links.split, countries_regions(links.data))}
    return ranking(model, kb, links.split)


def spread(values: list[float]) -> str:
    """mean ± standard deviation over the seeds."""
    return f"{np.mean(values):.4f} ± {np.std(values):.4f}"
