"""Finds files that no row refers to, and rows whose files are gone."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db.engine import Database
from service.db.tables import Checkpoint, Job, ModelVersion, PredictionFile, Removal, SegmentRow
from service.files.storage import Entry, Storage

# Files are written before their row, so a younger file may be about to get one.
SAFE_AGE_SECONDS = 3600.0


@dataclass(frozen=True)
class Findings:
    """`orphans` can be removed; `missing` are keys of KBs, models, checkpoints or results whose files are gone.

    `foreign` are files that the service did not write: they are left alone.
    """

    orphans: list[Entry]
    missing: list[str]
    foreign: list[Entry]


def find_garbage(database: Database, storage: Storage, min_age_seconds: float = SAFE_AGE_SECONDS) -> Findings:
    # The files are listed first: a file that gets its row meanwhile is then known when the rows are read.
    entries = list(storage.entries())
    with database.read() as session:
        known, leaving = known_keys(session), tuple(session.scalars(select(Removal.owner)))
    oldest, held = time.time() - min_age_seconds, {part for key in known for part in _beginnings(key)}
    orphans = [
        entry
        for entry in entries
        if not (entry.is_foreign or entry.key in held or _is_under(entry.key, leaving)) and entry.modified <= oldest
    ]
    foreign = [entry for entry in entries if entry.is_foreign]
    return Findings(orphans, sorted(known - {entry.key for entry in entries}), foreign)


def known_keys(session: Session) -> set[str]:
    """Returns the keys that KBs, models, checkpoints, predictions and seeds of unfinished jobs refer to."""
    kbs = session.scalars(select(SegmentRow.artifact))
    models = session.scalars(select(ModelVersion.artifact).where(ModelVersion.artifact.is_not(None)))
    checkpoints = session.scalars(select(Checkpoint.artifact))
    predictions = session.scalars(select(PredictionFile.artifact))
    results = [result for result in session.scalars(select(Job.result).where(Job.parent_id.is_not(None))) if result]
    keys = {key for key in (*kbs, *models, *checkpoints, *predictions) if key}
    return keys | {result["artifact"] for result in results}


def _is_under(key: str, owners: tuple[str, ...]) -> bool:
    return any(key == owner or key.startswith(f"{owner}/") for owner in owners)


def _beginnings(key: str) -> Iterator[str]:
    """Yields `a`, `a/b` and `a/b/c` for `a/b/c`: removing any of them would remove the key."""
    return accumulate(key.split("/"), "{}/{}".format)
