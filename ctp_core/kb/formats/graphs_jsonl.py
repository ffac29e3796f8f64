"""Graphs as JSON Lines: `{"facts": [["rick", "parent", "beth"], …], "subject": …, "object": …, "label": …}`."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from ctp_core.errors import ParseError
from ctp_core.kb.formats.rows import FileLimits, whole_lines
from ctp_core.kb.graphs import checked
from ctp_core.kb.knowledge_base import Graph
from ctp_core.symbols import MAX_NAME_LENGTH, Fact

KEYS = {"facts", "subject", "object", "label"}
EXAMPLE = '{"facts": [["ann", "mother", "bob"], …], "subject": "ann", "object": "cyd", "label": "grandmother"}'


def numbered_graphs_jsonl(
    lines: Iterable[str], file: str, max_name_length: int = MAX_NAME_LENGTH
) -> Iterator[tuple[int, Graph]]:
    """Yields one graph per line with its line, without empty lines; raises ParseError with the line."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, checked(_graph(line, file, number), file, number, max_name_length)


def jsonl_graphs(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[tuple[int, Graph]]:
    """Graphs with the line of each, from bytes; raises ParseError at the first bad line."""
    return numbered_graphs_jsonl(whole_lines(stream, file, limits), file, limits.max_name_length)


def _graph(line: str, file: str, number: int) -> Graph:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise ParseError(file, number, "the line is not JSON") from None
    if not isinstance(value, dict) or not KEYS - {"label"} <= value.keys() <= KEYS:
        raise ParseError(file, number, f"expected an object with the keys {', '.join(sorted(KEYS))}, e.g. {EXAMPLE}")
    label = value.get("label")
    if not _is_name(value["subject"]) or not _is_name(value["object"]) or not (label is None or _is_name(label)):
        raise ParseError(file, number, "subject, object and label must be names; label may be null")
    facts = value["facts"]
    if not isinstance(facts, list):
        raise ParseError(file, number, "facts must be a list of [subject, predicate, object]")
    for fact in facts:
        if not isinstance(fact, list) or len(fact) != 3 or not all(map(_is_name, fact)):
            raise ParseError(file, number, f"{json.dumps(fact)[:80]} is not [subject, predicate, object]")
    return Graph(tuple(Fact(*fact) for fact in facts), value["subject"], value["object"], label)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def write_graphs_jsonl(graphs: Iterable[Graph]) -> Iterator[str]:
    """Writes the lines that `numbered_graphs_jsonl` reads."""
    for graph in graphs:
        value = {"facts": graph.facts, "subject": graph.subject, "object": graph.object, "label": graph.label}
        yield json.dumps(value, ensure_ascii=False) + "\n"
