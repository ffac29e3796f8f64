"""Operations on KBs: load, find, search, export, delete."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from sqlalchemy.orm import Session

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
from service.http.suggestions import not_found, unknown_symbol
from service.kbs import repository
from service.kbs.blocks import ORDERINGS, ordering_for
from service.kbs.store import NO_LABEL, Load, StoredKB

NAMED_MODELS = 10  # in the refusal to delete a KB
EXPORT_BLOCKS = 16
EXPORT_LINES = 2000
EXPORT_GRAPHS = 500


def begin_load(database: Database, tenant: str, name: str, built: BuiltKB | BuiltGraphs) -> Load:
    """Writes a KB that stays invisible until the caller calls `finish` in a transaction of its own."""
    content = _stored_graphs(built) if isinstance(built, BuiltGraphs) else _stored_facts(built)
    return Load.start(database, tenant, name, content)


def _stored_facts(built: BuiltKB) -> StoredKB:
    kb = built.kb
    return StoredKB(
        kind=kb.kind,
        sha256=built.sha256,
        entities=kb.entities,
        predicates=kb.predicates,
        ids=np.concatenate(list(kb.splits.values())),
        splits={split: len(ids) for split, ids in kb.splits.items()},
        warnings=built.warnings,
        statistics=Profile.of(kb).counted,
    )


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


def create(database: Database, tenant: str, name: str, built: BuiltKB | BuiltGraphs) -> tuple[Kb, bool]:
    """Stores a KB; returns it with True if it is new, with False if the same content already had this name."""
    with begin_load(database, tenant, name, built) as loaded, database.write() as session:
        return loaded.finish(session), loaded.created


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


def count(session: Session, kb: Kb) -> None:
    """Counts the statistics of a KB that an older version has stored; does nothing for any other."""
    if not Profile.is_counted(kb.statistics):
        kb.statistics = Profile.of(repository.read_kb(session, kb)).counted
        session.flush()


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


def facts(session: Session, kb: Kb, pattern: Pattern, after: list[int] | None, limit: int) -> list[FoundFact]:
    """Finds the facts that match a pattern, in which None matches anything.

    They are sorted by the open places, or in the order of the upload if all are open. Raises Invalid for a name that
    the KB does not have.
    """
    fixed: dict[int, int] = {}
    for column, (role, name) in enumerate(zip(repository.ROLES, pattern, strict=True)):
        if name is not None:
            fixed[column] = _position(session, kb, role, name)
    columns = ORDERINGS[ordering_for(set(fixed))]
    rows: list[list[int]] = repository.found_rows(session, kb, fixed, after, limit).tolist()
    named = zip(rows, _named(session, kb, rows), _splits(session, kb, rows), strict=True)
    return [FoundFact(fact, split, [row[column] for column in columns]) for row, fact, split in named]


def check_predicates(session: Session, kb: Kb, names: Iterable[str], place: str) -> None:
    """Raises Invalid if a predicate is not in the KB; `place` says where the caller named it."""
    for name in names:
        if repository.position_of(session, kb, repository.PREDICATE, name) is None:
            known = repository.names_like(session, kb, repository.PREDICATE, name)
            raise unknown_symbol("predicate", name, f"{kb.name!r}, which {place} names", known)


def check_entities(session: Session, kb: Kb, names: Collection[str]) -> None:
    """Raises Invalid for the first of the names that is not an entity of the KB."""
    known = repository.known_names(session, kb, repository.ENTITY, names)
    for name in names:
        if name not in known:
            near = repository.names_like(session, kb, repository.ENTITY, name)
            raise unknown_symbol("entity", name, repr(kb.name), near)


def _position(session: Session, kb: Kb, role: str, name: str) -> int:
    position = repository.position_of(session, kb, role, name)
    if position is None:
        raise unknown_symbol(role, name, repr(kb.name), repository.names_like(session, kb, role, name))
    return position


def _named(session: Session, kb: Kb, rows: list[list[int]]) -> list[Fact]:
    entities = repository.names_of(session, kb, repository.ENTITY, {n for row in rows for n in (row[0], row[2])})
    predicates = repository.names_of(session, kb, repository.PREDICATE, {row[1] for row in rows})
    return [Fact(entities[row[0]], predicates[row[1]], entities[row[2]]) for row in rows]


def _splits(session: Session, kb: Kb, rows: list[list[int]]) -> list[str]:
    counts = repository.facts_by_split(session, kb)
    names, ends = list(counts), np.cumsum(list(counts.values()))
    places = np.searchsorted(ends, [row[3] for row in rows], side="right")
    return [names[place] for place in places.tolist()]


def neighbourhood(session: Session, kb: Kb, entity: str, limit: int) -> tuple[list[FoundFact], bool]:
    """Returns facts with the entity as subject, then as object, and whether there are more.

    Each half may have half of the limit, and more if the other needs less.
    """
    if repository.position_of(session, kb, repository.ENTITY, entity) is None:
        near = repository.names_like(session, kb, repository.ENTITY, entity)
        remedy = f"GET /kbs/{kb.name}/entities lists those of this KB"
        raise not_found("entity_not_found", "entity", entity, near, remedy)
    going = facts(session, kb, (entity, None, None), None, limit + 1)
    # A fact from the entity to itself is among the first half already.
    coming = [f for f in facts(session, kb, (None, None, entity), None, limit + 1) if f.fact.subject != entity]
    share = max(limit - len(coming), limit // 2) if len(going) > limit // 2 else len(going)
    shown = going[:share] + coming[: limit - min(share, len(going))]
    return shown, len(shown) < len(going) + len(coming)


def export(database: Database, kb: Kb, format_name: str, split: str | None) -> Iterator[bytes]:
    """Yields the KB as a file, piece by piece; no transaction stays open while a slow reader downloads it."""
    with database.read() as session:
        entities, predicates = (
            repository.vocabulary(session, kb, role) for role in (repository.ENTITY, repository.PREDICATE)
        )
        counts = repository.facts_by_split(session, kb)
        repository.check_whole(kb, len(entities), sum(counts.values()))
    if kb.kind == "graphs":
        graphs = _export_graphs(database, kb, entities, predicates, _wanted(kb, split))
        return _encoded(FORMATS[format_name].to_text(graphs))
    rows = _export_facts(database, kb, entities, predicates, _range(counts, split))
    if format_name == "tsv":
        unsafe = any(UNSAFE.search(name) for names in (entities, predicates) for name in names)
        return _encoded(write_tsv(rows, escape=unsafe))
    return _encoded(FORMATS[format_name].to_text(rows))


def _wanted(kb: Kb, split: str | None) -> list[str]:
    if split is not None and split not in kb.splits:
        raise NotFound("split_not_found", f"{kb.name!r} has no split {split!r}: use {', '.join(kb.splits)}")
    return [name for name in SPLITS if name in kb.splits and split in (None, name)]


def _range(counts: Mapping[str, int], split: str | None) -> range:
    """Returns the positions of the facts of a split; of all facts if it is None."""
    if split is None:
        return range(sum(counts.values()))
    if split not in counts:
        raise NotFound("split_not_found", f"there is no split {split!r}: use {', '.join(counts)}")
    start = sum(counts[name] for name in SPLITS[: SPLITS.index(split)] if name in counts)
    return range(start, start + counts[split])


def _export_facts(
    database: Database, kb: Kb, entities: Vocabulary, predicates: Vocabulary, positions: range
) -> Iterator[Fact]:
    """Yields the facts; raises ArtifactError if the KB is deleted meanwhile, since a file must not be cut short."""
    number = seen = 0
    while True:
        with database.read() as session:
            blocks = repository.upload_blocks(session, kb, number, EXPORT_BLOCKS)
        if not blocks:
            repository.check_whole(kb, len(entities), seen)
            return
        number += len(blocks)
        seen += sum(map(len, blocks))
        for block in blocks:
            for subject, predicate, object_, position in block.tolist():
                if position in positions:
                    yield Fact(entities.names[subject], predicates.names[predicate], entities.names[object_])


def _export_graphs(
    database: Database, kb: Kb, entities: Vocabulary, predicates: Vocabulary, wanted: list[str]
) -> Iterator[Graph]:
    """Yields the graphs of the wanted splits, each with its facts, which follow those of the graph before it.

    Raises ArtifactError if the KB is deleted meanwhile.
    """
    facts, after = _export_facts(database, kb, entities, predicates, range(kb.num_facts)), -1
    while True:
        with database.read() as session:
            rows = repository.graph_rows(session, kb, after, EXPORT_GRAPHS)
        if not rows:
            repository.check_whole(kb, len(entities), kb.num_facts - sum(1 for _ in facts))
            return
        for row in rows:
            own = tuple(islice(facts, row.num_facts))
            if row.split in wanted:
                yield repository.graph_of(row, own, entities, predicates)
        after = rows[-1].number


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
