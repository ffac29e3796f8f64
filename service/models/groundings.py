"""Finds the facts behind a rule by joining its body over the training facts, whatever the shape of the rule."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ctp_core.rules import is_constant, unquoted
from ctp_core.symbols import Fact
from service.db.tables import GraphRow, RuleRow
from service.facts.reading import Columns, StoredFacts
from service.http.places import Places

Binding = dict[str, int]
Pairs = tuple[tuple[int, int], ...]
Row = tuple[int, int, int]  # graph, subject, object
Rows = NDArray[np.int64]  # [fact, 3]
Column = NDArray[np.int64]  # [fact]
PIECE = 4096
NOBODY = -1
SECONDS = 1.0  # limit of the search, which shares its process with other callers
LEAST_SHARE = 0.25  # of the time that is left after the facts are sorted
THREADS = 2


def grounding(limit: int) -> Places:
    """The calls for facts behind rules that one tenant may have under way in one API process."""
    detail = f"{limit} calls of yours for facts behind rules are under way (CTP_MAX_GROUNDINGS): wait for one to end"
    return Places(limit, THREADS, "too_many_groundings", detail)


class Ends:
    """Facts sorted by graph and near end, so that the far ends of one entity in one graph are adjacent."""

    def __init__(self, graphs: Column, near: Column, far: Column) -> None:
        order = np.lexsort((far, near, graphs))
        self.span = int(near.max(initial=0)) + 1
        self.keys, self.far = (graphs * self.span + near)[order], far[order]

    def of(self, graph: int, entity: int) -> Column:
        """Returns the far ends of an entity in a graph, sorted."""
        key = graph * self.span + entity
        first, last = self.keys.searchsorted((key, key + 1)) if 0 <= entity < self.span else (0, 0)
        return self.far[first:last]

    def rows(self, graph: int | None) -> Iterator[Row]:
        """Yields (graph, near end, far end) for the facts of one graph, or of all if it is None."""
        first, last = 0, len(self.keys)
        if graph is not None:
            first, last = self.keys.searchsorted((graph * self.span, (graph + 1) * self.span)).tolist()
        for start in range(first, last, PIECE):
            piece = slice(start, min(start + PIECE, last))
            graphs, near = np.divmod(self.keys[piece], self.span)
            yield from zip(graphs.tolist(), near.tolist(), self.far[piece].tolist(), strict=True)


class Edges:
    """The training facts of one predicate, searchable by either end. Facts of different graphs never join.

    Stored in arrays: for millions of facts, dictionaries would take seconds and a gigabyte of the API's memory.
    """

    def __init__(self, rows: Rows) -> None:
        """Takes rows of graph, subject, object; the graph is 0 in a KB of facts."""
        graphs, subjects, objects = rows.T
        self.by_subject, self.by_object = Ends(graphs, subjects, objects), Ends(graphs, objects, subjects)

    def matches(self, graph: int | None, subject: int | None, object_: int | None) -> Iterator[Row]:
        """Yields the rows (graph, subject, object) that agree with the given values; None matches any."""
        if graph is None or (subject is None and object_ is None):
            rows = self.by_subject.rows(graph)
            yield from (row for row in rows if subject in (None, row[1]) and object_ in (None, row[2]))
        elif subject is not None and object_ is not None:
            objects = self.by_subject.of(graph, subject)
            place = objects.searchsorted(object_)
            yield from [(graph, subject, object_)] if place < len(objects) and objects[place] == object_ else []
        elif subject is not None:
            yield from ((graph, subject, o) for o in self.by_subject.of(graph, subject).tolist())
        elif object_ is not None:
            yield from ((graph, s, object_) for s in self.by_object.of(graph, object_).tolist())


class TimeLimitReached(Exception):
    """The search has reached its time limit."""


@dataclass(frozen=True)
class Premises:
    """All that a search needs of the KB; it holds nothing open while it works."""

    rule: RuleRow
    kind: str
    found: dict[str, Columns]  # training facts by predicate
    graph_ends: Column
    labelled: Rows | None  # graph, subject, object of the graphs whose label is the head; None in a KB of facts
    constants: Binding

    @classmethod
    def read(cls, stored: StoredFacts, graphs: Sequence[GraphRow], rule: RuleRow) -> "Premises":
        head = rule.head["predicate"]
        names = {atom["predicate"] for atom in rule.body} | (set() if graphs else {head})
        return cls(
            rule=rule,
            kind=stored.kind,
            found={name: _found(stored, name) for name in names},
            # The facts of each graph follow those of the previous one; a KB of facts is one graph.
            graph_ends=np.cumsum([graph.num_facts for graph in graphs], dtype=np.int64),
            labelled=_labelled(stored, head, graphs) if graphs else None,
            constants=_constants(stored, rule),
        )

    def edges(self, predicate: str) -> Edges:
        """Returns the training facts of a predicate."""
        found = self.found[predicate]
        graphs = np.zeros_like(found["subject"])
        if self.kind == "graphs":
            graphs = np.searchsorted(self.graph_ends, found["position"], side="right")
        return Edges(np.column_stack([graphs, found["subject"], found["object"]]))


class Search:
    """Searches for the ways in which training facts make the body of a rule true."""

    def __init__(self, premises: Premises, seconds: float = SECONDS) -> None:
        began, rule = time.monotonic(), premises.rule
        edges = {name: premises.edges(name) for name in premises.found}
        self.body = [(atom["subject"], atom["object"], edges[atom["predicate"]]) for atom in rule.body]
        self.head = rule.head["subject"], rule.head["object"]
        labelled = premises.labelled
        self.stated = edges[rule.head["predicate"]] if labelled is None else Edges(labelled)
        self.anywhere = 0 if premises.kind == "facts" else None  # all facts of such a KB are in graph 0
        self.constants = premises.constants
        # To sort millions of facts may take all of the time, but nothing is found without a search.
        self.ends = max(began + seconds, time.monotonic() + LEAST_SHARE * seconds)
        self.truncated = False

    def found(self, known: bool, limit: int) -> list[Pairs]:
        """Returns up to `limit` groundings whose head is a known fact, or is not; sets `truncated` if time runs out."""
        found: dict[Pairs, None] = {}
        try:
            ways = self._known() if known else self._unknown()
            while len(found) < limit and (pairs := next(ways, None)) is not None:
                found[pairs] = None
        except TimeLimitReached:
            self.truncated = True
        return list(found)

    def _known(self) -> Iterator[Pairs]:
        """Starts from the known facts of the head, which saves a full join if they are few."""
        subject, object_ = self.head
        for graph, s, o in self.stated.matches(self.anywhere, *map(self.constants.get, self.head)):
            if subject != object_ or s == o:
                yield from (pairs for _, _, pairs in self._ways(0, graph, {**self.constants, subject: s, object_: o}))

    def _unknown(self) -> Iterator[Pairs]:
        for graph, binding, pairs in self._ways(0, self.anywhere, self.constants):
            if not any(self.stated.matches(graph, *map(binding.get, self.head))):  # a body without Y leaves it open
                yield pairs

    def _ways(self, atom: int, graph: int | None, binding: Binding) -> Iterator[tuple[int, Binding, Pairs]]:
        """Yields (graph, binding of all variables, (subject, object) of each body atom) from this atom on."""
        if atom == len(self.body):
            assert graph is not None
            yield graph, binding, ()
            return
        subject, object_, edges = self.body[atom]
        for where, s, o in edges.matches(graph, binding.get(subject), binding.get(object_)):
            if time.monotonic() > self.ends:
                raise TimeLimitReached
            if subject == object_ and s != o:
                continue
            for end, bound, rest in self._ways(atom + 1, where, {**binding, subject: s, object_: o}):
                yield end, bound, ((s, o), *rest)


def _constants(stored: StoredFacts, rule: RuleRow) -> Binding:
    """Binds the constants of the rule to entities; a constant that the KB does not have matches nothing."""
    names = {atom[place] for atom in (rule.head, *rule.body) for place in ("subject", "object")}
    constants = {name: unquoted(name) for name in names if is_constant(name)}
    found = {name: stored.entities.number(one) for name, one in constants.items()}
    return {name: NOBODY if number is None else number for name, number in found.items()}


def _found(stored: StoredFacts, predicate: str) -> Columns:
    number = stored.predicates.number(predicate)
    return stored.of_predicate(NOBODY if number is None else number, "train")


def _labelled(stored: StoredFacts, predicate: str, graphs: Sequence[GraphRow]) -> Rows:
    """Returns the query pairs of the graphs whose label is this predicate."""
    number = stored.predicates.number(predicate)
    rows = [(graph.number, graph.subject, graph.object) for graph in graphs if graph.label == number]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def named(stored: StoredFacts, rule: RuleRow, ways: list[Pairs]) -> list[tuple[Fact, ...]]:
    """Turns groundings into facts with names."""
    name, predicates = stored.entities.name, [atom["predicate"] for atom in rule.body]
    return [
        tuple(Fact(name(s), predicate, name(o)) for predicate, (s, o) in zip(predicates, pairs, strict=True))
        for pairs in ways
    ]
