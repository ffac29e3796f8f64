"""What can be done with KBs."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from sqlalchemy.orm import Session

from ctp_core.datasets.kb import SPLITS, FactsKB
from ctp_core.symbols import Fact
from service.db.engine import Database
from service.db.tables import Kb
from service.errors import Conflict, Invalid, NotFound
from service.kbs import repository
from service.names import new_id


@dataclass(frozen=True)
class Prepared:
    """A KB that is ready to be stored."""

    kb: FactsKB
    sha256: str
    warnings: list[str]


def prepare(splits: Mapping[str, list[Fact]]) -> Prepared:
    """Drops duplicates, numbers the symbols, and says what a user should know. Raises Invalid on an empty KB."""
    if not splits.get("train"):
        raise Invalid("empty_kb", "the KB has no facts: send at least one row of subject, predicate, object")
    unique = {name: list(dict.fromkeys(splits[name])) for name in SPLITS if name in splits}
    kb = FactsKB.from_facts(unique)
    return Prepared(kb, _digest(unique), _warnings(splits, unique))


def _digest(splits: Mapping[str, list[Fact]]) -> str:
    digest = sha256(b"facts\n")
    for name, facts in splits.items():
        digest.update(f"{name}\n".encode())
        for fact in facts:
            # Tabs and newlines cannot occur unescaped, so that no two KBs share a digest.
            digest.update(("\t".join(repr(part) for part in fact) + "\n").encode())
    return digest.hexdigest()


def _warnings(splits: Mapping[str, list[Fact]], unique: Mapping[str, list[Fact]]) -> list[str]:
    warnings = [
        f"{len(splits[name]) - len(facts)} duplicate facts were dropped from {name}"
        for name, facts in unique.items()
        if len(facts) < len(splits[name])
    ]
    train = set(unique["train"])
    entities = {name for fact in train for name in (fact.subject, fact.object)}
    predicates = {fact.predicate for fact in train}
    for name, facts in unique.items():
        if name == "train":
            continue
        unseen = {n for fact in facts for n in (fact.subject, fact.object)} - entities
        unseen_predicates = {fact.predicate for fact in facts} - predicates
        shared = len(train.intersection(facts))
        for symbols, role in ((unseen, "entities"), (unseen_predicates, "predicates")):
            if symbols:
                warnings.append(f"{len(symbols)} {role} of {name} do not occur in train, e.g. {min(symbols)!r}")
        if shared:
            warnings.append(f"{shared} facts of {name} are in train too")
    return warnings


def create(session: Session, tenant: str, name: str, prepared: Prepared) -> tuple[Kb, bool]:
    """Stores a KB; the same content under the same name is the KB that is there (False)."""
    existing = repository.owned(session, tenant, name)
    if existing is not None:
        if existing.sha256 == prepared.sha256:
            return existing, False
        raise Conflict(
            "kb_exists", f"a KB named {name!r} with other facts exists: choose another name or delete it first"
        )
    return _store(session, tenant, name, prepared), True


def _store(session: Session, tenant: str, name: str, prepared: Prepared) -> Kb:
    kb = prepared.kb
    row = Kb(
        id=new_id("kb"),
        tenant=tenant,
        name=name,
        kind=kb.kind,
        status="ready",
        sha256=prepared.sha256,
        num_facts=sum(len(ids) for ids in kb.splits.values()),
        num_entities=len(kb.entities),
        num_predicates=len(kb.predicates),
        splits={split: len(ids) for split, ids in kb.splits.items()},
        warnings=prepared.warnings,
    )
    session.add(row)
    session.flush()
    every = np.concatenate(list(kb.splits.values()))
    entity_counts = np.bincount(every[:, [0, 2]].ravel(), minlength=len(kb.entities)).tolist()
    predicate_counts = np.bincount(every[:, 1], minlength=len(kb.predicates)).tolist()
    repository.insert_symbols(session, row, kb.entities, entity_counts)
    repository.insert_symbols(session, row, kb.predicates, predicate_counts)
    repository.insert_facts(
        session, row, ((split, 0, *fact) for split, ids in kb.splits.items() for fact in ids.tolist())
    )
    return row


def get(session: Session, tenant: str, reference: str) -> Kb:
    kb = repository.find(session, tenant, reference)
    if kb is None:
        raise NotFound("kb_not_found", f"there is no KB {reference[:80]!r}: GET /kbs lists those there are")
    return kb


def delete(database: Database, tenant: str, reference: str) -> None:
    """Refuses a sample, and a KB that a model still stands on."""
    with database.write() as session:
        kb = get(session, tenant, reference)
        if kb.tenant != tenant:
            raise Conflict("kb_is_sample", f"{kb.name!r} is a sample that belongs to everyone: it cannot be deleted")
        if repository.has_ready_model(session, kb):
            raise Conflict("kb_in_use", f"models stand on {kb.name!r}: delete them first")
        repository.remove(session, kb)
