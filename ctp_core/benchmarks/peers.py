"""Compares our models with other programs on the same machine: accuracy, CPU time, memory, latency of a query."""

import importlib.util
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ctp_core.base.evaluation import known_filters, rank_facts, ranking_metrics
from ctp_core.base.goals import GoalIds, Score
from ctp_core.base.model import Budget, Question
from ctp_core.benchmarks.data import read_benchmark
from ctp_core.benchmarks.links import LinksRun
from ctp_core.embeddings.factorisations import INITIAL_SCALE
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.registry import create_trainer
from ctp_core.symbols import Goal

OURS = ("proofs", "hybrid", "complex")
LATENCY_QUESTIONS = 50
TOP_K = 10
# Settings that both ComplEx models share, as far as PyKEEN has them: our preset's epochs, batches, start near zero.
RANK, EPOCHS, BATCH, RATE, N3 = 200, 80, 100, 0.1, 0.01
# MRR, Hits@1, @3, @10 on the same splits, as their sources give them.
PUBLISHED: dict[str, dict[str, tuple[str, tuple[float, ...]]]] = {
    "umls": {
        "ConvE": ("README of TimDettmers/ConvE", (0.94, 0.92, 0.97, 0.99)),
        "NeuralLP": ("link-prediction table of the CTP paper", (0.778, 0.643, 0.869, 0.962)),
        "MINERVA": ("link-prediction table of the CTP paper", (0.825, 0.728, 0.900, 0.968)),
    },
    "kinship": {
        "ConvE": ("README of TimDettmers/ConvE", (0.83, 0.73, 0.91, 0.98)),
        "NeuralLP": ("link-prediction table of the CTP paper", (0.619, 0.475, 0.707, 0.912)),
        "MINERVA": ("link-prediction table of the CTP paper", (0.720, 0.605, 0.812, 0.924)),
    },
    "nations": {"ConvE": ("README of TimDettmers/ConvE", (0.82, 0.72, 0.88, 1.0))},
}


@dataclass(frozen=True)
class Row:
    """`source` is `measured`, or names a publication; `metrics` is empty where a program could not be measured."""

    name: str
    source: str
    metrics: dict[str, float]
    train_cpu_seconds: float | None = None
    peak_mb: float | None = None
    query_ms: float | None = None


def rows(data: Path, dataset: str, models: Sequence[str], seed: int = 0) -> list[Row]:
    """Measures every program in its own process, so that memory is not shared; then adds published figures."""
    jobs = [(measure_ours, (data, dataset, model, seed)) for model in models]
    measured = [_alone(*job) for job in jobs]
    if importlib.util.find_spec("pykeen") is None:
        measured.append(Row("PyKEEN ComplEx", "not installed: pip install '.[peers]'", {}))
    else:
        measured.append(_alone(measure_pykeen, (data, dataset, seed)))
    names = ("mrr", "hits@1", "hits@3", "hits@10")
    published = [
        Row(name, f"published: {source}", dict(zip(names, figures, strict=True)))
        for name, (source, figures) in PUBLISHED.get(dataset, {}).items()
    ]
    return [*measured, *published]


def _alone(measure: Callable[..., Row], arguments: tuple[Any, ...]) -> Row:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def measure_ours(data: Path, dataset: str, model: str, seed: int) -> Row:
    torch.set_num_threads(1)
    kb = read_benchmark(data, dataset)
    started = time.process_time()
    trained = create_trainer(LinksRun(data, dataset, model).config(kb, seed), kb, torch.device("cpu")).fit()
    seconds = time.process_time() - started
    metrics = _metrics(kb, trained.kb_logits)
    names = kb.entities.names, kb.predicates.names

    def ask(subject: int, predicate: int) -> None:
        trained.answer([Question(Goal(names[0][subject], names[1][predicate], None), top_k=TOP_K)], Budget())

    return Row(f"ctp {model}", "measured", metrics, seconds, _peak_mb(), _latency(kb, ask))


def measure_pykeen(data: Path, dataset: str, seed: int) -> Row:
    """PyKEEN's ComplEx with inverse predicates, one-vs-all cross-entropy and Adagrad, ranked by our ranking."""
    from pykeen.losses import CrossEntropyLoss  # noqa: PLC0415
    from pykeen.models import ComplEx  # noqa: PLC0415
    from pykeen.regularizers import LpRegularizer  # noqa: PLC0415
    from pykeen.training import LCWATrainingLoop  # noqa: PLC0415
    from pykeen.triples import CoreTriplesFactory  # noqa: PLC0415

    torch.set_num_threads(1)
    kb = read_benchmark(data, dataset)
    facts = torch.from_numpy(kb.splits["train"])
    factory = CoreTriplesFactory.create(facts, len(kb.entities), len(kb.predicates), create_inverse_triples=True)
    small = partial(torch.nn.init.normal_, std=INITIAL_SCALE)
    started = time.process_time()
    model = ComplEx(
        triples_factory=factory,
        embedding_dim=RANK,
        entity_initializer=small,
        relation_initializer=small,
        loss=CrossEntropyLoss(),
        regularizer=LpRegularizer(weight=N3, p=3.0, apply_only_once=False),
        random_seed=seed,
    )
    optimiser = torch.optim.Adagrad(model.parameters(), lr=RATE)
    loop = LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimiser)
    loop.train(triples_factory=factory, num_epochs=EPOCHS, batch_size=BATCH, use_tqdm=False, sampler=None)
    seconds = time.process_time() - started

    def score(goals: GoalIds) -> NDArray[np.floating]:
        predict, given = (model.predict_t, [0, 1]) if goals.forward else (model.predict_h, [1, 2])
        return np.asarray(predict(torch.from_numpy(goals.facts[:, given])).detach().numpy())

    def ask(subject: int, predicate: int) -> None:
        model.predict_t(torch.tensor([[subject, predicate]])).topk(min(TOP_K, len(kb.entities)))

    return Row("PyKEEN ComplEx", "measured", _metrics(kb, score), seconds, _peak_mb(), _latency(kb, ask))


def _metrics(kb: FactsKB, score: Score) -> dict[str, float]:
    return ranking_metrics(rank_facts(kb.splits["test"], score, known_filters(kb, "test")))


def _latency(kb: FactsKB, ask: Callable[[int, int], None]) -> float:
    """Median wall-clock milliseconds of one question for the best objects, without the first question."""
    taken = []
    for subject, predicate, _ in kb.splits["test"][: LATENCY_QUESTIONS + 1].tolist():
        started = time.perf_counter()
        ask(subject, predicate)
        taken.append(1000 * (time.perf_counter() - started))
    return median(taken[1:] or taken)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
