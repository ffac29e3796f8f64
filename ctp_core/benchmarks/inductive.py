"""`ctp bench inductive`: trains on one KB and ranks the facts of another, whose entities are all new.

Published figures are Hits@10 of a true answer among itself and 50 wrong ones that are drawn at random. Here the chance
of that is computed from the rank among all entities, as NBFNet does, so that no draw decides.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import binom

from ctp_core.base.evaluation import ASKED, at_once, known_filters, rank_facts
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.goals import GoalIds
from ctp_core.base.trainer import OnStep, ignore
from ctp_core.benchmarks.data import read_benchmark
from ctp_core.benchmarks.links import LinksRun, train
from ctp_core.errors import ConfigError, DataError
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.presets import DEFAULT_PRESET

NEW = "_ind"  # ends the name of the KB that is answered about
WRONG = 50  # answers drawn beside the true one
HITS = 10


@dataclass(frozen=True)
class InductiveRun:
    """Trains on data set X and answers about X_ind; `split` is that of X_ind. The rest as in LinksRun."""

    data: Path
    dataset: str
    model: str
    preset: str = DEFAULT_PRESET
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: int = 1
    split: str = "test"
    resume: Path | None = None
    only: tuple[int, ...] = ()

    @property
    def links(self) -> LinksRun:
        """The training."""
        settings = (self.data, self.dataset, self.model, self.preset, self.settings, self.seeds, "valid")
        return LinksRun(*settings, resume=self.resume, only=self.only)

    def new_kb(self) -> FactsKB:
        """The KB that is answered about; raises DataError where there is none."""
        kb = read_benchmark(self.data, self.dataset + NEW)
        if self.split not in kb.splits:
            raise DataError(f"data set {self.dataset + NEW!r} has no split {self.split!r}, only {', '.join(kb.splits)}")
        return kb


def run(inductive: InductiveRun, on_epoch: OnStep = ignore) -> dict[str, Any]:
    """The figures of all seeds as JSON: lists hold one value per seed."""
    links, new = inductive.links, inductive.new_kb()
    if not links.chosen:
        raise ConfigError(f"no seed is left to run: --only names seeds from 0 to {inductive.seeds - 1}")
    seeds = [_run_seed(inductive, links, new, seed, on_epoch) for seed in links.chosen]
    figures = {name: [seed[name] for seed in seeds] for name in seeds[0]}
    summary = {"dataset": inductive.dataset, "model": inductive.model, "preset": inductive.preset}
    config = links.config(links.kb(0), 0).model_dump(mode="json")
    return {**summary, "split": inductive.split, "seeds": links.chosen, **figures, "config": config}


def _run_seed(inductive: InductiveRun, links: LinksRun, new: FactsKB, seed: int, on_epoch: OnStep) -> dict[str, float]:
    model, spent = train(links, links.kb(seed), seed, on_epoch)
    started = time.process_time()
    figures = inductive_ranking(model, new, inductive.split)
    per_fact = 1000 * (time.process_time() - started) / max(1, len(new.splits[inductive.split]))
    return {**figures, "train_cpu_seconds": spent, "rank_triple_cpu_ms": per_fact}


def inductive_ranking(model: FactsModel, new: FactsKB, split: str) -> dict[str, float]:
    """Filtered MRR and Hits@10 in both directions among all entities, and Hits@10 among WRONG drawn ones.

    Facts of every split are filtered out. Raises BadQuestion where the model cannot be applied to another KB.
    """
    applied = model.on(new)
    assert isinstance(applied, FactsModel)
    # Its numbers of predicates are those of the model, so that it is asked in those.
    kb = applied.kb
    facts, filters = kb.splits[split], known_filters(kb, "test")
    ranks = rank_facts(facts, applied.kb_logits, filters)
    rivals = np.concatenate([len(kb.entities) - _known(kb, facts, way) for way in range(len(ASKED))])
    return {
        "mrr": float((1 / ranks).mean()),
        f"hits@{HITS}": float((ranks <= HITS).mean()),
        f"hits@{HITS}_of_{WRONG}": float(hits_among(ranks, rivals).mean()),
    }


def _known(kb: FactsKB, facts: Int[np.ndarray, "fact 3"], way: int) -> Int[np.ndarray, " fact"]:
    """How many entities are known answers to the question that each fact answers."""
    filters, found, size = known_filters(kb, "test")[way], [], at_once(len(kb.entities))
    for start in range(0, len(facts), size):
        goals = GoalIds.hiding(facts[start : start + size], ASKED[way])
        found.append(filters.mask(goals.given, goals.predicates).sum(1))
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def hits_among(
    ranks: Float[np.ndarray, " question"],
    rivals: Int[np.ndarray, " question"],
    wrong: int = WRONG,
    hits: int = HITS,
) -> Float[np.ndarray, " question"]:
    """The chance that fewer than `hits` of so many wrong answers, drawn with repetition, stand above the true one."""
    above = np.clip((ranks - 1) / np.maximum(1, rivals), 0, 1)
    return np.asarray(binom.cdf(hits - 1, wrong, above))
