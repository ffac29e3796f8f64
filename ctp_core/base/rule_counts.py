"""Support and precision of rules, counted over the training data of a KB.

support    how many pairs (x, y) the body connects and the head holds for
precision  support ÷ how many pairs the body connects

Pairs are counted, not paths. Of a KB of facts these are all pairs of entities: what is not stated does not hold. Of
a KB of graphs they are the pairs of a graph of which some predicate is known, by its facts or its label: most pairs of
a graph are not labelled, and say nothing against a rule.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from ctp_core.base.edges import EdgeList
from ctp_core.kb.knowledge_base import FactsKB, Graph, GraphsKB
from ctp_core.rules import Rule, Step, Template
from ctp_core.symbols import Vocabulary

COUNTED_FROM = 1000  # entities; where a body can begin at more, so many drawn at random stand for all


class Counts(NamedTuple):
    """Counts of one rule: the pairs for which body and head hold, and the pairs for which the body holds."""

    support: int
    pairs: int


NOWHERE = Counts(0, 0)


class RuleCounter(Protocol):
    """Whatever counts the rules of a KB: in memory, as here, or where its facts lie."""

    def count(self, rule: Rule) -> Counts:
        """The counts of a rule whose body is a path from X to Y."""


def counter_of(kb: FactsKB | GraphsKB) -> RuleCounter:
    """A counter over the training data of a KB."""
    return FactsCounter.of(kb) if isinstance(kb, FactsKB) else GraphsCounter(kb.splits.get("train", ()))


def with_counts(rules: Iterable[Rule], kb: FactsKB | GraphsKB) -> list[Rule]:
    """The same rules with support and precision; no precision where the body never holds."""
    counter = counter_of(kb)
    return [rule.counted(*counter.count(rule)) for rule in rules]


class FactsCounter:
    """Counts on the sparse tables of a list of edges.

    Where a body begins at more than `COUNTED_FROM` entities the counts are estimates: a long chain joins a large KB in
    more pairs than anybody waits for.
    """

    def __init__(self, edges: EdgeList, predicates: Vocabulary) -> None:
        self._edges, self._predicates = edges, predicates

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
        drawn = np.random.default_rng(0).permutation(len(starts))[:COUNTED_FROM]
        chosen = starts[np.sort(drawn)]
        reached = tables[body[0]][chosen]
        for atom in body[1:]:
            reached = reached @ tables[atom]
            reached.data[:] = 1  # pairs are counted, not paths
        scale = len(starts) / max(1, len(chosen))
        support = int(reached.multiply(tables[head][chosen]).sum())
        return Counts(round(scale * support), round(scale * reached.nnz))

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
                heads.update(dict.fromkeys(found, weight))
        return heads, total


def _anonymous(graph: Graph) -> tuple[_NumberedFacts, _NumberedFacts]:
    """(facts, facts and label), entities numbered in the order of appearance."""
    numbers: dict[str, int] = {}
    for name in (graph.subject, graph.object, *(name for fact in graph.facts for name in (fact.subject, fact.object))):
        numbers.setdefault(name, len(numbers))
    facts = tuple((numbers[fact.subject], fact.predicate, numbers[fact.object]) for fact in graph.facts)
    label = () if graph.label is None else ((numbers[graph.subject], graph.label, numbers[graph.object]),)
    return facts, facts + label


def _connected(facts: _NumberedFacts, path: tuple[Step, ...]) -> set[tuple[int, int]]:
    """The pairs that a path of these steps connects."""
    pairs: set[tuple[int, int]] | None = None
    for wanted, inverse in path:
        step = {(b, a) if inverse else (a, b) for a, predicate, b in facts if predicate == wanted}
        pairs = step if pairs is None else {(a, c) for a, b in pairs for b2, c in step if b2 == b}
    return pairs or set()
