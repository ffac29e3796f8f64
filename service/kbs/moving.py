"""Moves KBs of older versions, whose facts and names are rows of the database, into files.

One KB at a time: its files are stored first, then one transaction writes the rows that name them and removes the old
ones. A kill in between leaves the old rows; the next run writes the same files under the same key.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
import structlog
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from ctp_core.errors import ArtifactError
from ctp_core.kb.knowledge_base import SPLITS, FactIds
from service.db.engine import Database, lock_name, wait_for_ever
from service.db.migrate import has_former_tables
from service.db.tables import Kb
from service.facts.files import KbFiles
from service.facts.segment import Segment
from service.facts.writing import Content
from service.kbs import repository

log = structlog.get_logger()
CHUNK_ROWS = 10_000
CHUNK_BLOCKS = 64
SYMBOLS = sa.table("symbols", *map(sa.column, ("kb", "role", "position", "name")))
BLOCKS = sa.table("fact_blocks", *map(sa.column, ("kb", "ordering", "number", "rows")))


def move(database: Database, files: KbFiles) -> int:
    """Moves all KBs that are still in rows, then drops the empty tables; returns how many there were."""
    moved = 0
    while (kb := _next(database)) is not None:
        content = _content(database, kb) if kb.status == "ready" else None
        if content is not None and not len(content.ids):
            continue  # another process has moved it meanwhile
        segment = None if content is None else files.write(kb.id, content)
        with database.write() as session:
            wait_for_ever(session.connection())
            lock_name(session, f"move:{kb.id}")
            _replace(session, kb, segment)
        moved += 1
        log.info("kb_moved", kb_id=kb.id, facts=kb.num_facts)
    with database.write() as session:
        lock_name(session, "move")
        for table in (BLOCKS, SYMBOLS):
            session.execute(sa.text(f"DROP TABLE IF EXISTS {table.name}"))
    return moved


def _next(database: Database) -> Kb | None:
    with database.read() as session:
        if not has_former_tables(session.connection()):
            return None
        number = session.scalar(sa.select(SYMBOLS.c.kb).order_by(SYMBOLS.c.kb).limit(1))
        return None if number is None else session.get_one(Kb, number)


def _replace(session: Session, kb: Kb, segment: Segment | None) -> None:
    """Writes the rows of the files and removes the old ones, unless another process has done so meanwhile.

    A KB that was being loaded or removed while the service was stopped gets no files: it is swept as ever.
    """
    if session.scalar(sa.select(SYMBOLS.c.kb).where(SYMBOLS.c.kb == kb.number).limit(1)) is None:
        return
    if segment is None:
        repository.give_up(session, kb)
    else:
        repository.add_revision(session, kb, segment)
    for table in (BLOCKS, SYMBOLS):
        session.execute(sa.delete(table).where(table.c.kb == kb.number))


def _content(database: Database, kb: Kb) -> Content:
    """Reads a KB from its rows; raises ArtifactError if some are missing, since then nothing may be removed."""
    with database.read() as session:
        entities, predicates = (list(_names(session, kb, role)) for role in ("entity", "predicate"))
        content = Content(kb.kind, entities, predicates, _ids(session, kb), _splits(session, kb))
    found = len(entities), len(predicates), len(content.ids)
    stated = kb.num_entities, kb.num_predicates, kb.num_facts
    if any(found) and found != stated:
        raise ArtifactError(
            f"the KB {kb.name!r} has {found} entities, predicates and facts in rows instead of {stated}"
        )
    return content


def _names(session: Session, kb: Kb, role: str) -> Iterator[str]:
    after = -1
    while True:
        wanted = (SYMBOLS.c.kb == kb.number, SYMBOLS.c.role == role, SYMBOLS.c.position > after)
        statement = sa.select(SYMBOLS.c.position, SYMBOLS.c.name).where(*wanted).order_by(SYMBOLS.c.position)
        rows: Sequence[Any] = session.execute(statement.limit(CHUNK_ROWS)).all()
        if not rows:
            return
        yield from (row.name for row in rows)
        after = rows[-1].position


def _ids(session: Session, kb: Kb) -> FactIds:
    """The facts in the order of the upload: rows of subject, predicate, object and position."""
    found, number = [np.zeros((0, 3), np.int64)], 0
    while True:
        wanted = (BLOCKS.c.kb == kb.number, BLOCKS.c.ordering == "upload", BLOCKS.c.number >= number)
        statement = sa.select(BLOCKS.c.rows).where(*wanted).order_by(BLOCKS.c.number).limit(CHUNK_BLOCKS)
        blocks = session.scalars(statement).all()
        if not blocks:
            return np.concatenate(found)
        found += [np.frombuffer(block, "<i4").reshape(-1, 4)[:, :3].astype(np.int64) for block in blocks]
        number += len(blocks)


def _splits(session: Session, kb: Kb) -> NDArray[np.uint8]:
    """The place in SPLITS of each fact."""
    if kb.kind == "graphs":
        graphs = repository.graph_rows(session, kb)
        places = [SPLITS.index(graph.split) for graph in graphs]
        return np.repeat(np.array(places, np.uint8), [graph.num_facts for graph in graphs])
    names = [name for name in SPLITS if name in kb.splits]
    return np.repeat(np.array([SPLITS.index(name) for name in names], np.uint8), [kb.splits[name] for name in names])
