"""The files of a segment, and the manifest that names them with their checksums.

A revision of a KB is one segment or several: the facts that it began with, and those that were added or removed since.
A segment holds its facts four times, each time in another order: whichever places of a fact a search fixes, in one of
the orders the facts that fit stand together.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ctp_core.errors import DamagedKB

FORMAT, VERSION = "ctp-kb", 1
MAX_MANIFEST_BYTES = 64 * 1024
PIECE_BYTES = 1 << 20
ENTITIES, PREDICATES = "entities.names", "predicates.names"
UPLOAD = "upload"
# Order -> the columns that it is sorted by; what several facts share is told apart by split and position.
SORTED = {
    "pso": ("predicate", "subject", "object"),
    "sop": ("subject", "object", "predicate"),
    "ops": ("object", "predicate", "subject"),
}
ORDERS = (UPLOAD, *SORTED)
# SQL types of the columns. Weight, source, time and falsehood are empty until facts have them, and then take no room.
COLUMNS = {
    "subject": "INTEGER",
    "predicate": "INTEGER",
    "object": "INTEGER",
    "split": "UTINYINT",  # place in SPLITS
    "weight": "FLOAT",
    "source": "INTEGER",
    "at": "TIMESTAMP",
    "false": "BOOLEAN",
    "position": "INTEGER",  # in the upload; in a KB of facts only the order of the upload has it
}


def parquet(order: str) -> str:
    return f"{order}.parquet"


FILES = (ENTITIES, PREDICATES, *map(parquet, ORDERS))


def order_for(given: set[str]) -> str:
    """Returns the order whose first columns are the given ones; that of the upload if none is given."""
    for name, columns in SORTED.items():
        if given and given == set(columns[: len(given)]):
            return name
    return UPLOAD


@dataclass(frozen=True)
class Segment:
    """A stored segment: the key of its files, and what it holds."""

    key: str
    num_bytes: int
    num_facts: int


def file_digest(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def encode_manifest(kind: str, num_facts: int, folder: Path) -> bytes:
    files = {name: {"sha256": file_digest(path := folder / name), "num_bytes": path.stat().st_size} for name in FILES}
    content = {"format": FORMAT, "version": VERSION, "kind": kind, "num_facts": num_facts, "files": files}
    return json.dumps(content, sort_keys=True).encode()


def decode_manifest(key: str, manifest: bytes) -> Mapping[str, tuple[str, int]]:
    """Returns name -> (SHA-256, bytes); raises DamagedKB if this is not the manifest that the key names."""
    if sha256(manifest).hexdigest() != key.rsplit("/", 1)[1]:
        raise DamagedKB(f"the manifest of the files {key!r} is damaged")
    content = json.loads(manifest)
    if (content["format"], content["version"]) != (FORMAT, VERSION):
        raise DamagedKB(f"the files {key!r} are of a newer version of ctp: update this one")
    return {name: (one["sha256"], one["num_bytes"]) for name, one in content["files"].items() if name in FILES}
