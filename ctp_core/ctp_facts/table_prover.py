"""Answers of the soft prover by tables of all pairs of entities: exact."""

import math
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from ctp_core.ctp_facts.answers import Candidate, SoftAnswers
from ctp_core.ctp_facts.entities import NO_FACT, Floats, Ids, SoftFacts, SoftSearch
from ctp_core.ctp_facts.pairs import Chain, ChainPairs
from ctp_core.ctp_facts.tables import SoftTables
from ctp_core.ctp_facts.theory import SoftTheory


class SoftProver(SoftAnswers):
    """Tries every fact and every middle entity."""

    def __init__(self, theory: SoftTheory, facts: SoftFacts, num_entities: int) -> None:
        super().__init__(theory, facts)
        squared = _extended(self.theory.entity_squared().cpu().numpy(), num_entities)
        self._search = SoftSearch(facts, squared, theory.config.unification)
        self._pairs = SoftTables(facts, squared, theory.config.unification)
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
        """Scores of all pairs, computed when a predicate is first asked for."""
        if predicate not in self._tables:
            best = np.full(self._search.squared.shape, np.inf)
            for chain in self._of(predicate):
                if chain.guard is not None and chain.guard >= best.max():
                    continue  # a rule with such a head proves nothing better
                np.minimum(best, ChainPairs(self._pairs, chain, self._times).distances, out=best)
            self._tables[predicate] = np.exp(-self._slope * best)
        return self._tables[predicate]

    # Proofs

    def _candidates(self, chain: Chain, goal: list[int], wanted: int) -> list[Candidate]:
        """The `wanted` best choices of facts: stations in the order of their distance, until none can be better."""
        found: dict[tuple[int, ...], Candidate] = {}
        for bound, stations in self._paths(chain, (goal[0], goal[2])):
            known = sorted(distance for distance, _, _ in found.values())
            if bound == math.inf or (len(known) >= wanted and bound >= known[wanted - 1]):
                break
            for distance, facts in self._choices(chain, stations, wanted):
                if facts not in found or distance < found[facts][0]:
                    found[facts] = (distance, facts, stations)
        return sorted(found.values())[:wanted]

    def _paths(self, chain: Chain, ends: tuple[int, int]) -> Iterator[tuple[float, tuple[int, ...]]]:
        """(distance, stations), best first: one path for each first middle entity."""
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
        """The row of the left end, tables for the places between, the column of the right end."""
        flips, costs, no_own = chain.chains.plan.flips, chain.costs, np.array([NO_FACT])
        first = self._search.row(costs[:1], np.array([left]), no_own, open_subject=flips[0])[0]
        last = self._search.row(costs[-1:], np.array([right]), no_own, open_subject=not flips[-1])[0]
        tables = np.sqrt(self._pairs.atoms(costs[1:-1])) if len(flips) > 2 else ()
        return [first, *(t.T if flip else t for t, flip in zip(tables, flips[1:-1], strict=True)), last]

    def _choices(self, chain: Chain, stations: tuple[int, ...], wanted: int) -> list[tuple[float, tuple[int, ...]]]:
        """The best facts at every place of a path, combined: at most `wanted`."""
        combined: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]  # distance 0 is ⊗'s one
        for place in range(len(chain.costs)):
            distances = self._place_distances(chain, stations, place)
            nearest = [f for f in np.argsort(distances, kind="stable")[:wanted].tolist() if distances[f] < math.inf]
            longer = [
                (float(self._times(np.asarray(so_far), distances[fact])), (*facts, fact))
                for so_far, facts in combined
                for fact in nearest
            ]
            # ⊗ never brings nearer: what is not among the best so far cannot be among them later.
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
    """With entities that have no vector: they meet only themselves."""
    known = len(squared)
    extended = np.full((num_entities, num_entities), np.inf)
    extended[:known, :known] = squared
    np.fill_diagonal(extended, 0)
    return extended
