"""The mined rules of one predicate, evaluated together: a few operations for all of them instead of some for each.

    h(c) = c / (1 + c) for chains of one or two atoms, 1 for longer ones, log(1 + c) for rules about one entity

c is the number of groundings of the rule. log, because how often something is said of an entity keeps counting; 1,
because the many paths of a long chain go through the same few facts.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ctp_core.base.edges import EdgeList, Paths
from ctp_core.evidence.body_tree import AtomIds, BodyTree, Ids, Joined, JoinedBodies, turned
from ctp_core.evidence.proofs import WeighedPaths, own_paths
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import Template

LONG = 3  # body atoms
MAX_CELLS = 1e6  # numbers of groundings, by fact and rule, at a time: 8 MB


def evidence_of(counts: NDArray[Any], template: Template) -> Float[np.ndarray, "..."]:
    """h(c): how much evidence c groundings of a rule are; in [0, 1], or log(1 + c) for rules about one entity."""
    if template.unary:
        return np.asarray(np.log1p(counts), dtype=np.float64)
    return np.asarray(counts / (1.0 + counts) if template.length < LONG else counts > 0, dtype=np.float64)


class MinedRule(NamedTuple):
    template: Template
    body: AtomIds
    weight: float


class PredicateRules:
    """The rules of one predicate, sorted into chains, chains that use the predicate itself, and unary rules (priors).

    The tables that answer one kind of question are built when such a question is first asked.
    """

    def __init__(self, predicate: int, rules: Sequence[MinedRule], num_predicates: int) -> None:
        self.all = rules
        chains = [rule for rule in rules if not rule.template.unary]
        self.chains = Chains(chains, num_predicates)
        # The rules by which a fact might prove itself.
        own = [rule for rule in chains if any(atom % num_predicates == predicate for atom in rule.body)]
        self.own = Chains(own, num_predicates)
        self.priors = Priors(predicate, [rule for rule in rules if rule.template.unary], num_predicates)
        self._predicate, self._num_predicates = predicate, num_predicates

    @cached_property
    def evidence(self) -> dict[tuple[Template, AtomIds], float]:
        """What a single proof by each rule adds to the logit."""
        return {(t, body): weight * float(evidence_of(np.ones(1), t)[0]) for t, body, weight in self.all}

    def reach(self, edges: EdgeList, start: int, known: Ids, *, forward: bool) -> Float[np.ndarray, " entity"]:
        """What the chains say of all objects of a subject or, unless `forward`, of all subjects of an object.

        No answer of the `known` ones, which are stated, is proved by itself.
        """
        total, is_known = np.zeros(edges.num_entities), np.zeros(edges.num_entities, dtype=bool)
        is_known[known] = True
        outward = self._outward if forward else self._inward
        for length, nodes, paths in outward.tree.counts(edges, start):
            row = np.repeat(nodes, np.diff(paths.indptr))
            said = outward.weights[length][row] * evidence_of(paths.data.astype(np.float64), Template(length))
            said[outward.own[length][row] & is_known[paths.indices]] = 0
            total += np.bincount(paths.indices, said, edges.num_entities)
        total[known] += self.own.totals(edges, facts_between(start, self._predicate, known, forward=forward))
        return total

    @cached_property
    def _outward(self) -> "_Outward":
        return self._towards([rule.body for rule in self.chains.rules])

    @cached_property
    def _inward(self) -> "_Outward":
        return self._towards([turned(rule.body, self._num_predicates) for rule in self.chains.rules])

    def _towards(self, bodies: Sequence[AtomIds]) -> "_Outward":
        tree, lengths = BodyTree(bodies), self.chains.joined.lengths
        own = np.array([any(a % self._num_predicates == self._predicate for a in body) for body in bodies], dtype=float)
        sizes = [1, *(len(level.atom) for level in tree.levels)]

        def by_node(values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
            of = (lengths == length for length in range(len(sizes)))
            parts = zip(of, sizes, strict=True)
            return [np.bincount(tree.ends[mine], values[mine], size).astype(np.float64) for mine, size in parts]

        return _Outward(tree, by_node(self.chains.weights), [found > 0 for found in by_node(own)])


class _Outward(NamedTuple):
    """All bodies from the given entity to the answers; for each length, by the node at which a body ends, the weight
    of its rules and whether they may use the very fact they should prove."""

    tree: BodyTree
    weights: list[NDArray[np.float64]]
    own: list[NDArray[np.bool_]]


class Chains:
    """Rules whose bodies are paths from subject to object."""

    def __init__(self, rules: Sequence[MinedRule], num_predicates: int) -> None:
        self.rules = rules
        self.weights = np.array([rule.weight for rule in rules])
        self.joined = JoinedBodies([rule.body for rule in rules], num_predicates)
        longest = int(self.joined.lengths.max(initial=0))
        self._bodies = np.array([(*rule.body, *[-1] * (longest - len(rule.body))) for rule in rules], dtype=np.int64)

    def totals(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What they add to the logits, by counts alone: the proofs of all facts of a hub would fill the memory."""
        totals = np.zeros(len(facts))
        if not self.rules:
            return totals
        each = max(1, int(MAX_CELLS // len(self.rules)))
        for start in range(0, len(facts), each):
            some = facts[start : start + each]
            counts = self._counts(edges, some)
            for length in np.unique(self.joined.lengths).tolist():
                mine = self.joined.lengths == length
                evidence = evidence_of(counts[:, mine], Template(length))
                totals[start : start + each] += evidence @ self.weights[mine]
        return totals

    def strongest(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The largest weight of a rule that proves each fact; 0 where none does."""
        found = np.zeros(len(facts))
        for paths in self._paths(edges, facts):
            np.maximum.at(found, paths.pair, self.weights[paths.body])
        return found

    def _counts(self, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, "fact rule"]:
        """Numbers of groundings, none by the fact itself."""
        size, counts = len(self.rules), np.zeros(len(facts) * len(self.rules))
        for found in self._paths(edges, facts):
            counts += np.bincount(found.pair * size + found.body, minlength=len(counts))
        return counts.reshape(len(facts), size)

    def _paths(self, edges: EdgeList, facts: FactIds) -> Iterator[Joined]:
        """All groundings for these facts, none by the fact itself."""
        for found in self.joined.paths(edges, facts[:, 0], facts[:, 2]):
            kept = np.ones(len(found.pair), dtype=bool)
            kept[own_paths(edges, facts, Paths(found.pair, self._atoms(found), found.stations))] = False
            yield Joined(*(column[kept] for column in found))

    def _atoms(self, found: Joined) -> Int[np.ndarray, "path place"]:
        return self._bodies[found.body, : found.stations.shape[1] - 1]

    def weigh(self, edges: EdgeList, facts: FactIds) -> list[WeighedPaths]:
        """All proofs, of each length."""
        parts = groupby(self._paths(edges, facts), lambda found: found.stations.shape[1] - 1)
        return [self._weighed(Template(length), list(found), len(facts)) for length, found in parts]

    def _weighed(self, template: Template, parts: Sequence[Joined], num_facts: int) -> WeighedPaths:
        found = Joined(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        cells = found.pair * len(self.rules) + found.body
        order = np.argsort(cells, kind="stable")
        found, cells = Joined(*(column[order] for column in found)), cells[order]
        counts = np.bincount(cells)[cells]
        shares = self.weights[found.body] * evidence_of(counts, template) / counts
        one = np.ones((len(order), 1))  # a rule attends to its own atoms and to nothing else
        paths = (found.pair, self._atoms(found), found.stations)
        return WeighedPaths(template, *paths, shares, [one] * template.length, np.ones((num_facts, 1)), num_facts)


class Priors:
    """Rules about one entity alone: how common it is."""

    def __init__(self, predicate: int, rules: Sequence[MinedRule], num_predicates: int) -> None:
        self._predicate, self._inverse = predicate, predicate + num_predicates
        self._of = {side: [rule for rule in rules if rule.template.about_subject == side] for side in (True, False)}

    def reach(self, edges: EdgeList, start: int, *, forward: bool) -> Float[np.ndarray, " entity"]:
        """What they add for all answers, known facts included."""
        total = np.zeros(edges.num_entities)
        for template, (atom,), weight in self._of[not forward]:
            entities, counts = edges.steps.degrees(atom)
            total[entities] += weight * evidence_of(np.arange(counts.max(initial=0) + 1), template)[counts]
        return np.asarray(total + self._said(edges, np.array([start]), forward).sum())

    def _said(self, edges: EdgeList, about: Ids, side: bool, own: Any = 0) -> Float[np.ndarray, "entity rule"]:
        rules = self._of[side]
        atoms = np.array([rule.body[0] for rule in rules], dtype=np.int64)
        counts = edges.steps.lengths[edges.steps.find(atoms, about[:, None])] - own
        return np.asarray(np.log1p(counts) * np.array([rule.weight for rule in rules]))

    def of(self, edges: EdgeList, facts: FactIds, known: NDArray[np.bool_]) -> Float[np.ndarray, " fact"]:
        """What they add for facts; a fact that is known does not count for itself."""
        total, loops = np.zeros(len(facts)), (facts[:, 0] == facts[:, 2])[:, None]
        for side, place in ((True, 0), (False, 2)):
            atoms = np.array([rule.body[0] for rule in self._of[side]], dtype=np.int64)
            away, back = (self._predicate, self._inverse) if side else (self._inverse, self._predicate)
            own = known[:, None] & ((atoms == away) | (loops & (atoms == back)))  # a loop states it in both directions
            total += self._said(edges, facts[:, place], side, own).sum(1)
        return total


def facts_between(start: int, predicate: int, answers: Ids, *, forward: bool) -> FactIds:
    """The facts of a subject or, unless `forward`, of an object."""
    facts = np.full((len(answers), 3), [start, predicate, start])
    facts[:, 2 if forward else 0] = answers
    return facts
