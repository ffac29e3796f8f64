"""Training accuracy over iterations, as in the paper: 5 reformulators or 32 rules, vectors of length 50."""

from contextlib import suppress
from typing import Any

import torch

from ctp_core.base.config import BaseConfig
from ctp_core.base.graph_examples import Examples, accuracy, read_graphs
from ctp_core.base.trainer import Progress
from ctp_core.ctp_graphs.reasoner import Batch
from ctp_core.ctp_graphs.trainer import CtpGraphsTrainer
from ctp_core.kb.isomorphism import WeightedGraph
from ctp_core.kb.knowledge_base import GraphsKB
from ctp_core.registry import create_trainer

DATASET = "db9b8f04"
ITERATIONS = 300  # within which the paper says that the three CTPs are nearly perfect
EVERY = 20
SAMPLE = 500  # distinct training graphs that the accuracy is taken on, weighted by how often they occur

Curve = list[tuple[int, float]]


class Enough(Exception):
    """Raised when all iterations were made."""


DEEP = "-deep"  # the exact prover, deep enough to prove a chain of four in any order
MEMORY = 512  # rules; with fewer, several goals share one and change it in turn


def settings(system: str) -> dict[str, Any]:
    """The settings of a system for its curve, where an iteration is a batch of the file's rows for every system.

    `ours` keeps its own templates, but not its schedule, which would depend on the length of the curve.
    """
    if system.startswith("ours"):
        return {"schedule": "constant", "steps": None, "epochs": 400, "distinct": False}
    chosen: dict[str, Any] = {"dim": 50, "epochs": 400, **({} if system == "gntp" else {"templates": ("2",) * 5})}
    if system.endswith(DEEP):
        chosen |= {"train_depth": 3, "optimiser": "adam", "learning_rate": 0.01, "memory": MEMORY}
    return chosen


def curve(config: BaseConfig, kb: GraphsKB) -> Curve:
    """(iteration, accuracy on training graphs) up to ITERATIONS gradient steps."""
    trainer = create_trainer(config, kb, torch.device("cpu"))
    assert isinstance(trainer, CtpGraphsTrainer)
    examples, batch = _sample(trainer)
    points: Curve = [(0, accuracy(trainer.scorer.scores(batch), examples))]
    done = 0

    def watch(_: Progress) -> None:
        nonlocal done
        done += 1
        if done % EVERY == 0:
            points.append((done, accuracy(trainer.scorer.scores(batch), examples)))
        if done >= ITERATIONS:
            raise Enough

    with suppress(Enough):
        while not trainer.finished:
            trainer.train_epoch(watch)
    return points


def ceiling(kb: GraphsKB) -> float:
    """The accuracy of always giving the commonest label of each graph: the same graph may have several."""
    graphs = _graphs(kb)
    best = sum(max(count for _, count in graph.labels) for graph in graphs)
    return best / sum(count for graph in graphs for _, count in graph.labels)


def _graphs(kb: GraphsKB) -> list[WeightedGraph]:
    """Every n-th distinct training graph, SAMPLE of them or somewhat more."""
    graphs = read_graphs(kb.splits["train"], merge=True)
    return graphs[:: max(1, len(graphs) // SAMPLE)]


def _sample(trainer: CtpGraphsTrainer) -> tuple[Examples, Batch]:
    """The graphs as the prover sees them in training."""
    examples = Examples.of(_graphs(trainer.kb), trainer.scorer, 1.0)
    return examples, trainer.scorer.stack(examples.instances, trainer.config.train_depth)
