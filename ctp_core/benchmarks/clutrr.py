"""The CLUTRR tables: accuracy by number of edges, and what it cost."""

import json
import math
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import torch

from ctp_core.base.config import BaseConfig
from ctp_core.base.graph_examples import Examples, accuracy, read_graphs, stacked, understood
from ctp_core.base.graphs_model import GraphScorer, GraphsModel
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.base.trainer import OnStep, ignore
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.errors import ConfigError
from ctp_core.kb.formats.clutrr import Task, read_clutrr
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import Graph, GraphsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import checked_config, find_method, preset_for
from ctp_core.presets import DEFAULT_PRESET
from ctp_core.registry import create_trainer
from ctp_core.select.registry import VARIANTS
from ctp_core.symbols import Goal

TIMED_INSTANCES = 20
FAMILY = "family"  # the data set of our own generator: train on 2–3 edges, test on lengths never seen
CHAIN_LENGTH = 100
FAMILY_TRAIN, FAMILY_TEST, FAMILY_LENGTHS = 3000, 200, (4, 6, 8, 10, 20, 30, 50)


@dataclass(frozen=True)
class ClutrrRun:
    """What `ctp bench clutrr` was asked for; `settings` override the preset.

    `resume` is the folder that keeps the figures of finished seeds, `only` the seeds to run; nothing in it means all.
    """

    data: Path
    dataset: str
    model: str = "ctp"
    select: str = "attentive"
    prover: str | None = None
    preset: str = DEFAULT_PRESET
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: int = 10
    depth: int | None = None  # depth of answers; None: as the config says
    split: str = "test"  # or `valid`: to choose settings without looking at the test files
    resume: Path | None = None
    only: tuple[int, ...] = ()

    @property
    def chosen(self) -> list[int]:
        return [seed for seed in range(self.seeds) if not self.only or seed in self.only]

    def kept(self, seed: int) -> Path | None:
        """The file of a finished seed."""
        name = "-".join((self.dataset, self.model, self.select, self.preset, self.split, str(seed)))
        return self.resume / f"{name}.json" if self.resume else None


Tests = dict[int | str, tuple[Graph, ...]]


@dataclass(frozen=True)
class Data:
    kb: GraphsKB
    tests: Tests  # by length, or by the name of the task where several have one length
    seconds: float


def load(run: ClutrrRun) -> Data:
    """Reads training graphs, and test graphs by length; `valid` tests on training graphs (see `validation_data`)."""
    started = time.process_time()
    if run.dataset == FAMILY:
        offset = 0 if run.split == "test" else 1_000_000
        train = family_graphs(FAMILY_TRAIN, (2, 3), seed=1)
        tests: Tests = {
            name: tuple(family_graphs(FAMILY_TEST, (name,), offset + 100 + name)) for name in FAMILY_LENGTHS
        }
        return Data(graphs_kb({"train": train}), tests, time.process_time() - started)
    tasks = read_clutrr(run.data / "clutrr" / f"{run.dataset}.zip")
    if run.split == "valid":
        return validation_data(tasks, started)
    tested = [task for task in tasks if task.split == "test"]
    lengths = [task.lengths[0] for task in tested]
    by_length = len(set(lengths)) == len(lengths)
    tests = {length if by_length else task.name: task.graphs for length, task in zip(lengths, tested, strict=True)}
    return Data(graphs_kb({"train": _training(tasks)}), tests, time.process_time() - started)


def _training(tasks: Sequence[Task]) -> list[Graph]:
    """The graphs of all training files; the robust data sets have several."""
    return [graph for task in tasks if task.split == "train" for graph in task.graphs]


def validation_data(tasks: Sequence[Task], started: float) -> Data:
    """Trains on all but the longest training graphs and tests on those, without looking at the test files."""
    graphs = _training(tasks)
    longest = max(len(graph.facts) for graph in graphs)
    train = [graph for graph in graphs if len(graph.facts) < longest]
    tests: Tests = {longest: tuple(g for g in graphs if len(g.facts) == longest)}
    return Data(graphs_kb({"train": train}), tests, time.process_time() - started)


def configure(run: ClutrrRun, kb: GraphsKB, seed: int) -> BaseConfig:
    """The preset for this KB with what the command line changes."""
    find_method("graphs", run.model)
    if run.select not in VARIANTS:
        raise ConfigError(f"rules by {run.select!r} are not known: choose `select` from {', '.join(VARIANTS)}")
    preset = preset_for(Profile.of(kb), run.preset, run.model, run.select)
    chosen: dict[str, Any] = preset.model_dump() | {"seed": seed}
    if run.model == "ctp":
        chosen |= {"prover": run.prover} if run.prover else {}
        chosen |= {"depth": run.depth} if run.depth is not None else {}
    return checked_config("graphs", {**chosen, **run.settings})


