"""CLUTRR: family graphs as CSV, one file per task, also as the published zip archives.

An entity is named as in the story; two persons of one name in one story are one entity here, as they are in the data.
"""

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ctp_core.datasets.graph_checks import checked
from ctp_core.datasets.kb import Graph
from ctp_core.errors import DataError, ParseError
from ctp_core.symbols import Fact

COLUMNS = ("story_edges", "edge_types", "query_edge", "target", "genders")
# The robust splits list noise edges after the edges of the story and give them no type. They are facts all the same:
# two people are said to be related. A name of its own lets a model learn what they are worth.
UNTYPED = "untyped"

_EDGE = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_TYPE = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_TASK = re.compile(r"(?P<tasks>\d+\.\d+(?:,\d+\.\d+)*)_(?P<split>train|valid|test)\.csv")


def parse_clutrr(lines: Iterable[str], file: str) -> Iterator[Graph]:
    """One graph per row; raises ParseError with the place."""
    csv.field_size_limit(1 << 24)  # the stories are long; the default of 128 kB is not ours to keep
    reader = csv.DictReader(lines)
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise ParseError(file, 1, f"not a CLUTRR file: no column {', '.join(missing)}")
    try:
        for row in reader:
            yield _graph(row, file, reader.line_num)
    except csv.Error as error:
        raise ParseError(file, reader.line_num, str(error)) from error


def _graph(row: Mapping[str, str | None], file: str, line: int) -> Graph:
    values = {column: row[column] or "" for column in COLUMNS}
    edges = [(int(a), int(b)) for a, b in _EDGE.findall(values["story_edges"])]
    types = [single or double for single, double in _TYPE.findall(values["edge_types"])]
    query = _EDGE.findall(values["query_edge"])
    names = [person.rpartition(":")[0] for person in values["genders"].split(",")]
    if len(types) > len(edges):
        raise ParseError(file, line, f"{len(types)} edge_types for {len(edges)} story_edges")
    if len(query) != 1:
        raise ParseError(file, line, f"query_edge is {values['query_edge']!r}, not one pair of nodes")
    pair = (int(query[0][0]), int(query[0][1]))
    outside = [node for edge in (*edges, pair) for node in edge if node >= len(names)]
    if outside:
        raise ParseError(file, line, f"node {outside[0]} has no name: genders lists {len(names)}")
    typed = [*types, *(UNTYPED for _ in edges[len(types) :])]
    facts = tuple(Fact(names[a], predicate, names[b]) for (a, b), predicate in zip(edges, typed, strict=True))
    label = values["target"].strip()
    if not label:
        raise ParseError(file, line, "target is empty")
    return checked(Graph(facts, names[pair[0]], names[pair[1]], label), file, line)


@dataclass(frozen=True)
class Task:
    """One file: its split, the numbers of edges in its name, and its graphs."""

    name: str
    split: str
    lengths: tuple[int, ...]
    graphs: tuple[Graph, ...]


def read_clutrr(path: Path) -> list[Task]:
    """All tasks of a dataset, a zip archive or a folder of CSV files, in order of split and length."""
    files = _zipped(path) if path.is_file() else _in_folder(path)
    tasks = []
    for name, content in files:
        match = _TASK.fullmatch(Path(name).name)
        if match is None:
            continue
        lengths = tuple(int(task.partition(".")[2]) for task in match["tasks"].split(","))
        lines = io.StringIO(content.decode("utf-8"), newline="")
        tasks.append(Task(name, match["split"], lengths, tuple(parse_clutrr(lines, name))))
    if not any(task.split == "train" for task in tasks):
        raise DataError(f"{path.name} has no CLUTRR training file, such as 1.2,1.3_train.csv")
    return sorted(tasks, key=lambda task: (task.split != "train", task.lengths))


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
