"""Small KBs of odd shapes, and a process that trains on them while its memory is watched."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from ctp_core.base.config import BaseConfig
from ctp_core.base.model import Answers, Budget, Model, Question
from ctp_core.benchmarks.ladder.memory import peak_mb, reset_peak, resident_bytes
from ctp_core.errors import ConfigError, DataError
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import preset_for
from ctp_core.registry import create_trainer, load_model
from ctp_core.symbols import Fact, Goal, Vocabulary

MANY_PREDICATES = "1,000 predicates with one fact each"
ODD = {
    "one fact": FactsKB.from_facts({"train": [Fact("a", "p", "b")]}),
    "one entity": FactsKB.from_facts({"train": [Fact("a", f"p{number}", "a") for number in range(5)]}),
    "self-loops only": FactsKB.from_facts({"train": [Fact(f"e{number}", "p", f"e{number}") for number in range(30)]}),
    MANY_PREDICATES: FactsKB.from_facts(
        {"train": [Fact(f"e{number}", f"p{number}", f"e{number + 1}") for number in range(1_000)]}
    ),
    "one hub": FactsKB.from_facts(
        {"train": [Fact(f"e{number}", f"p{number % 2}", "hub") for number in range(1_500)]},
    ),
}


def ring(size: int) -> FactsKB:
    """Entities in a ring: each has two facts, one to its neighbour and one from the other."""
    entities = np.arange(size)
    facts = np.column_stack([entities, np.zeros(size, dtype=np.int64), np.roll(entities, -1)])
    return FactsKB(
        Vocabulary("entity", (f"e{entity}" for entity in range(size))), Vocabulary("predicate", ["p"]), {"train": facts}
    )


@dataclass(frozen=True)
class Outcome:
    """`refused` is why nothing was trained, empty where the model answered; `fault` is anything else that happened."""

    peak_mb: float
    refused: str = ""
    fault: str = ""


class TooMuchMemory(AssertionError):
    """The training went past its bound and was ended."""


class Trainee:
    """A process that trains on one KB after the other, and is ended when it holds too much."""

    def __init__(self) -> None:
        self._connection: Connection[Any, Any]
        self._connection, there = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(target=_serve, args=(there,), daemon=True)
        self._process.start()
        there.close()

    def train(self, kb: FactsKB, method: str | None, max_mb: float, *, quick: bool = False) -> Outcome:
        """Trains with the default preset, asks and stores; raises TooMuchMemory."""
        self._connection.send((kb, method, quick))
        try:
            self._watch(method, max_mb)
        except BaseException:  # also a test that takes too long: its answer must not be taken for that to the next
            self.end()
            raise
        outcome: Outcome = self._connection.recv()
        if outcome.peak_mb > max_mb:
            raise TooMuchMemory(f"{method} held {outcome.peak_mb:.0f} MB, more than {max_mb:.0f}")
        return outcome

    def _watch(self, method: str | None, max_mb: float) -> None:
        """Waits for the answer; raises TooMuchMemory."""
        while not self._connection.poll(0.05):
            held = resident_bytes(self._process.pid or 0) / 2**20
            if held > max_mb:
                raise TooMuchMemory(f"{method} holds {held:.0f} MB, more than {max_mb:.0f}")

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()


@contextmanager
def trainee() -> Iterator[Trainee]:
    process = Trainee()
    try:
        yield process
    finally:
        if process.alive:
            process.end()


def _serve(connection: "Connection[Any, Any]") -> None:
    torch.set_num_threads(1)
    while True:
        try:
            kb, method, quick = connection.recv()
        except EOFError:
            return
        reset_peak()
        try:
            connection.send(Outcome(refused=_trained(kb, method, quick), peak_mb=peak_mb()))
        except Exception as error:
            connection.send(Outcome(fault=f"{type(error).__name__}: {error}", peak_mb=peak_mb()))


def _trained(kb: FactsKB, method: str | None, quick: bool) -> str:
    """Why the KB cannot be trained on, empty where it can."""
    config = preset_for(Profile.of(kb), "fast", method, None)
    try:
        model = create_trainer(shortened(config) if quick else config, kb, torch.device("cpu")).fit()
    except (ConfigError, DataError) as error:
        return str(error)
    loaded = load_model(model.to_artifact(), torch.device("cpu"))
    first = kb.fact(kb.splits["train"][0].tolist())
    for goal in (Goal(first.subject, first.predicate, None), Goal(None, first.predicate, first.object)):
        assert _scores(model, goal) == _scores(loaded, goal)
    assert all(0 <= rule.confidence <= 1 for rule in model.rules())
    return ""


def shortened(config: BaseConfig) -> BaseConfig:
    """Settings that train no longer than needed to see that training works."""
    less = {name: value for name, value in {"epochs": 2, "search": ()}.items() if name in type(config).model_fields}
    return config.model_copy(update=less)


def _scores(model: Model, goal: Goal) -> list[tuple[Fact, float]]:
    [answers] = model.answer([Question(goal, top_k=3, proofs=2)], Budget())
    assert isinstance(answers, Answers), answers
    assert answers.items
    assert all(math.isfinite(answer.score) and 0 <= answer.score <= 1 for answer in answers.items)
    return [(answer.fact, answer.score) for answer in answers.items]
