"""Answers of the soft prover on a KB too large for tables: each entity is taken only for those nearest to it."""

import math

import numpy as np
from jaxtyping import Float

from ctp_core.ctp_facts.answers import Candidate, SoftAnswers
from ctp_core.ctp_facts.entities import NO_FACT, Floats, Ids, SoftFacts
from ctp_core.ctp_facts.neighbours import Neighbours, SoftEdges
from ctp_core.ctp_facts.pairs import Chain
from ctp_core.ctp_facts.reach import Asked, Atoms, SoftReach
from ctp_core.ctp_facts.theory import SoftTheory

SAME_FACTS = 4  # paths looked at for each proof wanted: several may pass the same facts by other entities


def soft_edges(theory: SoftTheory, facts: SoftFacts, num_entities: int) -> SoftEdges:
    """By the vectors and the nearest entities that the theory holds; entities without a vector meet themselves."""
    vectors = theory.entities.detach().cpu().numpy()
    neighbours = Neighbours.of(theory.nearest.cpu().numpy(), num_entities)
    squared = np.zeros(len(neighbours.others), dtype=vectors.dtype)
    apart = np.flatnonzero(neighbours.entities != neighbours.others)
    gap = vectors[neighbours.entities[apart]] - vectors[neighbours.others[apart]]
    squared[apart] = (gap**2).sum(1)
    return SoftEdges(facts.facts, neighbours, squared, theory.config.unification)


class NearestProver(SoftAnswers):
    """A score is that of the best proof among those that take entities for near ones: never above the exact score."""

    def __init__(self, theory: SoftTheory, facts: SoftFacts, num_entities: int) -> None:
        super().__init__(theory, facts)
        self._vectors = self.theory.entities.cpu().numpy()
        edges = soft_edges(self.theory, facts, num_entities)
        self._reach = SoftReach(edges, self._times, theory.config.unification)

    def objects(self, predicates: Ids, subjects: Ids) -> Float[np.ndarray, "question entity"]:
        return self._rows(predicates, subjects, backwards=False)

    def subjects(self, predicates: Ids, objects: Ids) -> Float[np.ndarray, "question entity"]:
        return self._rows(predicates, objects, backwards=True)

    def _rows(self, predicates: Ids, starts: Ids, *, backwards: bool) -> Floats:
        best = np.full((len(starts), self._reach.edges.size), np.inf)
        asked = Asked(starts, np.full(len(starts), NO_FACT))
        for chains in self._chains:
            for number in range(chains.width):
                atoms = Atoms(chains.costs[predicates, number], chains.plan.flips)
                paths = self._reach.arrive(atoms.reversed if backwards else atoms, asked)
                distance = paths.distance
                if chains.guards is not None:
                    guards = chains.guards.cpu().numpy()[predicates[paths.question], number]
                    distance = self._times(distance, guards)
                place = (paths.question, paths.end)
                best[place] = np.minimum(best[place], distance)
        return np.asarray(np.exp(-self._slope * best))

    def _candidates(self, chain: Chain, goal: list[int], wanted: int) -> list[Candidate]:
        atoms = Atoms(chain.costs[None], chain.chains.plan.flips)
        asked = Asked(np.array(goal[:1]), np.array([NO_FACT]))
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
