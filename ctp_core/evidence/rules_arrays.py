"""Weighted rules on edge lists: evidence that adds up where no table of all pairs fits.

    logit(p, s, o) = b_p + Σ_rules w · h(c)
    h(c) = c / (1 + c) for chains of one or two atoms, 1 for longer ones, log(1 + c) for rules about one entity

c is the number of groundings of the rule. log, because how often something is said of an entity keeps counting; 1,
because the many paths of a long chain go through the same few facts.
Rules with constants add the evidence of the strongest of each side, all with one weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ctp_core.base.edges import EdgeList, Paths
from ctp_core.evidence.proofs import WeighedPaths
from ctp_core.evidence.rules_chains import AtomIds, ChainRows, PairWalks, turned
from ctp_core.evidence.rules_constants import ConstantRules
from ctp_core.evidence.rules_features import ANY, atoms_of, middle
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import SIDES, UNARY, Template

TEMPLATES = (Template(1), *UNARY, Template(2), Template(3), Template(4), Template(5))
LONG = 3  # body atoms
PADDING = -1
LISTED_CHAINS = (20, 100)  # rules without constants that a predicate lists: at least, and at most
LISTED_IN_ALL = 5000  # such rules of all predicates, where that is not less for any of them
LISTED_CONSTANTS = 20  # rules with constants that a predicate lists
EXPLAINING = 10  # chains that may make such a rule superfluous
FEW = 8  # questions about one predicate: for more, all its rules with constants are counted at once
MAX_WALKS = 1e6  # along one of these chains; one that takes more, through hubs, is not heard


def evidence_of(counts: NDArray[Any], template: Template) -> NDArray[np.float64]:
    """h(c): how much evidence c groundings of a rule are; in [0, 1], or log(1 + c) for rules about one entity."""
    if template.unary:
        return np.asarray(np.log1p(counts), dtype=np.float64)
    return np.asarray(counts / (1.0 + counts) if template.length < LONG else counts > 0, dtype=np.float64)


@dataclass(frozen=True)
class RuleTable:
    """One row per rule: head predicate, index of its template, body padded to the longest, weight."""

    head: Int[np.ndarray, " rule"]
    template: Int[np.ndarray, " rule"]
    body: Int[np.ndarray, "rule place"]
    weight: Float[np.ndarray, " rule"]
    bias: Float[np.ndarray, " predicate"]
    constants: Float[np.ndarray, " predicate"]  # the weight of rules with constants

    def of(self, predicate: int) -> list[tuple[Template, AtomIds, float]]:
        rows = np.flatnonzero(self.head == predicate).tolist()
        return [(TEMPLATES[self.template[row]], self.body_of(row), float(self.weight[row])) for row in rows]

    def body_of(self, row: int) -> AtomIds:
        return tuple(atom for atom in self.body[row].tolist() if atom != PADDING)


class RuleArrays:
    """Scores and proofs by a table of rules; implements `Arrays` of evidence/model.py."""

    def __init__(self, table: RuleTable, constants: ConstantRules | None) -> None:
        """`constants` are the rules with constants of the training KB; None on another KB, which has other entities."""
        self.table = table
        self.num_predicates = len(table.bias)
        self.constants = constants if table.constants.any() else None

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(self.table.bias[facts[:, 1]])

    def rows(
        self, edges: EdgeList, predicate: int, starts: Int[np.ndarray, " question"], *, forward: bool
    ) -> Float[np.ndarray, "question entity"]:
        """Logits of all objects of the subjects, or of all subjects of the objects."""
        total = self.chain_rows(edges, predicate, starts, forward=forward)
        if self.constants is not None and self.table.constants[predicate]:
            total += self.weighed_constants(edges, predicate, starts, forward=forward)
        return total

    def weighed_constants(
        self, edges: EdgeList, predicate: int, starts: Int[np.ndarray, " question"], *, forward: bool
    ) -> Float[np.ndarray, "question entity"]:
        """What the rules with constants say, at their weight."""
        said = self.constant_rows(edges, predicate, starts, forward=forward)
        return np.asarray(self.table.constants[predicate] * said)

    def constant_rows(
        self, edges: EdgeList, predicate: int, starts: Int[np.ndarray, " question"], *, forward: bool
    ) -> Float[np.ndarray, "question entity"]:
        """What the rules with constants say, before their weight."""
        if self.constants is None:
            return np.zeros((len(starts), edges.num_entities))
        features = self.constants.features_in(edges)
        if len(starts) > FEW:
            self.constants.keep_table(predicate, SIDES[0 if forward else 1])
        return np.stack([self.constants.row(features, predicate, start, forward=forward) for start in starts.tolist()])

    def chain_rows(
        self, edges: EdgeList, predicate: int, starts: Int[np.ndarray, " question"], *, forward: bool
    ) -> Float[np.ndarray, "question entity"]:
        """What the rules without constants say, and the bias."""
        num_entities = edges.num_entities
        total = np.full((len(starts), num_entities), self.table.bias[predicate])
        chains = ChainRows(edges, starts)
        ways: list[tuple[AtomIds, Template, float]] = []
        for template, body, weight in self.table.of(predicate):
            if template.unary:
                evidence = weight * evidence_of(edges.degrees_by(body[0]), template)
                total += evidence[starts][:, None] if template.about_subject == forward else evidence[None, :]
            else:
                ways.append((body if forward else turned(body, self.num_predicates), template, weight))
        for body, template, weight in sorted(ways):
            found = chains.counts(body).tocoo()
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
        """The logits, by counts alone: the proofs of all facts of a hub would fill the memory."""
        totals, known = self.biases(facts), edges.states(facts)
        for predicate in np.unique(facts[:, 1]).tolist():
            rows = np.flatnonzero(facts[:, 1] == predicate)
            walks = PairWalks(edges, facts[rows])
            for template, body, weight in self.table.of(predicate):
                if template.unary:
                    counts = self._said(edges, facts[rows], known[rows], template, body[0])
                else:
                    counts = np.bincount(walks.paths(template, body).pair, minlength=len(rows))
                totals[rows] += weight * evidence_of(counts, template)
        if self.constants is not None:
            features, counted = self.constants.features_in(edges), self.constants.counted(facts)
            for side in SIDES:
                found = self.constants.strongest(features, facts, counted, side)
                totals += self.table.constants[facts[:, 1]] * found.evidence
        return totals

    def _said(
        self, edges: EdgeList, facts: FactIds, known: NDArray[np.bool_], template: Template, atom: int
    ) -> Int[np.ndarray, " fact"]:
        """How often an atom is stated about one entity of each fact, not counting the fact itself."""
        away, back = facts[:, 1], facts[:, 1] + self.num_predicates
        about, own, other = (facts[:, 0], away, back) if template.about_subject else (facts[:, 2], back, away)
        loops = facts[:, 0] == facts[:, 2]  # a loop states it twice, once in either direction
        return np.asarray(edges.degrees_by(atom)[about] - known * ((atom == own) | (loops & (atom == other))))

    def priors(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What rules about one entity alone add to the logits."""
        found, known = np.zeros(len(facts)), edges.states(facts)
        for predicate in np.unique(facts[:, 1]).tolist():
            rows = np.flatnonzero(facts[:, 1] == predicate)
            for template, body, weight in self.table.of(predicate):
                if template.unary:
                    counts = self._said(edges, facts[rows], known[rows], template, body[0])
                    found[rows] += weight * evidence_of(counts, template)
        return found

    def weigh(self, edges: EdgeList, facts: FactIds, wanted: int | None = None) -> list[WeighedPaths]:
        """Rule by rule, not path by path: of all paths between two entities few are the body of a rule, so that all are
        listed however few are `wanted`."""
        del wanted
        found: dict[Template, list[tuple[Paths, Float[np.ndarray, " path"]]]] = {template: [] for template in TEMPLATES}
        for predicate in np.unique(facts[:, 1]).tolist():
            rows = np.flatnonzero(facts[:, 1] == predicate)
            walks = PairWalks(edges, facts[rows])
            for template, body, weight in self.table.of(predicate):
                paths = walks.paths(template, body)
                counts = np.bincount(paths.pair, minlength=len(rows))
                each = weight * evidence_of(counts, template) / np.maximum(counts, 1)
                found[template].append((paths._replace(pair=rows[paths.pair]), each[paths.pair]))
        weighed = [_together(template, ways, len(facts)) for template, ways in found.items() if ways]
        if self.constants is not None:
            weighed += [one for side in SIDES for one in self._weigh_constants(self.constants, side, edges, facts)]
        return weighed or [_together(Template(1), [], len(facts))]

    def _weigh_constants(
        self, rules: ConstantRules, side: Template, edges: EdgeList, facts: FactIds
    ) -> list[WeighedPaths]:
        """One proof at most for each fact: its strongest rule, by facts of the KB or of the question."""
        found = rules.strongest(rules.features_in(edges), facts, rules.counted(facts), side)
        long = rules.features.long[np.maximum(found.feature, 0)]
        shares = self.table.constants[facts[:, 1]] * found.evidence
        weighed = []
        for length in (1, 2):
            fact = np.flatnonzero((found.feature >= 0) & (long == (length == 2)))
            about, constants = facts[fact][:, [0, 2] if side.about_subject else [2, 0]].T
            cells = zip(found.feature[fact].tolist(), constants.tolist(), strict=True)
            bodies = [rules.body(side, feature, constant) for feature, constant in cells]
            paths = [atoms_of(path, rules.features.num_atoms) for _, path, _, _ in bodies]
            ends = zip(about.tolist(), paths, (other for _, _, other, _ in bodies), strict=True)
            stations = np.array([_stations(edges, *one) for one in ends], dtype=np.int64).reshape(-1, length + 1)
            atoms, one = np.array(paths, dtype=np.int64).reshape(-1, length), np.ones((len(fact), 1))
            every = (np.ones((len(facts), 1)), len(facts))
            weighed.append(WeighedPaths(side, fact, atoms, stations, shares[fact], [one] * length, *every, bodies))
        return weighed

    def evidence(self, predicate: int, template: Template, body: AtomIds) -> float:
        if template.constant:
            assert self.constants is not None
            return float(self.table.constants[predicate]) * self.constants.evidence_of(predicate, body)
        return self._chains(predicate).get((template, body), 0.0)

    def _chains(self, predicate: int) -> dict[tuple[Template, AtomIds], float]:
        """What a single proof by each rule without constants adds to the logit."""
        rows = self.table.of(predicate)
        return {(t, body): weight * float(evidence_of(np.ones(1), t)[0]) for t, body, weight in rows}

    def bodies(self, predicate: int, least: float) -> set[tuple[Template, AtomIds]]:
        chains = self.chain_bodies(predicate, least)
        said = self._chains(predicate)
        return chains | self.constant_bodies(predicate, least, {chain: said[chain] for chain in chains})

    def chain_bodies(self, predicate: int, least: float) -> set[tuple[Template, AtomIds]]:
        """Only the strongest rules, because counting the groundings of a long chain in a large KB takes long."""
        chains = self._chains(predicate)
        most = int(np.clip(LISTED_IN_ALL // self.num_predicates, *LISTED_CHAINS))
        strongest = sorted(chains, key=lambda chain: (-chains[chain], chain))[:most]
        return {chain for chain in strongest if chains[chain] >= least}

    def constant_bodies(
        self, predicate: int, least: float, chains: Mapping[tuple[Template, AtomIds], float]
    ) -> set[tuple[Template, AtomIds]]:
        """Rules with constants that tell more than these chains, which are given with their evidence."""
        if self.constants is None or not self.table.constants[predicate]:
            return set()
        edges, weight = self.constants.edges, float(self.table.constants[predicate])
        reasons = [(said / weight, chain) for chain, said in chains.items() if self._is_reason(predicate, *chain)]

        def explained(facts: FactIds) -> Float[np.ndarray, " fact"]:
            strength, walks = np.zeros(len(facts)), PairWalks(edges, facts)
            for said, (template, body) in sorted(reasons, reverse=True)[:EXPLAINING]:
                if walks.num_walks(body) <= MAX_WALKS:
                    proved = np.unique(walks.paths(template, body).pair)
                    strength[proved] = np.maximum(strength[proved], said)
            return strength

        best = self.constants.best_bodies(predicate, LISTED_CONSTANTS, explained)
        return {(SIDES[body[0]], body) for body in best if self.evidence(predicate, SIDES[body[0]], body) >= least}

    def _is_reason(self, predicate: int, template: Template, body: AtomIds) -> bool:
        """Not a chain that only finds similar cases: it walks along facts of the predicate that it concludes."""
        similar = template.length > 1 and predicate in {atom % self.num_predicates for atom in body}
        return not template.unary and template.length <= LONG and not similar


def _stations(edges: EdgeList, start: int, path: AtomIds, end: int) -> tuple[int, ...]:
    """The entities along a body about `start`; the first choice where there are several."""
    if len(path) > 1:
        return start, middle(edges, start, path, end), end
    return start, int(edges.neighbours(start, path[0])[0]) if end == ANY else end


def _together(template: Template, ways: list[tuple[Paths, Float[np.ndarray, " path"]]], num_facts: int) -> WeighedPaths:
    """The groundings of all rules of one template, by fact."""
    length = template.length
    none = np.zeros(0, dtype=np.int64)
    ways = [*ways, (Paths(none, none.reshape(0, length), none.reshape(0, length + 1)), np.zeros(0))]
    paths = Paths(*(np.concatenate(column) for column in zip(*(one for one, _ in ways), strict=True)))
    order = np.argsort(paths.pair, kind="stable")
    one = np.ones((len(order), 1))  # a rule attends to its own atoms and to nothing else
    return WeighedPaths(
        template,
        paths.pair[order],
        paths.atoms[order],
        paths.stations[order],
        np.concatenate([shares for _, shares in ways])[order],
        [one] * length,
        np.ones((num_facts, 1)),
        num_facts,
    )