def run(task: ClutrrRun, on_epoch: OnStep = ignore) -> dict[str, Any]:
    """Trains and tests once for each seed; returns the figures of the JSON, except for the command."""
    if not task.chosen:
        raise ConfigError(f"no seed is left to run: --only names seeds from 0 to {task.seeds - 1}")
    data = load(task)
    figures = [_kept_or_run(task, data, seed, on_epoch) for seed in task.chosen]
    config = configure(task, data.kb, 0)
    lengths = [str(length) for length in data.tests]
    first = figures[0]
    return {
        "dataset": task.dataset,
        "model": task.model,
        "select": config.select if isinstance(config, CtpGraphsConfig) else None,
        "prover": config.prover if isinstance(config, CtpGraphsConfig) else None,
        "preset": task.preset,
        "split": task.split,
        "seeds": task.chosen,
        "accuracy": {length: [f["accuracy"][length] for f in figures] for length in lengths},
        "accuracy_mean": {length: mean(f["accuracy"][length] for f in figures) for length in lengths},
        "accuracy_std": {length: _std([f["accuracy"][length] for f in figures]) for length in lengths},
        "read_cpu_seconds": data.seconds,
        "train_seconds": [f["train_seconds"] for f in figures],
        "train_cpu_seconds": [f["train_cpu_seconds"] for f in figures],
        "train_batch_cpu_ms": mean(f["train_batch_cpu_ms"] for f in figures),
        "eval_seconds": [f["eval_seconds"] for f in figures],
        "eval_cpu_seconds": [f["eval_cpu_seconds"] for f in figures],
        "eval_instance_cpu_ms": first.get("eval_instance_cpu_ms"),
        "chain_cpu_seconds": first.get("chain_cpu_seconds"),
        "depth": first["depth"],
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "threads": torch.get_num_threads(),
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__},
        "config": config.model_dump(mode="json"),
    }


def _std(values: list[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def _kept_or_run(task: ClutrrRun, data: Data, seed: int, on_epoch: OnStep) -> dict[str, Any]:
    """The figures of a seed, as an earlier run with the same settings kept them; else measured now."""
    path, config = task.kept(seed), configure(task, data.kb, seed).model_dump(mode="json")
    if path and path.is_file():
        kept: dict[str, Any] = json.loads(path.read_text())
        if kept.pop("config") == config:
            return kept
    figures = _seed(task, data, seed, on_epoch)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**figures, "config": config}) + "\n")
    return figures


def _seed(task: ClutrrRun, data: Data, seed: int, on_epoch: OnStep) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    trainer = create_trainer(configure(task, data.kb, seed), data.kb, torch.device("cpu"))
    ticks: list[float] = []
    while not trainer.finished:
        ticks.append(math.nan)  # the time between two epochs is not a batch
        on_epoch(trainer.train_epoch(lambda _: ticks.append(time.process_time())))
    model = trainer.model()
    figures: dict[str, Any] = {
        "train_seconds": time.perf_counter() - wall,
        "train_cpu_seconds": time.process_time() - cpu,
        "train_batch_cpu_ms": _batch_ms(ticks),
    }
    wall, cpu = time.perf_counter(), time.process_time()
    figures["accuracy"] = {str(n): accuracy_on(model, graphs) for n, graphs in data.tests.items()}
    figures["eval_seconds"] = time.perf_counter() - wall
    figures["eval_cpu_seconds"] = time.process_time() - cpu
    if seed == 0:  # once is enough: the time does not depend on the weights
        timed = {str(n): _instance_ms(model, graphs) for n, graphs in data.tests.items()}
        figures["eval_instance_cpu_ms"] = timed
        proves = task.dataset == FAMILY and isinstance(model, CtpGraphsModel)
        figures["chain_cpu_seconds"] = _chain_seconds(model) if proves else None
    longest = max(len(graph.facts) for graphs in data.tests.values() for graph in graphs)
    figures["depth"] = _depth(model, longest)
    return figures


def _depth(model: GraphsModel, longest: int) -> int | None:
    """The depth of answers about graphs of this length; None for a network or a search to the fixpoint."""
    if not isinstance(model, CtpGraphsModel) or model.config.prover == "tabled" or model.depth is not None:
        return model.depth
    return model.reasoner.exact_depth(longest)


def _chain_seconds(model: GraphsModel) -> float | None:
    """CPU time of a question about the ends of one long chain, with its best proof; None where it is too deep."""
    [graph] = family_graphs(1, (CHAIN_LENGTH,), seed=5)
    question = Question(Goal(graph.subject, None, graph.object), graph.facts, top_k=1, proofs=1)
    started = time.process_time()
    [answers] = model.answer([question], Budget())
    seconds = time.process_time() - started
    assert isinstance(answers, Answers)
    if not answers.items:
        return None
    assert len(answers.items[0].proofs[0].facts) == CHAIN_LENGTH
    return seconds


def _batch_ms(ticks: list[float]) -> float:
    """Median CPU time of a batch: other programs on the machine slow some batches down, but speed none up."""
    gaps = [1000 * (after - before) for before, after in pairwise(ticks)]
    return median(gap for gap in gaps if not math.isnan(gap))


def accuracy_on(model: GraphsModel, graphs: Sequence[Graph]) -> float:
    """The share of graphs that are labelled rightly. Isomorphic graphs are scored once, but each counts.

    Facts with unknown predicates are ignored, as in answers; a graph that loses its pair by that counts as wrong.
    """
    scorer: GraphScorer = model.scorer
    labelled = [graph for graph in graphs if graph.label is not None]
    readable = understood(labelled, scorer.predicates)
    if not readable:
        return 0.0
    examples = Examples.of(read_graphs(readable, merge=True), scorer, 1.0)
    scores = [scorer.scores(batch) for batch in stacked(examples, scorer, model.depth)]
    return accuracy(torch.cat(scores), examples) * len(readable) / len(labelled)


def _instance_ms(model: GraphsModel, graphs: Sequence[Graph]) -> float:
    """Mean CPU time of one instance by itself, its charts included: instances share nothing."""
    readable = understood(graphs[:TIMED_INSTANCES], model.scorer.predicates)
    some = Examples.of(read_graphs(readable, merge=True), model.scorer, 1.0).instances
    started = time.process_time()
    for instance in some:
        alone: GraphScorer = model.scorer.afresh()
        alone.scores(alone.stack([instance], model.depth))
    return 1000 * (time.process_time() - started) / max(1, len(some))
