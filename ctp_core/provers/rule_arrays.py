"""Weighted rules on edge lists: evidence that adds up where no table of all pairs fits.

    logit(p, s, o) = b_p + Σ_rules w · h(c),   h(c) = c / (1 + c) for chains, log(1 + c) for rules about one entity

c is the number of groundings of the rule. log, because how often something is said of an entity keeps counting.
Rules with constants add the evidence of the strongest of each side, all with one weight.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.datasets.kb import FactIds
from ctp_core.provers.constants import SIDES, ConstantRules
from ctp_core.provers.counting import UNARY, RuleCounter
from ctp_core.provers.edge_list import EdgeList
from ctp_core.provers.evidence_arrays import WeighedPaths, provable_paths
from ctp_core.provers.features import ANY

TEMPLATES = ("1", "1X", "1Y", "2", "3")
PADDING = -1
LISTED_CONSTANTS = 10  # rules with constants of each side that a predicate lists
Body = tuple[int, ...]


def evidence_of(counts: NDArray[Any], template: str) -> NDArray[np.float64]:
    """h."""
    return np.asarray(np.log1p(counts) if template in UNARY else counts / (1.0 + counts), dtype=np.float64)


@dataclass(frozen=True)
class RuleTable:
    """One row per rule: head predicate, index of its template, body padded to three atoms, weight."""

    head: Int[np.ndarray, " rule"]
    template: Int[np.ndarray, " rule"]
    body: Int[np.ndarray, "rule 3"]
    weight: Float[np.ndarray, " rule"]
    bias: Float[np.ndarray, " predicate"]
    constants: Float[np.ndarray, " 1"]  # the weight of rules with constants

    def of(self, predicate: int) -> list[tuple[str, Body, float]]:
        rows = np.flatnonzero(self.head == predicate).tolist()
        return [(TEMPLATES[self.template[row]], self.body_of(row), float(self.weight[row])) for row in rows]

    def body_of(self, row: int) -> Body:
        return tuple(atom for atom in self.body[row].tolist() if atom != PADDING)


def turned(body: Body, num_predicates: int) -> Body:
    """The same path read from its end."""
    return tuple((atom + num_predicates) % (2 * num_predicates) for atom in reversed(body))


class ChainRows:
    """Groundings of chains from given entities to all entities; shared beginnings are multiplied once."""

    def __init__(self, counter: RuleCounter, starts: Int[np.ndarray, " question"]) -> None:
        self._counter, self._starts = counter, starts
        self._reached: dict[Body, sparse.csr_array] = {}

    def mean_paths(self, body: Body) -> float:
        """Paths per question: a bound on the entities that a rule proposes, without finding them."""
        onward = np.ones(self._counter.num_entities)
        for atom in reversed(body):
            onward = self._counter.tables[atom] @ onward
        return float(onward[self._starts].mean())

    def counts(self, body: Body) -> sparse.csr_array:
        """[question, entity]: the number of paths."""
        if len(body) == 1:
            return self._counter.tables[body[0]][self._starts]
        prefix = body[:-1]
        if prefix not in self._reached:
            self._reached[prefix] = self.counts(prefix)
        return self._reached[prefix] @ self._counter.tables[body[-1]]


class RuleArrays:
    """Scores and proofs by a table of rules, with the interface of EvidenceArrays."""

    def __init__(self, table: RuleTable, constants: ConstantRules | None) -> None:
        """`constants` are the rules of the KB that was learnt from; none about entities of another KB."""
        self.table = table
        self.num_predicates = len(table.bias)
        self.constants = constants if table.constants[0] else None

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(self.table.bias[facts[:, 1]])

    def rows(
        self, edges: EdgeList, predicate: int, starts: Int[np.ndarray, " question"], *, forward: bool
    ) -> Float[np.ndarray, "question entity"]:
        """Logits of all objects of the subjects, or of all subjects of the objects."""
        total = self.chain_rows(edges.counter, predicate, starts, forward=forward)
        if self.constants is not None:
            total += self.table.constants[0] * self.constant_rows(edges, predicate, starts, forward=forward)
        return total

    def constant_rows(
        self, edges: EdgeList, predicate: int, starts: Int[np.ndarray, " question"], *, forward: bool
    ) -> Float[np.ndarray, "question entity"]:
        """What the rules with constants say, before their weight."""
        if self.constants is None:
            return np.zeros((len(starts), edges.num_entities))
        features = edges.features
        return np.stack([self.constants.row(features, predicate, start, forward=forward) for start in starts.tolist()])

    def chain_rows(
        self, counter: RuleCounter, predicate: int, starts: Int[np.ndarray, " question"], *, forward: bool
    ) -> Float[np.ndarray, "question entity"]:
        """What the rules without constants say, and the bias."""
        num_entities = counter.num_entities
        total = np.full((len(starts), num_entities), self.table.bias[predicate])
        chains = ChainRows(counter, starts)
        for template, body, weight in self.table.of(predicate):
            if template in UNARY:
                evidence = weight * evidence_of(counter.degrees(body[0]), template)
                total += evidence[starts][:, None] if (template == "1X") == forward else evidence[None, :]
                continue
            found = chains.counts(body if forward else turned(body, self.num_predicates)).tocoo()
            total[found.row, found.col] += weight * evidence_of(found.data, template)
        return total

    def reach(self, edges: EdgeList, predicate: int, start: int, *, forward: bool) -> Float[np.ndarray, " entity"]:
        total = self.rows(edges, predicate, np.array([start]), forward=forward)[0]
        known = edges.neighbours(start, predicate if forward else predicate + self.num_predicates)
        facts = np.empty((len(known), 3), dtype=np.int64)
        facts[:, 0 if forward else 2], facts[:, 1], facts[:, 2 if forward else 0] = start, predicate, known
        total[known] = self.totals(edges, facts)  # no fact proves itself
        return np.asarray(total)

    def totals(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        totals = self.biases(facts)
        for paths in self.weigh(edges, facts):
            totals += np.bincount(paths.fact, paths.shares, len(facts))
        return totals

    def weigh(self, edges: EdgeList, facts: FactIds) -> list[WeighedPaths]:
        used = [TEMPLATES[index] for index in np.unique(self.table.template)] or ["1"]
        weighed = [self._weigh(template, edges, facts) for template in used]
        if self.constants is not None:
            weighed += [self._weigh_constants(self.constants, side, edges, facts) for side in SIDES]
        return weighed

    def _weigh_constants(self, rules: ConstantRules, side: str, edges: EdgeList, facts: FactIds) -> WeighedPaths:
        """One proof at most for each fact: its strongest rule, by a fact of the KB or of the question."""
        found = rules.strongest(edges.features, facts, rules.counted(facts), side)
        fact = np.flatnonzero(found.feature >= 0)
        feature, about, constant = found.feature[fact], *((0, 2) if side == "cX" else (2, 0))
        atoms, others = rules.features.atom(feature), rules.features.other(feature)
        entities = facts[fact, about]
        for row in np.flatnonzero(others == ANY).tolist():
            others[row] = edges.neighbours(int(entities[row]), int(atoms[row]))[0]
        cells = zip(feature.tolist(), facts[fact, constant].tolist(), strict=True)
        bodies = [rules.body(side, one, other) for one, other in cells]
        shares = self.table.constants[0] * found.evidence[fact]
        stations = np.column_stack([entities, others])
        one = np.ones((len(fact), 1))
        return WeighedPaths(side, fact, atoms[:, None], stations, shares, [one], np.ones((len(facts), 1)), bodies)

    @cached_property
    def _keys(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        keys = self._key(self.table.head, self.table.template, self.table.body)
        order = np.argsort(keys)
        return keys[order], order

    def _key(self, head: NDArray[np.int64], template: NDArray[np.int64], body: NDArray[np.int64]) -> NDArray[np.int64]:
        key = head * len(TEMPLATES) + template
        for place in range(3):
            key = key * (2 * self.num_predicates + 1) + body[:, place] + 1
        return np.asarray(key)

    def _weigh(self, template: str, edges: EdgeList, facts: FactIds) -> WeighedPaths:
        paths = provable_paths(edges, facts, template)
        body = np.full((len(paths.pair), 3), PADDING)
        body[:, : paths.atoms.shape[1]] = paths.atoms
        index = np.full(len(paths.pair), TEMPLATES.index(template))
        keys, order = self._keys
        wanted = self._key(facts[paths.pair, 1], index, body)
        place = np.searchsorted(keys, wanted)
        place[place == len(keys)] = 0
        kept = np.flatnonzero(keys[place] == wanted) if len(keys) else np.zeros(0, dtype=np.int64)
        rule, fact = order[place[kept]], paths.pair[kept]
        _, group, counts = np.unique(fact * len(keys) + rule, return_inverse=True, return_counts=True)
        shares = (self.table.weight[rule] * evidence_of(counts, template)[group] / counts[group]) if len(rule) else rule
        atoms = paths.atoms[kept]
        one = np.ones((len(fact), 1))  # a rule attends to its own atoms and to nothing else
        return WeighedPaths(
            template,
            fact,
            atoms,
            paths.stations[kept],
            np.asarray(shares, dtype=np.float64),
            [one] * atoms.shape[1],
            np.ones((len(facts), 1)),
        )

    def evidence(self, predicate: int, template: str, body: Body) -> float:
        if template in SIDES:
            assert self.constants is not None
            return float(self.table.constants[0]) * self.constants.evidence_of(predicate, body)
        weights = {(t, b): weight for t, b, weight in self.table.of(predicate)}
        return weights.get((template, body), 0.0) * float(evidence_of(np.ones(1), template)[0])

    def bodies(self, predicate: int) -> set[tuple[str, Body]]:
        found = {(template, body) for template, body, _ in self.table.of(predicate)}
        if self.constants is not None:
            best = self.constants.best_bodies(predicate, LISTED_CONSTANTS)
            found |= {(SIDES[body[0]], body) for body in best}
        return found
