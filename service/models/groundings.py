"""The facts behind a rule: its body joined over the facts of its predicates, of whatever shape it is."""

import time
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from sqlalchemy.orm import Session

from ctp_core.rules import unquoted
from ctp_core.symbols import Fact
from service.db.tables import Kb, RuleRow
from service.kbs import repository
from service.kbs.blocks import POSITION
from service.kbs.blocks import PREDICATE as PREDICATE_COLUMN

Binding = dict[str, int]
Pairs = tuple[tuple[int, int], ...]
NOBODY = -1
SECONDS = 1.0  # The search runs in a process that has other callers: it shows what it found by then.


class Edges:
    """The training facts of one predicate, found by either end. Facts of different graphs do not meet."""

    def __init__(self, rows: list[tuple[int, int, int]]) -> None:
        """Rows of graph, subject, object; the graph is 0 in a KB of facts."""
        self.rows, self.members = rows, set(rows)
        self.objects: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self.subjects: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        for graph, subject, object_ in rows:
            self.objects[graph, subject].append(object_)
            self.subjects[graph, object_].append(subject)

    def matches(self, graph: int | None, subject: int | None, object_: int | None) -> Iterator[tuple[int, int, int]]:
        """Rows that agree with what is known already."""
        if graph is None:
            yield from self.rows
        elif subject is not None and object_ is not None:
            yield from [(graph, subject, object_)] if (graph, subject, object_) in self.members else []
        elif subject is not None:
            yield from ((graph, subject, o) for o in self.objects.get((graph, subject), ()))
        elif object_ is not None:
            yield from ((graph, s, object_) for s in self.subjects.get((graph, object_), ()))
        else:
            yield from (row for row in self.rows if row[0] == graph)


class OutOfTime(Exception):
    """The search has taken as long as it may."""


class Search:
    """For the ways in which training facts make the body of a rule true."""

    def __init__(self, session: Session, kb: Kb, rule: RuleRow, seconds: float = SECONDS) -> None:
        edges = {name: _edges(session, kb, name) for name in {atom["predicate"] for atom in rule.body}}
        self.body = [(atom["subject"], atom["object"], edges[atom["predicate"]]) for atom in rule.body]
        self.head = rule.head["subject"], rule.head["object"]
        self.stated = _stated(session, kb, rule.head["predicate"])
        self.anywhere = 0 if kb.kind == "facts" else None  # facts are all of graph 0
        self.constants = _constants(session, kb, rule)
        self.ends = time.monotonic() + seconds
        self.truncated = False

    def found(self, known: bool, limit: int) -> list[Pairs]:
        """Subjects and objects of the body, where the head is a known fact or where it is not, while there is time."""
        found: dict[Pairs, None] = {}
        try:
            ways = self._known() if known else self._unknown()
            while len(found) < limit and (pairs := next(ways, None)) is not None:
                found[pairs] = None
        except OutOfTime:
            self.truncated = True
        return list(found)

    def _known(self) -> Iterator[Pairs]:
        """From the facts that the head states, so that few of them do not cost a whole join."""
        subject, object_ = self.head
        for graph, s, o in self.stated.matches(self.anywhere, *map(self.constants.get, self.head)):
            if subject != object_ or s == o:
                yield from (pairs for _, _, pairs in self._ways(0, graph, {**self.constants, subject: s, object_: o}))

    def _unknown(self) -> Iterator[Pairs]:
        for graph, binding, pairs in self._ways(0, self.anywhere, self.constants):
            if not any(self.stated.matches(graph, *map(binding.get, self.head))):  # a body about X leaves Y open
                yield pairs

    def _ways(self, atom: int, graph: int | None, binding: Binding) -> Iterator[tuple[int, Binding, Pairs]]:
        """(graph, binding of all variables, subject and object of each body atom), from this atom on."""
        if atom == len(self.body):
            assert graph is not None
            yield graph, binding, ()
            return
        subject, object_, edges = self.body[atom]
        for where, s, o in edges.matches(graph, binding.get(subject), binding.get(object_)):
            if time.monotonic() > self.ends:
                raise OutOfTime
            if subject == object_ and s != o:
                continue
            for end, bound, rest in self._ways(atom + 1, where, {**binding, subject: s, object_: o}):
                yield end, bound, ((s, o), *rest)


def _constants(session: Session, kb: Kb, rule: RuleRow) -> Binding:
    """The arguments that are entities, bound from the start; one that the KB does not have, to nobody."""
    names = {atom[place] for atom in (rule.head, *rule.body) for place in ("subject", "object")}
    found = {
        name: repository.position_of(session, kb, repository.ENTITY, unquoted(name)) for name in names if name[0] == "'"
    }
    return {name: NOBODY if position is None else position for name, position in found.items()}


def _edges(session: Session, kb: Kb, predicate: str) -> Edges:
    position = repository.position_of(session, kb, repository.PREDICATE, predicate)
    if position is None:
        return Edges([])
    rows = repository.rows(session, kb, {PREDICATE_COLUMN: position}, None, kb.num_facts)
    num_train = repository.facts_by_split(session, kb).get("train", 0)
    graph_of = _graph_of(session, kb, [row[POSITION] for row in rows])
    return Edges(
        [(graph, row[0], row[2]) for graph, row in zip(graph_of, rows, strict=True) if row[POSITION] < num_train]
    )


def _graph_of(session: Session, kb: Kb, positions: list[int]) -> list[int]:
    if kb.kind == "facts":
        return [0] * len(positions)
    ends = np.cumsum([graph.num_facts for graph in repository.graph_rows(session, kb)])
    numbers: list[int] = np.searchsorted(ends, positions, side="right").tolist()
    return numbers


def _stated(session: Session, kb: Kb, predicate: str) -> Edges:
    """Where the head holds: as a training fact, or in a graph as its label."""
    if kb.kind == "facts":
        return _edges(session, kb, predicate)
    position = repository.position_of(session, kb, repository.PREDICATE, predicate)
    rows = [(g.number, g.subject, g.object) for g in repository.graph_rows(session, kb) if g.label == position]
    return Edges(rows)


def named(session: Session, kb: Kb, rule: RuleRow, ways: list[Pairs]) -> list[tuple[Fact, ...]]:
    """What was found, as facts."""
    wanted = {entity for pairs in ways for pair in pairs for entity in pair}
    names = repository.names_of(session, kb, repository.ENTITY, wanted)
    predicates = [atom["predicate"] for atom in rule.body]
    return [
        tuple(Fact(names[s], predicate, names[o]) for predicate, (s, o) in zip(predicates, pairs, strict=True))
        for pairs in ways
    ]
