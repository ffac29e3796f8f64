"""Stores a KB in many short transactions, so that others need not wait long; the last one makes it visible."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import structlog
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ctp_core.kb.knowledge_base import FactIds
from ctp_core.symbols import Vocabulary
from service.db.bulk import insert_rows
from service.db.engine import Database
from service.db.tables import FactBlock, GraphRow, Kb, Symbol
from service.errors import Conflict
from service.kbs import repository
from service.kbs.blocks import blocks
from service.names import new_id

log = structlog.get_logger()
RACE_RETRIES = 5
NO_LABEL = -1
CHUNK_ROWS = 10_000
CHUNK_BLOCKS = 32
# A pause between transactions lets others write: SQLite does not serve waiting writers in turn.
PAUSE_SECONDS = 0.01
# Columns of the rows to delete, and the rows per transaction; each block number occurs in four orderings.
SWEPT = ((Symbol.position, CHUNK_ROWS), (GraphRow.number, CHUNK_ROWS), (FactBlock.number, CHUNK_BLOCKS // 4))
T = TypeVar("T")
SYMBOL_COLUMNS = ("kb", "role", "position", "name", "num_facts")
BLOCK_COLUMNS = ("kb", "ordering", "number", "subject", "predicate", "object", "position", "rows")
GRAPH_COLUMNS = ("kb", "number", "split", "num_facts", "subject", "object", "label")


@dataclass(frozen=True)
class StoredKB:
    """A KB in the form of the tables; `graphs` are rows of split, num_facts, subject, object, label (-1: none)."""

    kind: str
    sha256: str
    entities: Vocabulary
    predicates: Vocabulary
    ids: FactIds
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
    finished: bool = False

    @classmethod
    def start(cls, database: Database, tenant: str, name: str, content: StoredKB) -> "Load":
        """Writes everything except the last step; reuses the KB of this name if it has the same content."""
        kb, created = _begin(database, tenant, name, content)
        load = cls(database, kb, created)
        if created:
            try:
                load._write(content)
            except BaseException:
                load._give_up()
                raise
        return load

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        if self.created and not self.finished:
            self._give_up()

    def finish(self, session: Session) -> Kb:
        """Makes the KB visible when the session commits."""
        if self.created:
            _check(repository.make_ready(session, self.kb))
            log.info("kb_loaded", kb_id=self.kb.id, facts=self.kb.num_facts)
        self.finished = True
        return self.kb

    def _write(self, content: StoredKB) -> None:
        for table, columns, rows in _chunks(self.kb.number, content):
            with self.database.write() as session:
                _check(repository.still_loading(session, self.kb))
                insert_rows(session, table, columns, rows)
            time.sleep(PAUSE_SECONDS)

    def _give_up(self) -> None:
        with self.database.write() as session:
            repository.give_up(session, self.kb)


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


def _chunks(kb: int, content: StoredKB) -> Iterator[tuple[Any, Sequence[str], Sequence[Sequence[Any]]]]:
    """Yields the table, columns and rows of each transaction."""
    counts = {
        repository.ENTITY: np.bincount(content.ids[:, [0, 2]].ravel(), minlength=len(content.entities)),
        repository.PREDICATE: np.bincount(content.ids[:, 1], minlength=len(content.predicates)),
    }
    for vocabulary in (content.predicates, content.entities):
        numbers = counts[vocabulary.role].tolist()
        for chunk in _batched(enumerate(vocabulary), CHUNK_ROWS):
            yield Symbol, SYMBOL_COLUMNS, [(kb, vocabulary.role, i, name, numbers[i]) for i, name in chunk]
    for graphs in _batched(enumerate(content.graphs), CHUNK_ROWS):
        yield GraphRow, GRAPH_COLUMNS, [(kb, number, *row) for number, row in graphs]
    for some in _batched(blocks(content.ids), CHUNK_BLOCKS):
        yield FactBlock, BLOCK_COLUMNS, [(kb, *(block[c] for c in BLOCK_COLUMNS[1:])) for block in some]


def sweep(database: Database) -> int:
    """Removes deleted KBs and abandoned loads in short transactions; returns how many there were."""
    with database.read() as session:
        abandoned = repository.abandoned(session)
    for kb in abandoned:
        with database.write() as session:
            if not repository.take_abandoned(session, kb):
                continue
        for column, size in SWEPT:
            _sweep_rows(database, kb, column, size)
        with database.write() as session:
            repository.forget(session, kb)
        log.info("kb_swept", kb_id=kb.id)
    return len(abandoned)


def _sweep_rows(database: Database, kb: Kb, column: Any, size: int) -> None:
    with database.read() as session:
        last = repository.last_of(session, kb, column)
    for first in range(0, last + 1, size):
        with database.write() as session:
            repository.delete_range(session, kb, column, first, size)
        time.sleep(PAUSE_SECONDS)


def _batched(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch
