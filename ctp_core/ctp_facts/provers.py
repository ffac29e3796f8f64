"""The soft prover as it answers: scores of open places, proof trees and decoded rules.

`TableProver` is exact, by tables of all pairs of entities. `NearestProver` is for KBs too large for such tables: an
entity may stand in only for those nearest to it.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.base.deadline import Expired, look, never
from ctp_core.base.facts_model import FactsView
from ctp_core.base.progress import OnPart, unheard
from ctp_core.base.rule_counts import with_counts
from ctp_core.ctp_facts.entities import JOINS, NO_FACT, Floats, Ids, SoftFacts, SoftSearch
from ctp_core.ctp_facts.neighbours import soft_edges
from ctp_core.ctp_facts.pairs import Chain, ChainPairs
from ctp_core.ctp_facts.plans import FACT
from ctp_core.ctp_facts.proofs import TreeWriter, rules_in
from ctp_core.ctp_facts.reach import ChainCosts, SoftReach, Starts
from ctp_core.ctp_facts.tables import SoftTables
from ctp_core.ctp_facts.theory import SoftTheory
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.proofs import Proof
from ctp_core.rules import Rule, Step, by_what_they_explain, each_once
from ctp_core.symbols import Fact

Candidate = tuple[float, tuple[int, ...], tuple[int, ...]]  # distance, facts, stations
SAME_FACTS = 4  # paths searched for each proof wanted: several may use the same facts by way of other entities


class SoftProver(ABC):
    """Answers from the facts of a KB, or of a KB and a question. An entity without a vector unifies only with itself.

    Computes in double precision, so that a score equals the score of its proof. Raises OutOfTime once `expired`.
    """

    def __init__(self, theory: SoftTheory, facts: SoftFacts, expired: Expired = never) -> None:
        self.expired = expired
        self.theory, self.facts = copy.deepcopy(theory).double().requires_grad_(False), facts
        self._slope, self._times = theory.config.slope, theory.distance_times.arrays
        self._join = JOINS[theory.config.unification]
        self._chains = self.theory.chains(torch.arange(len(theory.predicates), device=theory.predicates.device))
        self._writer = TreeWriter(self.theory)

    @abstractmethod
    def objects(self, predicates: Ids, subjects: Ids) -> Float[np.ndarray, "question entity"]:
        """Scores of every entity as the object."""

    @abstractmethod
    def subjects(self, predicates: Ids, objects: Ids) -> Float[np.ndarray, "question entity"]:
        """Scores of every entity as the subject."""

    @abstractmethod
    def _candidates(self, chain: Chain, goal: list[int], wanted: int) -> list[Candidate]:
        """The best choices of facts for one chain, at most `wanted`."""

    @abstractmethod
    def _gap(self, one: int, other: int) -> float:
        """Squared distance between two entities."""

    def _of(self, predicate: int) -> Iterator[Chain]:
        return (Chain(chains, predicate, number) for chains in self._chains for number in range(chains.width))

    def proofs(self, view: FactsView, goal: list[int], num_proofs: int) -> tuple[Proof, ...]:
        """The best proofs, distinct by rules and facts; among equal scores, fewer facts come first, then by text."""
        best: dict[tuple[str, tuple[Fact, ...]], Proof] = {}
        for chain in self._of(goal[1]):
            look(self.expired)
            for _, facts, stations in self._candidates(chain, goal, num_proofs):
                scores = self._leaf_scores(chain, facts, stations)
                tree = self._writer.tree(view, chain, stations, [self.facts.facts[f] for f in facts], scores)
                proof = Proof(tree)
                key = (rules_in(tree), proof.facts)
                if key not in best or best[key].score < proof.score:
                    best[key] = proof
        order = sorted(best.values(), key=lambda proof: (-proof.score, len(proof.facts), proof.text))
        return tuple(order[:num_proofs])

    def _leaf_scores(self, chain: Chain, facts: tuple[int, ...], stations: tuple[int, ...]) -> list[float]:
        found = []
        for place, (flip, fact) in enumerate(zip(chain.chains.plan.flips, facts, strict=True)):
            ends = stations[place : place + 2]
            subject, object_ = ends[::-1] if flip else ends
            stated = self.facts.facts[fact].tolist()
            met = self._join(self._gap(subject, stated[0]), self._gap(object_, stated[2]))
            found.append(math.exp(-self._slope * math.sqrt(self._join(chain.costs[place, stated[1]], met))))
        return found

    def rules(self, kb: FactsKB, on_part: OnPart = unheard) -> list[Rule]:
        """One rule for each predicate and reformulator, each text once, without rules of the form p(X,Y) :- p(X,Y)."""
        found = []
        for chains in self._chains:
            if chains.plan != FACT and all(part == FACT for part in chains.plan.parts):
                for predicate, number in product(range(len(kb.predicates)), range(chains.width)):
                    found.append(self._writer.rule(kb.predicates.names, Chain(chains, predicate, number)))
        counted = with_counts(each_once(rule for rule in found if not _trivial(rule)), kb, on_part)
        return by_what_they_explain(counted)


def _trivial(rule: Rule) -> bool:
    return rule.body.steps == (Step(rule.predicate),)


class TableProver(SoftProver):
    """Exact: tries every fact and every entity in the middle of a path."""

    def __init__(self, theory: SoftTheory, facts: SoftFacts, num_entities: int, expired: Expired = never) -> None:
        super().__init__(theory, facts, expired)
        squared = _extended(self.theory.entity_squared().cpu().numpy(), num_entities)
        self._search = SoftSearch(facts, squared, theory.config.unification)
        self._pairs = SoftTables(facts, squared, theory.config.unification, expired)
        self._tables: dict[int, Floats] = {}

    def objects(self, predicates: Ids, subjects: Ids) -> Float[np.ndarray, "question entity"]:
        rows = zip(predicates.tolist(), subjects.tolist(), strict=True)
        return np.stack([self.table(predicate)[subject] for predicate, subject in rows])

    def subjects(self, predicates: Ids, objects: Ids) -> Float[np.ndarray, "question entity"]:
        rows = zip(predicates.tolist(), objects.tolist(), strict=True)
        return np.stack([self.table(predicate)[:, object_] for predicate, object_ in rows])

    def _gap(self, one: int, other: int) -> float:
        return float(self._search.squared[one, other])

    def table(self, predicate: int) -> Float[np.ndarray, "entity entity"]:
        """Scores of all pairs, computed on the first question about a predicate."""
        if predicate not in self._tables:
            best = np.full(self._search.squared.shape, np.inf)
            for chain in self._of(predicate):
                if chain.guard is not None and chain.guard >= best.max():
                    continue  # a rule with so distant a head cannot improve any pair
                np.minimum(best, ChainPairs(self._pairs, chain, self._times).distances, out=best)
            self._tables[predicate] = np.exp(-self._slope * best)
        return self._tables[predicate]

    # Proofs

    def _candidates(self, chain: Chain, goal: list[int], wanted: int) -> list[Candidate]:
        """Tries paths in the order of their distance, until no further one can be among the `wanted` best."""
        found: dict[tuple[int, ...], Candidate] = {}
        for bound, stations in self._paths(chain, (goal[0], goal[2])):
            look(self.expired)
            known = sorted(distance for distance, _, _ in found.values())
            if bound == math.inf or (len(known) >= wanted and bound >= known[wanted - 1]):
                break
            for distance, facts in self._choices(chain, stations, wanted):
                if facts not in found or distance < found[facts][0]:
                    found[facts] = (distance, facts, stations)
        return sorted(found.values())[:wanted]

    def _paths(self, chain: Chain, ends: tuple[int, int]) -> Iterator[tuple[float, tuple[int, ...]]]:
        """(distance, stations), best first: the best path through each possible second station."""
        left, right = ends
        flips = chain.chains.plan.flips
        if len(flips) == 1:
            ends = (right, left) if flips[0] else ends
            yield float(self._fact_distances(chain.costs[0], *ends).min()), (left, right)
            return
        first, *middle, last = self._steps(chain, left, right)
        onward, pointers = last, []  # the distance from each entity to the end
        for table in reversed(middle):
            steps = self._times(table, onward[None, :])
            pointers.append(steps.argmin(1))
            onward = steps.min(1)
        total = self._times(first, onward)
        for station in np.argsort(total, kind="stable").tolist():
            path = [left, station]
            for pointer in reversed(pointers):
                path.append(int(pointer[path[-1]]))
            yield float(total[station]), (*path, right)

    def _steps(self, chain: Chain, left: int, right: int) -> list[Floats]:
        """Distances at each place: from the left end, between all pairs in the middle, to the right end."""
        flips, costs, no_own = chain.chains.plan.flips, chain.costs, np.array([NO_FACT])
        first = self._search.row(costs[:1], np.array([left]), no_own, open_subject=flips[0])[0]
        last = self._search.row(costs[-1:], np.array([right]), no_own, open_subject=not flips[-1])[0]
        tables = np.sqrt(self._pairs.atoms(costs[1:-1])) if len(flips) > 2 else ()
        return [first, *(t.T if flip else t for t, flip in zip(tables, flips[1:-1], strict=True)), last]

    def _choices(self, chain: Chain, stations: tuple[int, ...], wanted: int) -> list[tuple[float, tuple[int, ...]]]:
        """The `wanted` best combinations of one fact at every place of a path."""
        combined: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]  # distance 0 is ⊗'s one
        for place in range(len(chain.costs)):
            distances = self._place_distances(chain, stations, place)
            nearest = [f for f in np.argsort(distances, kind="stable")[:wanted].tolist() if distances[f] < math.inf]
            longer = [
                (float(self._times(np.asarray(so_far), distances[fact])), (*facts, fact))
                for so_far, facts in combined
                for fact in nearest
            ]
            # ⊗ never lowers a distance: what is not among the best now cannot be among them later.
            combined = sorted(longer)[:wanted]
        return combined

    def _place_distances(self, chain: Chain, stations: tuple[int, ...], place: int) -> Floats:
        ends = stations[place : place + 2]
        subject, object_ = ends[::-1] if chain.chains.plan.flips[place] else ends
        return self._fact_distances(chain.costs[place], subject, object_)

    def _fact_distances(self, costs: Floats, subject: int, object_: int) -> Floats:
        met = self._search.entities(np.array([subject]), np.array([object_]), np.array([NO_FACT]))
        return np.asarray(np.sqrt(self._search.pair(costs[None], met)[:, 0]))


def _extended(squared: Floats, num_entities: int) -> Floats:
    """Adds entities without a vector, which unify only with themselves."""
    known = len(squared)
    extended = np.full((num_entities, num_entities), np.inf)
    extended[:known, :known] = squared
    np.fill_diagonal(extended, 0)
    return extended


class NearestProver(SoftProver):
    """Tries only proofs in which near entities stand in for each other; a score is never above the exact one."""

    def __init__(self, theory: SoftTheory, facts: SoftFacts, num_entities: int, expired: Expired = never) -> None:
        super().__init__(theory, facts, expired)
        self._vectors = self.theory.entities.cpu().numpy()
        edges = soft_edges(self.theory, facts, num_entities)
        self._reach = SoftReach(edges, self._times, theory.config.unification)

    def objects(self, predicates: Ids, subjects: Ids) -> Float[np.ndarray, "question entity"]:
        return self._rows(predicates, subjects, backwards=False)

    def subjects(self, predicates: Ids, objects: Ids) -> Float[np.ndarray, "question entity"]:
        return self._rows(predicates, objects, backwards=True)

    def _rows(self, predicates: Ids, starts: Ids, *, backwards: bool) -> Floats:
        best = np.full((len(starts), self._reach.edges.size), np.inf)
        asked = Starts(starts, np.full(len(starts), NO_FACT))
        for chains in self._chains:
            for number in range(chains.width):
                look(self.expired)
                atoms = ChainCosts(chains.costs[predicates, number], chains.plan.flips)
                paths = self._reach.arrive(atoms.reversed if backwards else atoms, asked)
                distance = paths.distance
                if chains.guards is not None:
                    guards = chains.guards.cpu().numpy()[predicates[paths.question], number]
                    distance = self._times(distance, guards)
                place = (paths.question, paths.end)
                best[place] = np.minimum(best[place], distance)
        return np.asarray(np.exp(-self._slope * best))

    def _candidates(self, chain: Chain, goal: list[int], wanted: int) -> list[Candidate]:
        atoms = ChainCosts(chain.costs[None], chain.chains.plan.flips)
        asked = Starts(np.array(goal[:1]), np.array([NO_FACT]))
        paths = self._reach.meet(atoms, asked, np.array(goal[2:]), keep=SAME_FACTS * wanted)
        found: dict[tuple[int, ...], Candidate] = {}
        for distance, facts, stations in zip(
            paths.distance.tolist(), paths.facts.tolist(), paths.stations.tolist(), strict=True
        ):
            found.setdefault(tuple(facts), (distance, tuple(facts), tuple(stations)))
        return list(found.values())[:wanted]

    def _gap(self, one: int, other: int) -> float:
        if one == other:
            return 0.0
        if max(one, other) >= len(self._vectors):
            return math.inf
        return float(((self._vectors[one] - self._vectors[other]) ** 2).sum())
