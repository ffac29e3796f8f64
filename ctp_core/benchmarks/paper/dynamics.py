"""Training accuracy over iterations, as in the paper: 5 reformulators or 32 rules, vectors of length 50."""

from contextlib import suppress
from typing import Any

import torch

from ctp_core.config import BaseConfig
from ctp_core.datasets.kb import GraphsKB
from ctp_core.models.graph_reasoner import Batch
from ctp_core.models.registry import create_trainer
from ctp_core.training.graph_examples import Examples, accuracy, read_graphs
from ctp_core.training.graphs import GraphsTrainer
from ctp_core.training.trainer import Progress

DATASET = "db9b8f04"
ITERATIONS = 600
EVERY = 20
SAMPLE = 500  # distinct training graphs that the accuracy is taken on, weighted by how often they occur

Curve = list[tuple[int, float]]


class Enough(Exception):
    """All iterations were made."""


def settings(system: str) -> dict[str, Any]:
    """`ours` keeps its own templates; its schedule must not know how long the curve is."""
    if system.startswith("ours"):
        return {"schedule": "constant", "steps": None, "epochs": 400}
    return {"dim": 50, "epochs": 400, **({} if system == "gntp" else {"templates": ("2",) * 5})}


def curve(config: BaseConfig, kb: GraphsKB) -> Curve:
    """(iteration, accuracy on training graphs) up to ITERATIONS gradient steps."""
    trainer = create_trainer(config, kb, torch.device("cpu"))
    assert isinstance(trainer, GraphsTrainer)
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


def _sample(trainer: GraphsTrainer) -> tuple[Examples, Batch]:
    """Distinct training graphs, every n-th, as the prover sees them in training."""
    graphs = read_graphs(trainer.kb.splits["train"], merge=True)
    examples = Examples.of(graphs[:: max(1, len(graphs) // SAMPLE)], trainer.scorer, 1.0)
    return examples, trainer.scorer.stack(examples.instances, trainer.config.train_depth)
