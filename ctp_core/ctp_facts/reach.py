"""Paths over soft edges: which entities a chain of atoms reaches from an entity, and the best paths to them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ctp_core.ctp_facts.entities import JOINS, Floats, Ids, Join
from ctp_core.ctp_facts.neighbours import SoftEdges

EXPANDED = 1_000_000  # edges followed at once; bounds memory


@dataclass(frozen=True)
class Starts:
    """The entity where the paths of each question start, and the fact that the question may not use, or -1."""

    entity: Int[np.ndarray, " question"]
    own: Int[np.ndarray, " question"]


@dataclass(frozen=True)
class SoftPaths:
    """Paths from the start of a question along facts."""

    question: Int[np.ndarray, " path"]
    distance: Float[np.ndarray, " path"]
    stations: Int[np.ndarray, "path place+1"]
    facts: Int[np.ndarray, "path place"]

    @property
    def end(self) -> Int[np.ndarray, " path"]:
        return np.asarray(self.stations[:, -1])

    def __len__(self) -> int:
        return len(self.question)

    def at(self, chosen: Ids) -> "SoftPaths":
        return SoftPaths(self.question[chosen], self.distance[chosen], self.stations[chosen], self.facts[chosen])

    @classmethod
    def joined(cls, parts: Sequence["SoftPaths"]) -> "SoftPaths":
        return cls(
            *(
                np.concatenate([getattr(p, name) for p in parts])
                for name in ("question", "distance", "stations", "facts")
            )
        )


@dataclass(frozen=True)
class ChainCosts:
    """One chain per question: squared distances of its atoms to all predicates, and which point against the path."""

    costs: Float[np.ndarray, "question place known"]
    flips: tuple[bool, ...]

    @property
    def reversed(self) -> "ChainCosts":
        """The same chain, read from object to subject."""
        return ChainCosts(self.costs[:, ::-1], tuple(not flip for flip in reversed(self.flips)))


class SoftReach:
    """Searches paths over soft edges. ⊗ never lowers a distance, so the best paths to a station suffice to go on."""

    def __init__(self, edges: SoftEdges, times: Join, unification: str) -> None:
        self.edges, self.times, self.join = edges, times, JOINS[unification]

    def arrive(self, chain: ChainCosts, starts: Starts, keep: int = 1) -> SoftPaths:
        """The `keep` best paths of each question to every entity it reaches."""
        paths = _started(starts, chain.costs.dtype)
        for place, flip in enumerate(chain.flips):
            paths = self._onward(paths, chain.costs[:, place], flip, starts, keep)
        return paths

    def meet(self, chain: ChainCosts, starts: Starts, ends: Ids, keep: int = 1) -> SoftPaths:
        """The `keep` best paths of each question to its given end."""
        paths = self.arrive(ChainCosts(chain.costs[:, :-1], chain.flips[:-1]), starts, keep)
        index, edge = self.edges.between(paths.end, ends[paths.question], chain.flips[-1])
        found = self._along(paths, index, edge, chain.costs[:, -1], chain.flips[-1], starts)
        return _best(found, self.edges.size, keep)

    def _onward(self, paths: SoftPaths, costs: Floats, flip: bool, starts: Starts, keep: int) -> SoftPaths:
        total = np.cumsum(self.edges.degrees(paths.end, flip))
        cuts = np.unique(np.searchsorted(total, np.arange(EXPANDED, int(total[-1]) if len(total) else 0, EXPANDED)))
        parts = []
        for some in np.split(np.arange(len(paths)), cuts):
            here = paths.at(some)
            index, edge = self.edges.leaving(here.end, flip)
            parts.append(_best(self._along(here, index, edge, costs, flip, starts), self.edges.size, keep))
        return parts[0] if len(parts) == 1 else _best(SoftPaths.joined(parts), self.edges.size, keep)

    def _along(self, paths: SoftPaths, index: Ids, edge: Ids, costs: Floats, flip: bool, starts: Starts) -> SoftPaths:
        """Extends path index[i] by edge[i]; drops edges of the fact that the question may not use."""
        allowed = self.edges.fact[edge] != starts.own[paths.question[index]]
        index, edge = index[allowed], edge[allowed]
        fact, question = self.edges.fact[edge], paths.question[index]
        step = np.sqrt(self.join(costs[question, self.edges.predicate[fact]], self.edges.squared[edge]))
        end = (self.edges.subject if flip else self.edges.object)[edge]
        return SoftPaths(
            question,
            self.times(paths.distance[index], step),
            np.column_stack([paths.stations[index], end]),
            np.column_stack([paths.facts[index], fact]),
        )


def _started(starts: Starts, dtype: np.dtype[np.floating]) -> SoftPaths:
    size = len(starts.entity)
    nothing = np.zeros(size, dtype=dtype)  # distance 0 is ⊗'s one
    return SoftPaths(np.arange(size), nothing, starts.entity[:, None], np.empty((size, 0), dtype=np.int64))


def _best(paths: SoftPaths, num_entities: int, keep: int) -> SoftPaths:
    """Keeps the `keep` nearest paths of each question to each end, sorted by question and end."""
    key = paths.question * num_entities + paths.end
    order = np.lexsort((paths.distance, key))
    key = key[order]
    new = np.diff(key, prepend=-1) != 0
    starts = np.flatnonzero(new)
    place = np.arange(len(key)) - starts[np.cumsum(new) - 1] if len(key) else key
    return paths.at(order[place < keep])
