"""Support and precision of rules, counted over a KB; and the facts behind a rule.

support    how many pairs (x, y) the body connects and the head is known to hold for
precision  support ÷ how many pairs the body connects (in `graphs`: of those pairs whose predicate is known at all)
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from scipy import sparse

from ctp_core.kb.knowledge_base import FactsKB, Graph, GraphsKB
from ctp_core.rules import Rule, Step
from ctp_core.symbols import Fact

Grounding = tuple[Fact, ...]


def with_counts(rules: Iterable[Rule], kb: FactsKB | GraphsKB) -> list[Rule]:
    """The same rules with support and precision over the training facts; no precision where the body never holds."""
    counter = FactsCounter(kb) if isinstance(kb, FactsKB) else GraphsCounter(kb.splits.get("train", ()))
    return [rule.counted(*counter.count(rule)) for rule in rules]


class FactsCounter:
    """Counts on `kind: facts` with one sparse Boolean matrix per predicate."""

    def __init__(self, kb: FactsKB) -> None:
        self.kb = kb
        self._matrices: dict[str, sparse.csr_array] = {}

    def count(self, rule: Rule) -> tuple[int, int]:
        """(support, number of pairs that the body connects)."""
        matrices = self._walk(rule)
        body = matrices[0]
        for matrix in matrices[1:]:
            body = (body @ matrix).astype(bool)
        return int(body.multiply(self._matrix(rule.predicate)).nnz), int(body.nnz)

    def _walk(self, rule: Rule) -> list[sparse.csr_array]:
        """The body from X to Y, each atom the way it is walked."""
        matrices = ((self._matrix(step.predicate), step.inverse) for step in rule.body.steps)
        return [matrix.T.tocsr() if inverse else matrix for matrix, inverse in matrices]

    def groundings(self, rule: Rule, limit: int) -> list[Grounding]:
        """The first `limit` ways in which facts make the body true, those of known heads first."""
        known: list[Grounding] = []
        others: list[Grounding] = []
        for entities, grounding in islice(self._paths(rule), 100 * limit):
            holds = self._matrix(rule.predicate)[[entities[0]], [entities[-1]]].any()
            (known if holds else others).append(grounding)
            if len(known) == limit:
                break
        return (known + others)[:limit]

    def _paths(self, rule: Rule) -> Iterator[tuple[list[int], Grounding]]:
        matrices, names = self._walk(rule), self.kb.entities.names

        def walk(path: list[int]) -> Iterator[list[int]]:
            if len(path) > len(matrices):
                yield path
                return
            matrix = matrices[len(path) - 1]
            for entity in matrix.indices[matrix.indptr[path[-1]] : matrix.indptr[path[-1] + 1]]:
                yield from walk([*path, int(entity)])

        for start in np.flatnonzero(np.diff(matrices[0].indptr)):
            for path in walk([int(start)]):
                yield path, rule.body.facts([names[entity] for entity in path])

    def _matrix(self, predicate: str) -> sparse.csr_array:
        if predicate not in self._matrices:
            facts = self.kb.splits.get("train", np.zeros((0, 3), dtype=np.int64))
            size = len(self.kb.entities)
            chosen = (
                facts[facts[:, 1] == self.kb.predicates.id(predicate)] if predicate in self.kb.predicates else facts[:0]
            )
            values = np.ones(len(chosen), dtype=bool)
            self._matrices[predicate] = sparse.csr_array((values, (chosen[:, 0], chosen[:, 2])), shape=(size, size))
        return self._matrices[predicate]


class GraphsCounter:
    """Counts on `kind: graphs`: the body over a graph's facts, the head over its facts and its label.

    Most pairs of a graph have no known predicate; they say nothing against a rule and are left out of precision.
    """

    def __init__(self, graphs: Iterable[Graph]) -> None:
        # Equal graphs are counted once, with their number: CLUTRR repeats each graph about 25 times.
        distinct = Counter((_anonymous(graph)) for graph in graphs)
        self.graphs = [(facts, known, weight) for (facts, known), weight in distinct.items()]
        self._counts: dict[tuple[Step, ...], Counter[str]] = {}
        self._totals: dict[tuple[Step, ...], int] = {}

    def count(self, rule: Rule) -> tuple[int, int]:
        body = rule.body.steps
        if body not in self._counts:
            self._counts[body], self._totals[body] = self._count_body(body)
        return self._counts[body][rule.predicate], self._totals[body]

    def _count_body(self, steps: tuple[Step, ...]) -> tuple[Counter[str], int]:
        heads: Counter[str] = Counter()
        total = 0
        for facts, known, weight in self.graphs:
            pairs = _connected(facts, steps)
            labels = defaultdict(set)
            for a, predicate, b in known:
                labels[(a, b)].add(predicate)
            for a, b in pairs:
                found = labels.get((a, b), set())
                total += weight * bool(found)
                heads.update(dict.fromkeys(found, weight))
        return heads, total


_Triples = tuple[tuple[int, str, int], ...]


def _anonymous(graph: Graph) -> tuple[_Triples, _Triples]:
    """(facts, facts and label), entities numbered in the order of appearance."""
    numbers: dict[str, int] = {}
    for name in (graph.subject, graph.object, *(name for fact in graph.facts for name in (fact.subject, fact.object))):
        numbers.setdefault(name, len(numbers))
    facts = tuple((numbers[fact.subject], fact.predicate, numbers[fact.object]) for fact in graph.facts)
    label = () if graph.label is None else ((numbers[graph.subject], graph.label, numbers[graph.object]),)
    return facts, facts + label


def _connected(facts: _Triples, steps: tuple[Step, ...]) -> set[tuple[int, int]]:
    """The pairs that a path with these steps connects."""
    pairs = _ends(facts, steps[0])
    for step in steps[1:]:
        onward = _ends(facts, step)
        pairs = {(a, c) for a, b in pairs for b2, c in onward if b2 == b}
    return pairs


def _ends(facts: _Triples, step: Step) -> set[tuple[int, int]]:
    """Where the facts of a step begin and end, as it is walked."""
    ends = ((a, b) for a, predicate, b in facts if predicate == step.predicate)
    return {(b, a) if step.inverse else (a, b) for a, b in ends}
