"""Merges graphs that differ only in names into one graph with a weight.

The canonical form numbers the entities of a graph so that isomorphic graphs get the same numbers: colours start from
the query pair, are refined by neighbours, and ties are broken by trying each member of the first tied class. Very
symmetric graphs would need too many trials and very long ones too many rounds. They keep the order in which they came:
isomorphic ones may then count as different, but different ones are never merged.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ctp_core.kb.knowledge_base import Graph

MAX_TRIALS = 64
MAX_LOOKS = 300_000  # edges read, for one graph: about a second

Edge = tuple[int, str, int]


class CanonicalGraph(NamedTuple):
    """Facts over numbered entities, sorted and without repetition; equal for isomorphic graphs and queries."""

    num_entities: int
    edges: tuple[Edge, ...]
    query: tuple[int, int]


@dataclass(frozen=True)
class WeightedGraph:
    """A distinct graph and how often each label was given to it."""

    graph: CanonicalGraph
    labels: tuple[tuple[str, int], ...]


def distinct(graphs: Iterable[Graph]) -> list[WeightedGraph]:
    """Labelled graphs up to renaming, in order of first appearance; graphs without a label are left out."""
    forms: dict[CanonicalGraph, CanonicalGraph] = {}
    counts: dict[CanonicalGraph, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for graph in graphs:
        if graph.label is None:
            continue
        numbered = number(graph)[0]  # cheap, and already equal for most repetitions
        if numbered not in forms:
            forms[numbered] = canonical(numbered)
        counts[forms[numbered]][graph.label] += 1
    return [WeightedGraph(form, tuple(sorted(labels.items()))) for form, labels in counts.items()]


def number(graph: Graph) -> tuple[CanonicalGraph, tuple[str, ...]]:
    """Numbers entities in order of appearance; returns the graph and their names. Repeated facts are merged."""
    ids: dict[str, int] = {}
    for fact in graph.facts:
        ids.setdefault(fact.subject, len(ids))
        ids.setdefault(fact.object, len(ids))
    edges = {(ids[fact.subject], fact.predicate, ids[fact.object]) for fact in graph.facts}
    query = (ids[graph.subject], ids[graph.object])
    return CanonicalGraph(len(ids), tuple(sorted(edges)), query), tuple(ids)


def canonical(graph: CanonicalGraph) -> CanonicalGraph:
    """Numbers the graph canonically; returns it unchanged where that would take too long."""
    start = [2] * graph.num_entities
    start[graph.query[0]] = 0
    start[graph.query[1]] = 1 if graph.query[0] != graph.query[1] else 0
    try:
        forms = _forms(_Looks(graph), start, MAX_TRIALS)
    except _TooLong:
        return graph
    return graph if forms is None else min(forms)


class _TooLong(Exception):
    """The edges of the graph were read more often than MAX_LOOKS allows."""


class _Looks:
    """A graph, and how many more edges may be read."""

    def __init__(self, graph: CanonicalGraph) -> None:
        self.graph, self.left = graph, MAX_LOOKS

    def edges(self) -> tuple[Edge, ...]:
        self.left -= len(self.graph.edges)
        if self.left < 0:
            raise _TooLong
        return self.graph.edges


def _forms(looks: _Looks, start: list[int], trials: int) -> list[CanonicalGraph] | None:
    """The graph under every numbering that the refined colours leave open; None where they are too many."""
    colours = _refine(looks, start)
    tied = _first_tie(colours)
    if not tied:
        return [_renumber(looks.graph, colours)]
    if len(tied) > trials:
        return None
    forms = []
    for entity in tied:
        chosen = [2 * colour + 1 for colour in colours]
        chosen[entity] -= 1
        below = _forms(looks, chosen, trials // len(tied))
        if below is None:
            return None
        forms.extend(below)
    return forms


def _first_tie(colours: Sequence[int]) -> list[int]:
    classes = defaultdict(list)
    for entity, colour in enumerate(colours):
        classes[colour].append(entity)
    return next((members for _, members in sorted(classes.items()) if len(members) > 1), [])


def _refine(looks: _Looks, colours: list[int]) -> list[int]:
    """Splits colours by the (direction, predicate, colour) around each entity, until nothing changes."""
    while True:
        around: list[list[tuple[int, str, int]]] = [[] for _ in colours]
        for a, predicate, b in looks.edges():
            around[a].append((0, predicate, colours[b]))
            around[b].append((1, predicate, colours[a]))
        signatures = [(colour, tuple(sorted(edges))) for colour, edges in zip(colours, around, strict=True)]
        ranks = {signature: rank for rank, signature in enumerate(sorted(set(signatures)))}
        refined = [ranks[signature] for signature in signatures]
        if len(ranks) == len(set(colours)):
            return refined
        colours = refined


def _renumber(graph: CanonicalGraph, colours: Sequence[int]) -> CanonicalGraph:
    edges = sorted((colours[a], predicate, colours[b]) for a, predicate, b in graph.edges)
    return CanonicalGraph(graph.num_entities, tuple(edges), (colours[graph.query[0]], colours[graph.query[1]]))
