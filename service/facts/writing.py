"""Writes the files of a segment into a folder, sorted by DuckDB within its memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctp_core.kb.knowledge_base import FactIds
from service.facts.duck import Duck, quoted, sorted_by_name
from service.facts.names import write_names
from service.facts.segment import COLUMNS, ENTITIES, ORDERS, PREDICATES, SORTED, UPLOAD, encode_manifest, parquet

# Small enough that a look-up decodes little, large enough that the footer of a file stays small.
ROW_GROUP = 122_880
OPTIONS = f"FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP}"


@dataclass(frozen=True)
class Content:
    """What a segment holds. The facts stand in the order of the upload; `splits` are their places in SPLITS.

    Facts of a KB of graphs can occur more than once, in several graphs, so that their positions are kept everywhere.
    """

    kind: str
    entities: Sequence[str]
    predicates: Sequence[str]
    ids: FactIds
    splits: NDArray[np.uint8]


def write_segment(duck: Duck, folder: Path, content: Content) -> bytes:
    """Writes all files of a segment into the folder; returns its manifest."""
    ids = content.ids
    _write_names(duck, folder / ENTITIES, content.entities, _counts(ids[:, [0, 2]], len(content.entities)))
    _write_names(duck, folder / PREDICATES, content.predicates, _counts(ids[:, 1], len(content.predicates)))
    facts = _columns(content)
    for order in ORDERS:
        duck.run(_copy(order, folder / parquet(order), content.kind), {"facts": facts})
    return encode_manifest(content.kind, len(ids), folder)


def _counts(ids: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    return np.bincount(ids.ravel(), minlength=number)


def _write_names(duck: Duck, path: Path, names: Sequence[str], num_facts: NDArray[np.int64]) -> None:
    listed = np.empty(len(names), dtype=object)
    listed[:] = list(names)
    write_names(path, names, sorted_by_name(duck, listed), num_facts)


def _columns(content: Content) -> Mapping[str, NDArray[Any]]:
    subjects, predicates, objects = (np.ascontiguousarray(column, np.int32) for column in content.ids.T)
    position = np.arange(len(content.ids), dtype=np.int32)
    return {
        "subject": subjects,
        "predicate": predicates,
        "object": objects,
        "split": np.asarray(content.splits, np.uint8),
        "position": position,
    }


def _copy(order: str, path: Path, kind: str) -> str:
    """Returns the statement that writes the facts in an order."""
    values = {name: f'NULL::{sql} AS "{name}"' for name, sql in COLUMNS.items()}
    values |= {name: f'"{name}"' for name in ("subject", "predicate", "object", "split")}
    values["false"] = 'FALSE AS "false"'
    if order == UPLOAD or kind == "graphs":
        values["position"] = "position"
    ordered = "" if order == UPLOAD else f"ORDER BY {', '.join(SORTED[order])}, split, facts.position"
    # The names are our own; the path is quoted.
    return f"COPY (SELECT {', '.join(values.values())} FROM facts {ordered}) TO {quoted(path)} ({OPTIONS})"  # noqa: S608
