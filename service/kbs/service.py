"""Operations on KBs: load, find, search, export, delete."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from ctp_core.errors import MAX_COMPARED
from ctp_core.kb.facts_builder import BuiltKB
from ctp_core.kb.formats.registry import FORMATS
from ctp_core.kb.formats.tsv import UNSAFE, write_tsv
from ctp_core.kb.graphs_builder import BuiltGraphs
from ctp_core.kb.knowledge_base import SPLITS, Graph
from ctp_core.kb.profile import Profile
from ctp_core.symbols import Fact, Vocabulary
from service.db.engine import Database
from service.db.tables import Kb
from service.errors import Conflict, NotFound
from service.facts.files import KbFiles
from service.facts.names import Names
from service.facts.reading import ENTITY, NUMBERS, PREDICATE, StoredFacts
from service.http.suggestions import not_found, unknown_symbol
from service.kbs import repository
from service.kbs.store import NO_LABEL, Load, StoredKB, content_of
from service.kbs.whole import KbRows, named_facts

NAMED_MODELS = 10  # in the refusal to delete a KB
EXPORT_LINES = 2000
EXPORT_GRAPHS = 500
UNSAFE_BYTES = re.compile(b"[\\t\\n\\r]|\xef\xbb\xbf")


def begin_load(database: Database, files: KbFiles, tenant: str, name: str, built: BuiltKB | BuiltGraphs) -> Load:
    """Writes a KB that stays invisible until the caller calls `finish` in a transaction of its own."""
    content = _stored_graphs(built) if isinstance(built, BuiltGraphs) else _stored_facts(built)
    return Load.start(database, files, tenant, name, content)


def _stored_facts(built: BuiltKB) -> StoredKB:
    kb = built.kb
    return StoredKB(
        kind=kb.kind,
        sha256=built.sha256,
        entities=kb.entities,
        predicates=kb.predicates,
        ids=np.concatenate(list(kb.splits.values())) if len(kb.splits) > 1 else kb.splits["train"],
        places=_places(kb.splits, [len(ids) for ids in kb.splits.values()]),
        splits={split: len(ids) for split, ids in kb.splits.items()},
        warnings=built.warnings,
        statistics=Profile.of(kb).counted,
    )


def _places(splits: Iterable[str], counts: Sequence[int]) -> NDArray[np.uint8]:
    """The place in SPLITS of each fact, of so many facts in a row."""
    return np.repeat(np.array([SPLITS.index(split) for split in splits], np.uint8), counts)


def _stored_graphs(built: BuiltGraphs) -> StoredKB:
    kb, entities, predicates = built.kb, built.entities, built.predicates
    profile = Profile.of(kb)
    graphs = [(split, graph) for split, some in kb.splits.items() for graph in some]
    ids = [
        (entities.id(f.subject), predicates.id(f.predicate), entities.id(f.object)) for _, g in graphs for f in g.facts
    ]
    return StoredKB(
        kind=kb.kind,
        sha256=built.sha256,
        entities=entities,
        predicates=predicates,
        ids=np.array(ids, dtype=np.int64).reshape(-1, 3),
        places=_places([split for split, _ in graphs], [len(g.facts) for _, g in graphs]),
        splits={split: len(some) for split, some in kb.splits.items()},
        warnings=built.warnings,
        graphs=[
            (split, len(g.facts), entities.id(g.subject), entities.id(g.object), _label(predicates, g.label))
            for split, g in graphs
        ],
        max_length=profile.max_length,
        templates=profile.templates,
        statistics=profile.counted,
    )


def _label(predicates: Vocabulary, label: str | None) -> int:
    return NO_LABEL if label is None else predicates.id(label)


def create(database: Database, files: KbFiles, tenant: str, name: str, built: BuiltKB | BuiltGraphs) -> tuple[Kb, bool]:
    """Stores a KB; returns it with True if it is new, with False if the same content already had this name."""
    with begin_load(database, files, tenant, name, built) as loaded, database.write() as session:
        return loaded.finish(session), loaded.created


def restore(database: Database, files: KbFiles, kb: Kb, build: Callable[[], BuiltKB]) -> None:
    """Writes the files of a KB again if the store has lost them; `build` makes the same KB."""
    with database.read() as session:
        if files.has(repository.artifact_of(session, kb)):
            return
    segment = files.write(kb.id, content_of(_stored_facts(build())))
    with database.write() as session:
        repository.replace_files(session, kb, segment)


def rows_of(database: Database, tenant: str, reference: str) -> KbRows:
    """Finds a KB whose facts or names are looked up; raises NotFound."""
    with database.read() as session:
        return KbRows.of(session, get(session, tenant, reference), graphs=False)


def get(session: Session, tenant: str, reference: str) -> Kb:
    kb = repository.find(session, tenant, reference)
    if kb is None:
        raise _not_found(session, tenant, reference)
    return kb


def profile_of(kb: Kb) -> Profile:
    """What is known of a KB without reading its facts; rows of older versions lack the counts until `count` has run."""
    stored = kb.statistics or {}
    return Profile(
        kind=kb.kind,
        num_facts=kb.splits.get("train", 0) if kb.kind == "facts" else kb.num_facts,
        num_entities=kb.num_entities if kb.kind == "facts" else 0,
        num_predicates=kb.num_predicates,
        max_length=kb.max_length,
        templates=tuple(kb.templates or ()),
        **(stored if Profile.is_counted(stored) else {}),
    )


def count(database: Database, files: KbFiles, tenant: str, reference: str) -> None:
    """Counts the statistics of a KB that an older version has stored; does nothing for any other, or without it."""
    with database.read() as session:
        kb = repository.find(session, tenant, reference)
        if kb is None or Profile.is_counted(kb.statistics):
            return
        rows = KbRows.of(session, kb)
    counted = Profile.of(rows.read(files)).counted
    with database.write() as session:
        repository.set_statistics(session, kb, counted)


def held(session: Session, tenant: str, reference: str, to_delete: bool = False) -> Kb:
    """Finds a KB and locks it until the transaction ends: against deletion or, with `to_delete`, against new uses."""
    kb = get(session, tenant, reference)
    if not repository.hold(session, kb, to_delete):
        raise _not_found(session, tenant, reference)
    return kb


def _and(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _not_found(session: Session, tenant: str, reference: str) -> NotFound:
    known = repository.names(session, tenant)
    return not_found("kb_not_found", "KB", reference, known, "GET /kbs lists your KBs")


def delete(database: Database, tenant: str, reference: str) -> None:
    """Deletes a KB; its rows are swept later. Raises Conflict for a sample, and for a KB that a model uses."""
    with database.write() as session:
        kb = get(session, tenant, reference)
        if kb.tenant != tenant:
            raise Conflict("kb_is_sample", f"{kb.name!r} is a sample, shared by everyone: it cannot be deleted")
        held(session, tenant, kb.id, to_delete=True)
        if in_use := repository.models_on(session, kb, NAMED_MODELS + 1):
            listed = [*in_use[:NAMED_MODELS], *(["others"] if len(in_use) > NAMED_MODELS else [])]
            detail = f"{_and(listed)} stand{'s' * (len(listed) == 1)} on {kb.name!r}: delete every model on it first"
            raise Conflict("kb_in_use", detail, models=in_use[:NAMED_MODELS])
        if job := repository.job_on(session, kb):
            detail = f"job {job!r} uses {kb.name!r}: wait for its end, or POST /jobs/{job}/cancel first"
            raise Conflict("kb_in_use", detail, job=job)
        repository.give_up(session, kb)


@dataclass(frozen=True)
class FoundFact:
    """A fact, its split, and its key, after which the next page can begin."""

    fact: Fact
    split: str
    key: list[int]


Pattern = tuple[str | None, str | None, str | None]
ROLES = (ENTITY, PREDICATE, ENTITY)  # of subject, predicate, object


def facts(stored: StoredFacts, pattern: Pattern, after: list[int] | None, limit: int) -> list[FoundFact]:
    """Finds the facts that match a pattern, in which None matches anything.

    They are sorted by the open places, or in the order of the upload if all are open. Raises Invalid for a name that
    the KB does not have.
    """
    fixed = {
        column: _number(stored, role, name)
        for column, role, name in zip(NUMBERS, ROLES, pattern, strict=True)
        if name is not None
    }
    entity, predicate = stored.entities.name, stored.predicates.name
    return [
        FoundFact(Fact(entity(row.subject), predicate(row.predicate), entity(row.object)), row.split, row.key)
        for row in stored.found(fixed, after, limit)
    ]


def check_predicates(stored: StoredFacts, names: Iterable[str], place: str) -> None:
    """Raises Invalid if a predicate is not in the KB; `place` says where the caller named it."""
    for name in names:
        if stored.predicates.number(name) is None:
            known = names_like(stored, PREDICATE, name)
            raise unknown_symbol("predicate", name, f"{stored.name!r}, which {place} names", known)


def check_entities(stored: StoredFacts, names: Iterable[str]) -> None:
    """Raises Invalid for the first of the names that is not an entity of the KB."""
    for name in names:
        _number(stored, ENTITY, name)


def _number(stored: StoredFacts, role: str, name: str) -> int:
    number = stored.names(role).number(name)
    if number is None:
        raise unknown_symbol(role, name, repr(stored.name), names_like(stored, role, name))
    return number


def names_like(stored: StoredFacts, role: str, name: str) -> list[str]:
    """Returns names to suggest for an unknown one: all if they are few, else those with the same first letter."""
    names = stored.names(role)
    if len(names) <= MAX_COMPARED:
        return list(names.all())
    found = (names.with_prefix(first) for first in sorted({name[:1].lower(), name[:1].upper()}))
    return [names.name(number) for number in islice(chain.from_iterable(found), MAX_COMPARED)]


@dataclass(frozen=True)
class FoundSymbol:
    """A name, its number, and the number of facts that contain it."""

    name: str
    number: int
    num_facts: int


def predicates(stored: StoredFacts, after: int, limit: int) -> list[FoundSymbol]:
    """Lists predicates in the order of the upload."""
    first = max(0, after + 1)
    return [_symbol(stored.predicates, number) for number in range(first, min(first + limit, len(stored.predicates)))]


def entities(stored: StoredFacts, prefix: str, after: str, limit: int) -> list[FoundSymbol]:
    """Lists the entities whose names begin with `prefix`, sorted by name, after a name."""
    found = stored.entities.with_prefix(prefix, after)
    return [_symbol(stored.entities, number) for number in islice(found, limit)]


def _symbol(names: Names, number: int) -> FoundSymbol:
    return FoundSymbol(names.name(number), number, int(names.num_facts[number]))


def neighbourhood(stored: StoredFacts, entity: str, limit: int) -> tuple[list[FoundFact], bool]:
    """Returns facts with the entity as subject, then as object, and whether there are more.

    Each half may have half of the limit, and more if the other needs less.
    """
    if stored.entities.number(entity) is None:
        near = names_like(stored, ENTITY, entity)
        remedy = f"GET /kbs/{stored.name}/entities lists those of this KB"
        raise not_found("entity_not_found", "entity", entity, near, remedy)
    going = facts(stored, (entity, None, None), None, limit + 1)
    # A fact from the entity to itself is among the first half already.
    coming = [f for f in facts(stored, (None, None, entity), None, limit + 1) if f.fact.subject != entity]
    share = max(limit - len(coming), limit // 2) if len(going) > limit // 2 else len(going)
    shown = going[:share] + coming[: limit - min(share, len(going))]
    return shown, len(shown) < len(going) + len(coming)


def export(database: Database, files: KbFiles, rows: KbRows, format_name: str, split: str | None) -> Iterator[bytes]:
    """Yields the KB as a file, piece by piece; no transaction stays open while a slow reader downloads it."""
    kb, stored = rows.kb, rows.open(files)
    if split is not None and split not in kb.splits:
        raise NotFound("split_not_found", f"{kb.name!r} has no split {split!r}: use {', '.join(kb.splits)}")
    if kb.kind == "graphs":
        return _encoded(FORMATS[format_name].to_text(_export_graphs(database, kb, stored, split)))
    found = named_facts(stored, split)
    if format_name == "tsv":
        return _encoded(write_tsv(found, escape=_has_unsafe_name(stored)))
    return _encoded(FORMATS[format_name].to_text(found))


def _has_unsafe_name(stored: StoredFacts) -> bool:
    for names in (stored.entities, stored.predicates):
        # Searches the bytes first: hardly any KB has such a name, and to look at each name takes long.
        if names.contains(UNSAFE_BYTES) and any(UNSAFE.search(name) for name in names.all()):
            return True
    return False


def _export_graphs(database: Database, kb: Kb, stored: StoredFacts, split: str | None) -> Iterator[Graph]:
    """Yields the graphs of a split, or of all, each with its facts, which follow those of the graph before it.

    Raises ArtifactError if the KB is deleted meanwhile, since a file must not be cut short.
    """
    found, after, seen = named_facts(stored), -1, 0
    while seen < kb.num_facts:
        with database.read() as session:
            graphs = repository.graph_rows(session, kb, after, EXPORT_GRAPHS)
        if not graphs:
            raise repository.gone(kb)
        for row in graphs:
            own = tuple(islice(found, row.num_facts))
            if split in (None, row.split):
                yield repository.graph_of(row, own, stored)
        seen += sum(row.num_facts for row in graphs)
        after = graphs[-1].number


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    """Joins lines into larger pieces, since each piece is sent as one message."""
    piece: list[str] = []
    for line in lines:
        piece.append(line)
        if len(piece) == EXPORT_LINES:
            yield "".join(piece).encode()
            piece = []
    if piece:
        yield "".join(piece).encode()
