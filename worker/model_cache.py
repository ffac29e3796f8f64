"""Models in memory: the least recently used give way when they take more than their share."""

import gc
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ctp_core.artifact import decode
from ctp_core.base.model import Model
from ctp_core.errors import ArtifactError
from ctp_core.registry import load_model
from service.db.engine import Database
from service.files.storage import make_storage
from service.health.counters import CACHE_EVICTIONS, CACHE_HITS, CACHE_MISSES
from service.kbs import repository as kbs
from service.settings import Settings
from worker.device import choose_device

MAX_DEPTH = 8
MEASURE_SECONDS = 5.0
Key = tuple[str, str | None]  # artifact, other KB


@dataclass
class Loaded:
    """A model in memory. Models are not made for threads: one batch of questions at a time."""

    model: Model
    file_bytes: int
    num_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    measured: float = float("-inf")

    def measure(self) -> None:
        """Tables that a model makes when it is first asked count as well, so this is done now and then."""
        if time.monotonic() - self.measured > MEASURE_SECONDS:
            self.num_bytes = self.file_bytes + array_bytes(self.model, set())
            self.measured = time.monotonic()


def array_bytes(value: Any, seen: set[int], depth: int = 0) -> int:
    """Bytes of all tensors and arrays that can be reached through attributes and containers."""
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
        # Names and ids have no arrays in them; a look at the first tells.
        some = value if not value or not isinstance(value[0], str | int | float) else ()
        return sum(array_bytes(part, seen, depth + 1) for part in some)
    return sum(array_bytes(part, seen, depth + 1) for part in vars(value).values()) if hasattr(value, "__dict__") else 0


class ModelCache:
    """Keeps at least the model that is in use, whatever its size."""

    def __init__(self, settings: Settings, count: Callable[[str], None]) -> None:
        self.storage, self.max_bytes = make_storage(settings), settings.model_cache_bytes
        self.database = Database(settings.database)
        self.device = choose_device(settings.device)
        self.count = count
        self._loaded: OrderedDict[Key, Loaded] = OrderedDict()
        self._loading: dict[Key, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, artifact: str, kb_id: str | None) -> Loaded:
        """Raises ArtifactError where the files are gone or damaged, BadQuestion where the model does not fit the KB.

        Whoever asks for a model that is being loaded waits for it; nobody else does.
        """
        key = (artifact, kb_id)
        found = self._find(key)
        if found is not None:
            return found
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            found = self._find(key)
            if found is not None:
                return found
            try:
                loaded = self._load(artifact, kb_id)
                with self._lock:
                    self._loaded[key] = loaded
            finally:
                with self._lock:
                    self._loading.pop(key, None)
        self.count(CACHE_MISSES)
        return loaded

    def _find(self, key: Key) -> Loaded | None:
        with self._lock:
            found = self._loaded.get(key)
            if found is not None:
                self._loaded.move_to_end(key)
        if found is not None:
            self.count(CACHE_HITS)
        return found

    def make_room(self) -> None:
        """Lets the least recently used go until the rest fits; called when a batch is done."""
        evicted = 0
        with self._lock:
            while len(self._loaded) > 1 and sum(m.num_bytes for m in self._loaded.values()) > self.max_bytes:
                self._loaded.popitem(last=False)
                self.count(CACHE_EVICTIONS)
                evicted += 1
        if evicted:
            # A model may refer to itself, and a worker's collector comes by itself only after very many answers.
            gc.collect()

    def _load(self, artifact: str, kb_id: str | None) -> Loaded:
        files = self.storage.get(artifact)
        loaded = Loaded(load_model(decode(files), self.device), sum(map(len, files.values())))
        if kb_id is not None:
            with self.database.read() as session:
                row = kbs.by_id(session, kb_id)
                if row is None:
                    raise ArtifactError(f"the KB {kb_id!r} is gone")
                loaded.model = loaded.model.on(kbs.read_kb(session, row))
        loaded.measure()
        return loaded
