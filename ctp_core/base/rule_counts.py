"""Support and precision of rules, counted over the training data of a KB.

support    how many pairs (x, y) the body connects and the head holds for
precision  support ÷ how many pairs the body connects

The confidence that is estimated from them is in confidence.py.

Where the head is stated, the body must hold without that fact: no fact supports itself, as it would in
p(X,Y) :- p(X,Z), p(Z2,Z), p(Z2,Y) with Z2 = X.

Pairs are counted, not paths. Of a KB of facts these are all pairs of entities: what is not stated does not hold. Of
a KB of graphs they are the pairs of a graph of which some predicate is known, by its facts or its label: most pairs of
a graph are not labelled, and say nothing against a rule.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.base.edges import EdgeList
from ctp_core.base.progress import OnPart, unheard
from ctp_core.kb.knowledge_base import FactsKB, Graph, GraphsKB
from ctp_core.rules import Rule, Step, Template
from ctp_core.symbols import Vocabulary

EXACT = 0.5  # numbers of paths are whole
COUNTED_FROM = 1000  # entities; where a body can begin at more, so many drawn at random stand for all
MAX_PATHS = 5e6  # of a body, all starts together: about half a second; where there are more, fewer starts are drawn


class Counts(NamedTuple):
    """Counts of one rule: the pairs for which body and head hold, and the pairs for which the body holds."""

    support: int
    pairs: int


NOWHERE = Counts(0, 0)
CHECKED = 1000  # pairs; of more, so many spread over all of them tell how many rest on themselves


class RuleCounter(Protocol):
    """Whatever counts the rules of a KB: in memory, as here, or where its facts lie."""

    def count(self, rule: Rule) -> Counts:
        """The counts of a rule whose body is a path from X to Y."""


def counter_of(kb: FactsKB | GraphsKB) -> RuleCounter:
    """A counter over the training data of a KB."""
    return FactsCounter.of(kb) if isinstance(kb, FactsKB) else GraphsCounter(kb.splits.get("train", ()))


def with_counts(rules: Iterable[Rule], kb: FactsKB | GraphsKB, on_part: OnPart = unheard) -> list[Rule]:
    """The same rules with support and precision; no precision where the body never holds."""
    counter, every, counted = counter_of(kb), list(rules), list[Rule]()
    for rule in every:
        counted.append(rule.counted(*counter.count(rule)))
        on_part(len(counted), len(every))
    return counted


class FactsCounter:
    """Counts on the sparse tables of a list of edges.

    Where a body begins at more than `starts` entities (COUNTED_FROM), or has more than so many `paths` (MAX_PATHS), the
    counts are estimates: a long chain joins a large KB in more pairs than anybody waits for.
    """

    def __init__(
        self, edges: EdgeList, predicates: Vocabulary, starts: int | None = None, paths: float | None = None
    ) -> None:
        self._edges, self._predicates = edges, predicates
        self._most_starts = COUNTED_FROM if starts is None else starts
        self._most_paths = MAX_PATHS if paths is None else paths

    @classmethod
    def of(cls, kb: FactsKB) -> "FactsCounter":
        facts = kb.splits.get("train", np.zeros((0, 3), dtype=np.int64))
        return cls(EdgeList(facts, len(kb.entities), len(kb.predicates)), kb.predicates)

    def count(self, rule: Rule) -> Counts:
        if any(predicate not in self._predicates for predicate in rule.body.predicates):
            return NOWHERE
        ids, count = self._predicates.id, len(self._predicates)
        path = tuple(ids(predicate) + (count if inverse else 0) for predicate, inverse in rule.body.steps)
        if rule.predicate not in self._predicates:
            return Counts(0, self.count_atoms(0, rule.template, path).pairs)
        return self.count_atoms(ids(rule.predicate), rule.template, path)

    def count_atoms(self, head: int, template: Template, body: tuple[int, ...]) -> Counts:
        """The counts of a rule given by numbered atoms along the path from X to Y, or by one atom about one entity."""
        if template.unary:
            return self._count_unary(head, body[0], about_subject=template.about_subject)
        tables = self._edges.tables
        starts = np.flatnonzero(self._edges.degrees_by(body[0]))
        drawn = np.random.default_rng(0).permutation(len(starts))[: self._most_starts]
        drawn = drawn[: self._affordable(body, starts[drawn])]
        chosen = starts[np.sort(drawn)]
        reached = tables[body[0]][chosen]
        for atom in body[1:]:
            reached = reached @ tables[atom]
            reached.data[:] = 1  # pairs are counted, not paths
        scale = len(starts) / max(1, len(chosen))
        stated = reached.multiply(tables[head][chosen]).tocoo()
        own = self._resting_on_themselves(head, body, chosen[stated.row], stated.col)
        return Counts(round(scale * (stated.nnz - own)), round(scale * (reached.nnz - own)))

    def _resting_on_themselves(
        self, head: int, body: tuple[int, ...], subjects: NDArray[np.int64], objects: NDArray[np.int64]
    ) -> float:
        """How many of these stated pairs the body connects only by way of the fact that it should conclude."""
        inverse = (head + self._edges.num_predicates) % (2 * self._edges.num_predicates)
        if not len(subjects) or not {head, inverse} & set(body):
            return 0.0
        checked = np.linspace(0, len(subjects) - 1, min(CHECKED, len(subjects))).astype(np.int64)
        found = self._connected_otherwise(head, body, subjects[checked], objects[checked])
        return len(subjects) * float((~found).mean())

    def _connected_otherwise(
        self, head: int, body: tuple[int, ...], subjects: NDArray[np.int64], objects: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether the body connects each pair although the fact head(subject, object) is taken away."""
        rows, num_entities = np.arange(len(subjects)), self._edges.num_entities
        shape = (len(rows), num_entities)
        at = sparse.csr_array((np.ones(len(rows)), (rows, subjects)), shape=shape)  # [pair, entity]
        for atom in body:
            moved = at @ self._edges.tables[atom].astype(np.float64)
            if atom % self._edges.num_predicates == head % self._edges.num_predicates:
                start, end = (subjects, objects) if atom == head else (objects, subjects)
                own = sparse.csr_array((_cells(at, start), (rows, end)), shape=shape)
                moved = (moved - own).tocsr()
            moved.data = np.asarray(moved.data > EXACT, dtype=np.float64)
            moved.eliminate_zeros()
            at = moved
        return _cells(at, objects) > 0

    def _affordable(self, body: tuple[int, ...], starts: NDArray[np.int64]) -> int:
        """How many of these entities can be begun at within the bound on paths; at least one."""
        tables, paths = self._edges.tables, np.ones(self._edges.num_entities)  # from each entity to the end of the body
        for atom in reversed(body):
            paths = tables[atom] @ paths
        return max(1, int((np.cumsum(paths[starts]) <= self._most_paths).sum()))

    def _count_unary(self, head: int, atom: int, *, about_subject: bool) -> Counts:
        """Counts p(X,Y) :- p(X,Z) only with a Z other than Y: the fact itself is not a grounding."""
        num_entities, num_predicates = self._edges.num_entities, self._edges.num_predicates
        inverse = (head + num_predicates) % (2 * num_predicates)
        own = head if about_subject else inverse  # of the entity that the body is about
        heads, bodies = self._edges.degrees_by(own), self._edges.degrees_by(atom)
        if atom == own:
            pairs = num_entities * (bodies > 1).sum() + (num_entities - 1) * (bodies == 1).sum()
            return Counts(int(heads[bodies > 1].sum()), int(pairs))
        return Counts(int(heads[bodies > 0].sum()), int(num_entities * (bodies > 0).sum()))


