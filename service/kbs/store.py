"""Stores a KB: its files first, rows of graphs in many short transactions; the last one makes it visible."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

from ctp_core.kb.knowledge_base import FactIds
from ctp_core.symbols import Vocabulary
from service.db.bulk import insert_rows
from service.db.engine import Database
from service.db.tables import GraphRow, Kb
from service.errors import Conflict
from service.facts.files import KbFiles, owner_of
from service.facts.segment import Segment
from service.facts.writing import Content
from service.files.removals import remove_later
from service.kbs import repository
from service.names import new_id

log = structlog.get_logger()
RACE_RETRIES = 5
NO_LABEL = -1
CHUNK_ROWS = 10_000
# A pause between transactions lets others write: SQLite does not serve waiting writers in turn.
PAUSE_SECONDS = 0.01
BEATS = 4  # signs of life in the time after which a load counts as dead
T = TypeVar("T")
GRAPH_COLUMNS = ("kb", "number", "split", "num_facts", "subject", "object", "label")


@dataclass(frozen=True)
class StoredKB:
    """A KB in the form in which it is stored.

    `places` are the splits of the facts as places in SPLITS; `graphs` are rows of split, num_facts, subject, object,
    label (-1: none).
    """

    kind: str
    sha256: str
    entities: Vocabulary
    predicates: Vocabulary
    ids: FactIds
    places: NDArray[np.uint8]
    splits: dict[str, int]
    warnings: list[str]
    graphs: Sequence[tuple[str, int, int, int, int]] = ()
    max_length: int = 0
    templates: Sequence[str] = ()
    statistics: dict[str, Any] | None = None


@dataclass
class Load:
    """A KB that is being loaded; leaving the `with` block before `finish` gives the load up."""

    database: Database
    kb: Kb
    created: bool
    segment: Segment | None = None
    finished: bool = False

    @classmethod
    def start(cls, database: Database, files: KbFiles, tenant: str, name: str, content: StoredKB) -> "Load":
        """Writes everything except the last step; reuses the KB of this name if it has the same content."""
        kb, created = _begin(database, tenant, name, content)
        load = cls(database, kb, created)
        if created:
            try:
                with beating(database, kb):
                    load.segment = files.write(kb.id, content_of(content))
                load._write_graphs(content.graphs)
            except BaseException:
                load._give_up()
                raise
        return load

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        if self.created and not self.finished:
            self._give_up()

    @property
    def num_bytes(self) -> int:
        """What the load adds to the store."""
        return 0 if self.segment is None else self.segment.num_bytes

    def finish(self, session: Session) -> Kb:
        """Makes the KB visible when the session commits."""
        if self.created:
            assert self.segment is not None
            _check(repository.make_ready(session, self.kb))
            repository.add_revision(session, self.kb, self.segment)
            log.info("kb_loaded", kb_id=self.kb.id, facts=self.kb.num_facts)
        self.finished = True
        return self.kb

    def _write_graphs(self, graphs: Sequence[tuple[str, int, int, int, int]]) -> None:
        for some in _batched(enumerate(graphs), CHUNK_ROWS):
            with self.database.write() as session:
                _check(repository.still_loading(session, self.kb))
                rows = [(self.kb.number, number, *graph) for number, graph in some]
                insert_rows(session, GraphRow, GRAPH_COLUMNS, rows)
            time.sleep(PAUSE_SECONDS)

    def _give_up(self) -> None:
        with self.database.write() as session:
            repository.give_up(session, self.kb)


def content_of(content: StoredKB) -> Content:
    return Content(content.kind, content.entities.names, content.predicates.names, content.ids, content.places)


@contextmanager
def beating(database: Database, kb: Kb) -> Iterator[None]:
    """Says now and then that the load goes on; sorting and storing a large KB takes longer than a load may be silent.

    Raises Conflict at the end if the load was given up meanwhile.
    """
    done, ours = threading.Event(), True

    def beat() -> None:
        nonlocal ours
        while ours and not done.wait(repository.LOAD_SECONDS / BEATS):
            try:
                with database.write() as session:
                    ours = repository.still_loading(session, kb)
            except SQLAlchemyError as error:
                log.warning("load_not_heard", kb_id=kb.id, error=str(error))  # the next beat may be

    thread = threading.Thread(target=beat, name="load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    _check(ours)


def _check(ours: bool) -> None:
    if not ours:
        raise Conflict("load_given_up", "the load took too long and was given up: send the KB again")


def _begin(database: Database, tenant: str, name: str, content: StoredKB) -> tuple[Kb, bool]:
    """Returns the KB of this name, or a new one and True; retries if another call takes the name at the same time."""
    for _ in range(RACE_RETRIES):
        try:
            return _begin_once(database, tenant, name, content)
        except IntegrityError:
            continue
    raise _loading(name)


def _begin_once(database: Database, tenant: str, name: str, content: StoredKB) -> tuple[Kb, bool]:
    with database.write() as session:
        existing = repository.owned(session, tenant, name)
        silent = existing is not None and existing.status == "loading"
        if existing is not None and silent and repository.take_abandoned(session, existing):
            existing = None
        existing = existing or repository.sample(session, name)
        if existing is not None:
            return _existing(existing, content), False
        kb = Kb(
            id=new_id("kb"),
            tenant=tenant,
            name=name,
            kind=content.kind,
            status="loading",
            sha256=content.sha256,
            num_facts=len(content.ids),
            num_entities=len(content.entities),
            num_predicates=len(content.predicates),
            max_length=content.max_length,
            templates=list(content.templates),
            statistics=content.statistics,
            splits=content.splits,
            warnings=content.warnings,
        )
        session.add(kb)
        session.flush()
        repository.still_loading(session, kb)
        session.refresh(kb)
        return kb, True


def _loading(name: str) -> Conflict:
    return Conflict("kb_loading", f"a KB named {name!r} is still being loaded: try again later")


def _existing(kb: Kb, content: StoredKB) -> Kb:
    if kb.status == "loading":
        raise _loading(kb.name)
    if kb.sha256 != content.sha256 and kb.tenant == repository.SAMPLE_TENANT:
        raise Conflict("kb_is_sample", f"{kb.name!r} is the name of a sample: choose another name")
    if kb.sha256 != content.sha256:
        detail = f"a KB named {kb.name!r} with other facts exists: choose another name, or delete that KB first"
        raise Conflict("kb_exists", detail)
    return kb


def sweep(database: Database) -> int:
    """Removes deleted KBs and abandoned loads in short transactions; returns how many there were."""
    with database.read() as session:
        abandoned = repository.abandoned(session)
    for kb in abandoned:
        with database.write() as session:
            if not repository.take_abandoned(session, kb):
                continue
        _sweep_graphs(database, kb)
        with database.write() as session:
            remove_later(session, owner_of(kb.id))
            repository.forget(session, kb)
        log.info("kb_swept", kb_id=kb.id)
    return len(abandoned)


def _sweep_graphs(database: Database, kb: Kb) -> None:
    with database.read() as session:
        last = repository.last_graph(session, kb)
    for first in range(0, last + 1, CHUNK_ROWS):
        with database.write() as session:
            repository.delete_graphs(session, kb, first, CHUNK_ROWS)
        time.sleep(PAUSE_SECONDS)


def _batched(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch
