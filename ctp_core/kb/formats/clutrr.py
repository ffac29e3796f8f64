"""CLUTRR: family graphs as CSV, one file per task, also as the published zip archives.

An entity is named as in the story. Two people of the same name in one story are one entity, as in the data.
"""

import csv
import io
import re
import zipfile
from ast import literal_eval
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from ctp_core.errors import DataError, ParseError
from ctp_core.kb.formats.rows import FileLimits, whole_lines
from ctp_core.kb.graphs import checked
from ctp_core.kb.knowledge_base import Graph
from ctp_core.symbols import MAX_NAME_LENGTH, Fact

COLUMNS = ("story_edges", "edge_types", "query_edge", "target", "genders")
# The robust splits list noise edges after the edges of the story and give them no type. They are facts all the same:
# they say that two people are related. A predicate of their own lets a model learn what they are worth.
UNTYPED = "untyped"
LITERALS_KEPT = 4096  # thousands of rows share a few hundred different lists of edges and types
SHOWN = 80  # characters of a field in a message

Edge = tuple[int, int]

_TASK = re.compile(r"(?P<tasks>\d+\.\d+(?:,\d+\.\d+)*)_(?P<split>train|valid|test)\.csv")


def numbered_clutrr(
    lines: Iterable[str], file: str, max_name_length: int = MAX_NAME_LENGTH
) -> Iterator[tuple[int, Graph]]:
    """Yields one graph per row with the line at which the row ends; raises ParseError with the line."""
    reader = csv.DictReader(lines)
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise ParseError(file, 1, f"not a CLUTRR file: no column {', '.join(missing)}")
    try:
        for row in reader:
            graph = _graph(row, file, reader.line_num)
            yield reader.line_num, checked(graph, file, reader.line_num, max_name_length)
    except csv.Error as error:
        raise ParseError(file, reader.line_num, str(error)) from error


def clutrr_graphs(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[tuple[int, Graph]]:
    """Graphs with the line at which each ends, from bytes; raises ParseError at the first bad row."""
    return numbered_clutrr(whole_lines(stream, file, limits), file, limits.max_name_length)


def _graph(row: Mapping[str, str | None], file: str, line: int) -> Graph:
    try:
        return _read({column: row[column] or "" for column in COLUMNS})
    except DataError as error:
        raise ParseError(file, line, str(error)) from None


def _read(values: Mapping[str, str]) -> Graph:
    edges, types = _edges(values["story_edges"]), _types(values["edge_types"])
    if len(types) > len(edges):
        raise DataError(f"{len(types)} edge_types for {len(edges)} story_edges")
    names = _names(values["genders"])
    query = _literal(values["query_edge"])
    if not _is_edge(query):
        raise DataError(f"query_edge is {_short(values['query_edge'])}, not one pair of nodes")
    for node in (node for edge in (*edges, query) for node in edge):
        if node >= len(names):
            raise DataError(f"node {node} has no name: genders lists {len(names)}")
    typed = [*types, *(UNTYPED for _ in edges[len(types) :])]
    facts = tuple(Fact(names[a], predicate, names[b]) for (a, b), predicate in zip(edges, typed, strict=True))
    label = values["target"].strip()
    if not label:
        raise DataError("target is empty")
    return Graph(facts, names[query[0]], names[query[1]], label)


@lru_cache(maxsize=LITERALS_KEPT)
def _edges(text: str) -> tuple[Edge, ...]:
    edges = _literal(text)
    if not isinstance(edges, list) or not all(map(_is_edge, edges)):
        raise DataError(f"story_edges is {_short(text)}, not a list of pairs of nodes")
    return tuple(edges)


@lru_cache(maxsize=LITERALS_KEPT)
def _types(text: str) -> tuple[str, ...]:
    types = _literal(text)
    if not isinstance(types, list) or not all(isinstance(name, str) for name in types):
        raise DataError(f"edge_types is {_short(text)}, not a list of names in quotes")
    return tuple(types)


def _names(genders: str) -> list[str]:
    """The names of the people in the order of their numbers, from a text such as `Don:male,Dot:female`."""
    return [person.rpartition(":")[0].strip() for person in genders.split(",")]


def _literal(text: str) -> Any:
    """Reads a list, tuple, text or number as Python writes it; None where it is none of these."""
    try:
        return literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _is_edge(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(type(node) is int and node >= 0 for node in value)


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")


@dataclass(frozen=True)
class Task:
    """One file: `name` lists its tasks, such as 1.2,1.3, and `lengths` their numbers of edges."""

    name: str
    split: str
    lengths: tuple[int, ...]
    graphs: tuple[Graph, ...]


def read_clutrr(path: Path) -> list[Task]:
    """Reads all tasks from a zip archive or a folder of CSV files, in order of split and length."""
    files = _zipped(path) if path.is_file() else _in_folder(path)
    tasks = []
    for name, content in files:
        match = _TASK.fullmatch(Path(name).name)
        if match is None:
            continue
        lengths = tuple(int(task.partition(".")[2]) for task in match["tasks"].split(","))
        lines = io.StringIO(_text(content, name), newline="")
        graphs = tuple(graph for _, graph in numbered_clutrr(lines, name))
        tasks.append(Task(match["tasks"], match["split"], lengths, graphs))
    if not any(task.split == "train" for task in tasks):
        raise DataError(f"{path.name} has no CLUTRR training file, such as 1.2,1.3_train.csv")
    return sorted(tasks, key=lambda task: (task.split != "train", task.lengths))


def _text(content: bytes, file: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ParseError(file, line, "the file is not UTF-8") from None


def _zipped(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name, archive.read(name)
    except zipfile.BadZipFile as error:
        raise DataError(f"{path.name} is not a zip archive") from error


def _in_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    if not path.is_dir():
        raise DataError(f"there is no CLUTRR data at {path}")
    for file in sorted(path.glob("*.csv")):
        yield file.name, file.read_bytes()
