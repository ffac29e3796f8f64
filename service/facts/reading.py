"""Searches in the facts of a stored KB."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctp_core.errors import DamagedKB
from ctp_core.kb.knowledge_base import SPLITS
from ctp_core.symbols import Vocabulary
from service.facts.cache import Cache
from service.facts.duck import Arrays, Duck, quoted
from service.facts.names import Names
from service.facts.segment import SORTED, UPLOAD, order_for, parquet

ENTITY, PREDICATE = "entity", "predicate"
NUMBERS = ("subject", "predicate", "object")
PIECE_FACTS = 1 << 18  # read at a time where all facts are wanted
Columns = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class FoundRow:
    """A fact as numbers, and its key: the columns that its list is sorted by, then what tells equal facts apart."""

    subject: int
    predicate: int
    object: int
    split: str
    key: list[int]


class StoredFacts:
    """The facts and names of one KB; each call reads the files anew and holds nothing open."""

    def __init__(self, key: str, name: str, kind: str, cache: Cache, duck: Duck, names: Mapping[str, Names]) -> None:
        self.key, self.name, self.kind = key, name, kind
        self._cache, self._duck, self._names = cache, duck, names

    @property
    def entities(self) -> Names:
        return self._names[ENTITY]

    @property
    def predicates(self) -> Names:
        return self._names[PREDICATE]

    def names(self, role: str) -> Names:
        return self._names[role]

    def vocabulary(self, role: str) -> Vocabulary:
        return Vocabulary(role, self._names[role].all())

    def found(self, fixed: Mapping[str, int], after: list[int] | None, limit: int) -> list[FoundRow]:
        """Returns facts with the fixed numbers, at most `limit`, after a key.

        They are sorted by the columns of `order_for`, and in the order of the upload if nothing is fixed.
        """
        order = order_for(set(fixed))
        if order == UPLOAD:
            first = 0 if after is None else after[0] + 1
            rows = self._search(order, "position >= ? AND position < ?", (first, first + limit), limit)
            return [self._row(row, [int(row["position"])]) for row in rows]
        columns = SORTED[order]
        conditions, values = [f'"{name}" = ?' for name in fixed], list(fixed.values())
        if after is not None:
            beyond, more = _beyond([*(c for c in columns if c not in fixed), self._tie], _open(columns, fixed, after))
            conditions.append(beyond)
            values += more
        rows = self._search(order, " AND ".join(conditions), tuple(values), limit)
        return [self._row(row, [int(row[c]) for c in (*columns, self._tie)]) for row in rows]

    @property
    def _tie(self) -> str:
        return "position" if self.kind == "graphs" else "split"

    @staticmethod
    def _row(row: Mapping[str, Any], key: list[int]) -> FoundRow:
        return FoundRow(int(row["subject"]), int(row["predicate"]), int(row["object"]), SPLITS[row["split"]], key)

    def _search(self, order: str, condition: str, values: tuple[int, ...], limit: int) -> list[dict[str, Any]]:
        tie = ', "position"' if order == UPLOAD or self.kind == "graphs" else ""
        # The file is sorted already, so that the first rows which DuckDB finds are the first of the list.
        sql = f"SELECT subject, predicate, object, split{tie} FROM {{}} WHERE {condition} LIMIT {limit:d}"  # noqa: S608
        found = self._fetch(order, sql, values)
        return [dict(zip(found, row, strict=True)) for row in zip(*(c.tolist() for c in found.values()), strict=True)]

    def of_predicate(self, predicate: int, split: str) -> Columns:
        """Returns subject, object and, in a KB of graphs, position of the facts of a predicate in a split."""
        wanted = "subject, object, position" if self.kind == "graphs" else "subject, object"
        sql = f"SELECT {wanted} FROM {{}} WHERE predicate = ? AND split = ?"  # noqa: S608
        found = self._fetch("pso", sql, (predicate, SPLITS.index(split)))
        return {name: np.asarray(column, np.int64) for name, column in found.items()}

    def pieces(self, split: str | None = None) -> Iterator[Columns]:
        """Yields the facts in the order of the upload, a piece at a time."""
        sql = "SELECT subject, predicate, object, split, position FROM {} WHERE position >= ? AND position < ?"
        values: tuple[int, ...] = () if split is None else (SPLITS.index(split),)
        first = 0
        while first < self._num_facts:
            chosen = sql if split is None else f"{sql} AND split = ?"
            found = self._fetch(UPLOAD, chosen, (first, first + PIECE_FACTS, *values))
            first += PIECE_FACTS
            yield {name: np.asarray(column, np.int64) for name, column in found.items()}

    @property
    def _num_facts(self) -> int:
        found = self._fetch(UPLOAD, "SELECT count(*) AS number FROM {}", ())
        return int(found["number"][0])

    def _fetch(self, order: str, sql: str, values: tuple[int, ...]) -> Arrays:
        with self._files() as folder:
            return self._duck.fetch(sql.format(f"read_parquet({quoted(folder / parquet(order))})"), values)

    @contextmanager
    def _files(self) -> Iterator[Path]:
        """The folder with the files; a copy that proves damaged is dropped, so that the next call fetches it again."""
        with self._cache.files(self.key) as folder:
            try:
                yield folder
            except DamagedKB as error:
                self._cache.drop(self.key)
                raise DamagedKB(f"the facts of {self.name!r} are damaged here ({error}): try again") from error


def _open(columns: tuple[str, ...], fixed: Mapping[str, int], after: list[int]) -> list[int]:
    """Returns the values of a key that belong to columns which are not fixed."""
    return [value for column, value in zip((*columns, ""), after, strict=True) if column not in fixed]


def _beyond(columns: list[str], values: list[int]) -> tuple[str, list[int]]:
    """Returns the condition, with its values, that rows come after these in the order of the columns.

    It begins with the first column alone, by which DuckDB passes over the parts of a file that lie before.
    """
    column, value = columns[0], values[0]
    if len(columns) == 1:
        return f'"{column}" > ?', [value]
    inner, more = _beyond(columns[1:], values[1:])
    return f'("{column}" >= ? AND ("{column}" > ? OR {inner}))', [value, value, *more]
