"""The facts behind a rule: its body joined over the facts of its predicates, of whatever shape it is."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

import numpy as np
from sqlalchemy.orm import Session

from ctp_core.rules import unquoted
from ctp_core.symbols import Fact
from service.db.tables import Kb, RuleRow
from service.kbs import repository
from service.kbs.blocks import POSITION
from service.kbs.blocks import PREDICATE as PREDICATE_COLUMN

Binding = dict[str, int]
NOBODY = -1


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


def groundings(session: Session, kb: Kb, rule: RuleRow, known: bool, limit: int) -> list[tuple[Fact, ...]]:
    """Ways in which training facts make the body true, where the head is a known fact, or where it is not."""
    edges = [_edges(session, kb, atom["predicate"]) for atom in rule.body]
    stated = _stated(session, kb, rule.head["predicate"])
    head = rule.head["subject"], rule.head["object"]
    anywhere = 0 if kb.kind == "facts" else None  # facts are all of graph 0
    ways = (
        pairs
        for graph, binding, pairs in _ways(rule, edges, anywhere, _constants(session, kb, rule))
        if any(stated.matches(graph, *map(binding.get, head))) == known  # a body about X alone leaves Y open
    )
    return _named(session, kb, rule, list(islice(ways, limit)))


Pairs = tuple[tuple[int, int], ...]


def _constants(session: Session, kb: Kb, rule: RuleRow) -> Binding:
    """The arguments that are entities, bound from the start; one that the KB does not have, to nobody."""
    names = {atom[place] for atom in (rule.head, *rule.body) for place in ("subject", "object")}
    found = {
        name: repository.position_of(session, kb, repository.ENTITY, unquoted(name)) for name in names if name[0] == "'"
    }
    return {name: NOBODY if position is None else position for name, position in found.items()}


def _ways(
    rule: RuleRow, edges: list[Edges], graph: int | None, binding: Binding
) -> Iterator[tuple[int, Binding, Pairs]]:
    """(graph, binding of all variables, subject and object of each body atom), atom by atom."""
    if not edges:
        assert graph is not None
        yield graph, binding, ()
        return
    atom = rule.body[-len(edges)]
    subject, object_ = atom["subject"], atom["object"]
    for where, s, o in edges[0].matches(graph, binding.get(subject), binding.get(object_)):
        if subject == object_ and s != o:
            continue
        for end, bound, rest in _ways(rule, edges[1:], where, {**binding, subject: s, object_: o}):
            yield end, bound, ((s, o), *rest)


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


def _named(session: Session, kb: Kb, rule: RuleRow, ways: list[Pairs]) -> list[tuple[Fact, ...]]:
    wanted = {entity for pairs in ways for pair in pairs for entity in pair}
    names = repository.names_of(session, kb, repository.ENTITY, wanted)
    predicates = [atom["predicate"] for atom in rule.body]
    return [
        tuple(Fact(names[s], predicate, names[o]) for predicate, (s, o) in zip(predicates, pairs, strict=True))
        for pairs in ways
    ]