def _cells(table: sparse.csr_array, columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """One cell of each row."""
    rows = np.arange(len(columns))
    chosen = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=table.shape)
    return np.asarray(table.multiply(chosen).sum(axis=1)).ravel()


_NumberedFacts = tuple[tuple[int, str, int], ...]


class GraphsCounter:
    """Counts on many small graphs: the body over a graph's facts, the head over its facts and its label."""

    def __init__(self, graphs: Iterable[Graph]) -> None:
        # Equal graphs are counted once, with their number: CLUTRR repeats each graph about 25 times.
        distinct = Counter(_anonymous(graph) for graph in graphs)
        self.graphs = [(facts, known, weight) for (facts, known), weight in distinct.items()]
        self._counts: dict[tuple[Step, ...], tuple[Counter[str], int]] = {}

    def count(self, rule: Rule) -> Counts:
        path = rule.body.steps
        if path not in self._counts:
            self._counts[path] = self._count_body(path)
        heads, pairs = self._counts[path]
        return Counts(heads[rule.predicate], pairs)

    def _count_body(self, path: tuple[Step, ...]) -> tuple[Counter[str], int]:
        """(support of every head, pairs)."""
        heads: Counter[str] = Counter()
        total = 0
        for facts, known, weight in self.graphs:
            labels = defaultdict(set)
            for a, predicate, b in known:
                labels[(a, b)].add(predicate)
            for pair in _connected(facts, path):
                found = labels.get(pair, set())
                total += weight * bool(found)
                proved = (head for head in found if _without(facts, pair, head, path))
                heads.update(dict.fromkeys(proved, weight))
        return heads, total


def _anonymous(graph: Graph) -> tuple[_NumberedFacts, _NumberedFacts]:
    """(facts, facts and label), entities numbered in the order of appearance."""
    numbers: dict[str, int] = {}
    for name in (graph.subject, graph.object, *(name for fact in graph.facts for name in (fact.subject, fact.object))):
        numbers.setdefault(name, len(numbers))
    facts = tuple((numbers[fact.subject], fact.predicate, numbers[fact.object]) for fact in graph.facts)
    label = () if graph.label is None else ((numbers[graph.subject], graph.label, numbers[graph.object]),)
    return facts, facts + label


def _without(facts: _NumberedFacts, pair: tuple[int, int], head: str, path: tuple[Step, ...]) -> bool:
    """Whether a path connects a pair also without the fact that it should conclude."""
    own = (pair[0], head, pair[1])
    if own not in facts or all(step.predicate != head for step in path):
        return True
    return pair in _connected(tuple(fact for fact in facts if fact != own), path)


def _connected(facts: _NumberedFacts, path: tuple[Step, ...]) -> set[tuple[int, int]]:
    """The pairs that a path of these steps connects."""
    pairs: set[tuple[int, int]] | None = None
    for wanted, inverse in path:
        step = {(b, a) if inverse else (a, b) for a, predicate, b in facts if predicate == wanted}
        pairs = step if pairs is None else {(a, c) for a, b in pairs for b2, c in step if b2 == b}
    return pairs or set()
