"""Keeps models in memory; drops the least recently used ones when they take too much."""

import gc
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ctp_core.artifact import decode
from ctp_core.base.facts_model import NO_FACTS, FactsModel
from ctp_core.base.model import Budget, Model, Question
from ctp_core.errors import ArtifactError
from ctp_core.registry import load_model
from ctp_core.symbols import Goal
from service.db.engine import Database
from service.facts.files import KbFiles
from service.files.stores import make_storage
from service.health.counters import CACHE_EVICTIONS, CACHE_HITS, CACHE_MISSES
from service.kbs import repository as kbs
from service.kbs.whole import KbRows
from service.settings import Settings
from worker import memory
from worker.device import choose_device
from worker.shares import Key

MAX_DEPTH = 8
MEASURE_SECONDS = 5.0
WARM_SECONDS = 60.0
# What a model takes for each byte of its files: the files, its tensors, and what it builds of them at once.
LOADED_PER_BYTE = 3


@dataclass
class Loaded:
    """A model in memory, with the size of its files and of all that it has built from them."""

    model: Model
    file_bytes: int
    num_bytes: int = 0
    measured: float = float("-inf")

    def measure(self) -> None:
        """Updates the size now and then, since a model may build tables when it is asked."""
        if time.monotonic() - self.measured > MEASURE_SECONDS:
            self.num_bytes = self.file_bytes + array_bytes(self.model, set())
            self.measured = time.monotonic()


def array_bytes(value: Any, seen: set[int], depth: int = 0) -> int:
    """Sums the bytes of all tensors and arrays that are reachable through attributes and containers."""
    if id(value) in seen or depth > MAX_DEPTH:
        return 0
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None else 0
    if isinstance(value, dict):
        return sum(array_bytes(part, seen, depth + 1) for part in value.values())
    if isinstance(value, list | tuple):
        # Long lists of names or ids contain no arrays; the first element tells.
        some = value if not value or not isinstance(value[0], str | int | float) else ()
        return sum(array_bytes(part, seen, depth + 1) for part in some)
    return sum(array_bytes(part, seen, depth + 1) for part in vars(value).values()) if hasattr(value, "__dict__") else 0


def warm(model: Model) -> None:
    """Asks a question, so that a model builds now what it keeps for all questions: a search has less time than a load.

    Of a large KB that can take longer than a search may, and a child that is killed would begin again each time.
    """
    if isinstance(model, FactsModel) and len(facts := model.kb.splits.get("train", NO_FACTS)):
        fact = model.kb.fact(facts[0].tolist())
        question = Question(Goal(fact.subject, fact.predicate, None), top_k=1, proofs=0, depth=1)
        model.answer([question], Budget(WARM_SECONDS))


class ModelCache:
    """A cache of models by total size; always keeps the most recently used one, whatever its size."""

    def __init__(self, settings: Settings, count: Callable[[str], None]) -> None:
        self.storage = make_storage(settings)
        self.files = KbFiles.of(settings, self.storage)
        # All children of a query worker together keep as many bytes as are set; a search needs memory beside them.
        share, limit = settings.model_cache_bytes // settings.query_processes, memory.own_limit()
        self.max_bytes = share if limit is None else min(share, limit // 2)
        self.database = Database(settings.database)
        self.device = choose_device(settings.device)
        self.count = count
        self._loaded: OrderedDict[Key, Loaded] = OrderedDict()

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(self._loaded)

    def get(self, artifact: str, kb_id: str | None) -> Loaded:
        """Returns a model, loaded if need be.

        Raises ArtifactError if the files are gone or damaged, BadQuestion if the model does not fit the KB.
        """
        key = (artifact, kb_id)
        if key in self._loaded:
            self._loaded.move_to_end(key)
            self.count(CACHE_HITS)
            return self._loaded[key]
        self._loaded[key] = loaded = self._load_beside_others(artifact, kb_id)
        self.count(CACHE_MISSES)
        return loaded

    def make_room(self) -> None:
        """Drops the least recently used models until the rest fits; called after every batch."""
        self._drop_while(lambda kept: len(kept) > 1 and sum(kept) > self.max_bytes)

    def _drop_while(self, too_much: Callable[[list[int]], bool]) -> None:
        """Drops models, the least recently used first, as long as the sizes of those that are kept are too much."""
        evicted = 0
        while self._loaded and too_much([loaded.num_bytes for loaded in self._loaded.values()]):
            self._loaded.popitem(last=False)
            self.count(CACHE_EVICTIONS)
            evicted += 1
        if evicted:
            # A model may contain reference cycles, and the collector of this process runs only after very many answers.
            gc.collect()

    def _load_beside_others(self, artifact: str, kb_id: str | None) -> Loaded:
        """Loads a model; where the memory does not suffice, once more without the models of others."""
        try:
            return self._load(artifact, kb_id)
        except Exception as error:
            if not (memory.is_out_of_memory(error) and self._loaded):
                raise
        self._drop_while(lambda _: True)
        return self._load(artifact, kb_id)

    def _load(self, artifact: str, kb_id: str | None) -> Loaded:
        files = self.storage.get(artifact)
        file_bytes = sum(map(len, files.values()))
        self._drop_while(lambda kept: sum(kept) + LOADED_PER_BYTE * file_bytes > self.max_bytes)
        loaded = Loaded(load_model(decode(files), self.device), file_bytes)
        if kb_id is not None:
            with self.database.read() as session:
                row = kbs.by_id(session, kb_id)
                if row is None:
                    raise ArtifactError(f"the KB {kb_id!r} was deleted")
                rows = KbRows.of(session, row)
            loaded.model = loaded.model.on(rows.read(self.files))
        warm(loaded.model)
        loaded.measure()
        return loaded
