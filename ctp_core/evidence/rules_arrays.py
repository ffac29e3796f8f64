"""Weighted rules on edge lists: evidence that adds up where no table of all pairs fits.

    logit(p, s, o) = b_p + Σ_rules w · h(c)

c is the number of groundings of the rule, and h(c) how much evidence they are, see predicate_rules.py.
Rules with constants add the evidence of the strongest of each side, all with one weight.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from ctp_core.base.edges import EdgeList
from ctp_core.evidence.body_tree import AtomIds, turned
from ctp_core.evidence.predicate_rules import LONG, Chains, MinedRule, PredicateRules, evidence_of, facts_between
from ctp_core.evidence.proofs import WeighedPaths
from ctp_core.evidence.rules_chains import ChainRows, num_walks
from ctp_core.evidence.rules_constants import ConstantRules
from ctp_core.evidence.rules_features import ANY, atoms_of, middle
from ctp_core.evidence.rules_listed import best_bodies
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import SIDES, UNARY, Template

TEMPLATES = (Template(1), *UNARY, Template(2), Template(3), Template(4), Template(5))
PADDING = -1
LISTED_CHAINS = (20, 100)  # rules without constants that a predicate lists: at least, and at most
LISTED_IN_ALL = 5000  # such rules in all, shared equally among the predicates within these bounds
LISTED_CONSTANTS = 20  # rules with constants that a predicate lists
EXPLAINING = 10  # chains that may make such a rule superfluous
FEW = 8  # questions about one predicate: for more, all its rules with constants are counted at once
MAX_CHAIN_WALKS = 1e6  # along one of these chains; one that takes more, through hubs, is not heard


@dataclass(frozen=True)
class RuleTable:
    """One row per rule: head predicate, index of its template, body padded to the longest, weight."""

    head: Int[np.ndarray, " rule"]
    template: Int[np.ndarray, " rule"]
    body: Int[np.ndarray, "rule place"]
    weight: Float[np.ndarray, " rule"]
    bias: Float[np.ndarray, " predicate"]
    constants: Float[np.ndarray, " predicate"]  # the weight of rules with constants

    def of(self, predicate: int) -> list[MinedRule]:
        rows = np.flatnonzero(self.head == predicate).tolist()
        return [MinedRule(TEMPLATES[self.template[row]], self.body_of(row), float(self.weight[row])) for row in rows]

    def body_of(self, row: int) -> AtomIds:
        return tuple(atom for atom in self.body[row].tolist() if atom != PADDING)


class RuleArrays:
    """Scores and proofs by a table of rules; implements `Arrays` of evidence/model.py."""

    def __init__(self, table: RuleTable, constants: ConstantRules | None) -> None:
        """`constants` are the rules with constants of the training KB; None on another KB, which has other entities."""
        self.table = table
        self.num_predicates = len(table.bias)
        self.constants = constants if table.constants.any() else None
        self._rules: dict[int, PredicateRules] = {}  # a few kilobytes for each predicate that was asked for

    def rules_of(self, predicate: int) -> PredicateRules:
        if predicate not in self._rules:
            self._rules[predicate] = PredicateRules(predicate, self.table.of(predicate), self.num_predicates)
        return self._rules[predicate]

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
        for template, body, weight in self.rules_of(predicate).all:
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
        """One question: all rules at once, and no fact proves itself."""
        rules = self.rules_of(predicate)
        known = edges.neighbours(start, predicate if forward else predicate + self.num_predicates)
        facts = facts_between(start, predicate, known, forward=forward)
        total = self.table.bias[predicate] + rules.reach(edges, start, known, forward=forward)
        of_known = total[known] + rules.priors.of(edges, facts, np.ones(len(facts), dtype=bool))
        total += rules.priors.reach(edges, start, forward=forward)
        if self.constants is not None and self.table.constants[predicate]:
            total += self.weighed_constants(edges, predicate, np.array([start]), forward=forward)[0]
            of_known += self._constant_totals(self.constants, edges, facts)
        total[known] = of_known
        return np.asarray(total)

    def totals(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        totals = self.biases(facts) + self.priors(edges, facts)
        for predicate in np.unique(facts[:, 1]).tolist():
            rows = np.flatnonzero(facts[:, 1] == predicate)
            totals[rows] += self.rules_of(predicate).chains.totals(edges, facts[rows])
        if self.constants is not None:
            totals += self._constant_totals(self.constants, edges, facts)
        return np.asarray(totals)

    def _constant_totals(self, rules: ConstantRules, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What the strongest rules with constants add."""
        view, counted = rules.features_in(edges), rules.counted(facts)
        evidence = sum(rules.strongest(view, facts, counted, side).evidence for side in SIDES)
        return np.asarray(self.table.constants[facts[:, 1]] * evidence)

    def priors(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What rules about one entity alone add to the logits."""
        found, known = np.zeros(len(facts)), edges.states(facts)
        for predicate in np.unique(facts[:, 1]).tolist():
            rows = np.flatnonzero(facts[:, 1] == predicate)
            found[rows] = self.rules_of(predicate).priors.of(edges, facts[rows], known[rows])
        return found

    def weigh(self, edges: EdgeList, facts: FactIds, wanted: int | None = None) -> list[WeighedPaths]:
        """Along the bodies of rules: of all paths between two entities few are one, so that all are listed however few
        are `wanted`."""
        del wanted
        found: dict[Template, list[WeighedPaths]] = {}
        for predicate in np.unique(facts[:, 1]).tolist():
            rows = np.flatnonzero(facts[:, 1] == predicate)
            for paths in self.rules_of(predicate).chains.weigh(edges, facts[rows]):
                found.setdefault(paths.template, []).append(replace(paths, fact=rows[paths.fact]))
        weighed = [_together(template, parts, len(facts)) for template, parts in sorted(found.items())]
        if self.constants is not None:
            weighed += [one for side in SIDES for one in self._weigh_constants(self.constants, side, edges, facts)]
        return weighed

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
        return self.rules_of(predicate).evidence.get((template, body), 0.0)

    def bodies(self, predicate: int, least: float) -> set[tuple[Template, AtomIds]]:
        chains = self.chain_bodies(predicate, least)
        said = self.rules_of(predicate).evidence
        return chains | self.constant_bodies(predicate, least, {chain: said[chain] for chain in chains})

    def chain_bodies(self, predicate: int, least: float) -> set[tuple[Template, AtomIds]]:
        """Only the strongest rules, because counting the groundings of a long chain in a large KB takes long."""
        chains = self.rules_of(predicate).evidence
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
            best = sorted(reasons, reverse=True)[:EXPLAINING]
            heard = [(said, body) for said, (_, body) in best if num_walks(edges, facts, body) <= MAX_CHAIN_WALKS]
            rules = [MinedRule(Template(len(body)), body, said) for said, body in heard]
            return Chains(rules, self.num_predicates).strongest(edges, facts)

        best = best_bodies(self.constants, predicate, LISTED_CONSTANTS, explained)
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


def _together(template: Template, parts: Sequence[WeighedPaths], num_facts: int) -> WeighedPaths:
    """The groundings of one template for the facts of all predicates, by fact."""
    columns = zip(*((one.fact, one.atoms, one.stations, one.shares, one.factors[0]) for one in parts), strict=True)
    fact, atoms, stations, shares, ones = (np.concatenate(column) for column in columns)
    order = np.argsort(fact, kind="stable")
    rest = ([ones] * template.length, np.ones((num_facts, 1)), num_facts)
    return WeighedPaths(template, fact[order], atoms[order], stations[order], shares[order], *rest)
