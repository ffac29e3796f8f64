"""The bodies of many rules as one tree: what begins alike is walked once, and a step of all bodies is one operation."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.base.edges import EdgeList, slices

AtomIds = tuple[int, ...]
Ids = NDArray[np.int64]
AT_ONCE = 1e6  # steps taken, or paths listed, together: 30 MB


def turned(body: AtomIds, num_predicates: int) -> AtomIds:
    """The body of the same path read from its end to its start."""
    return tuple((atom + num_predicates) % (2 * num_predicates) for atom in reversed(body))


class Level(NamedTuple):
    """The nodes of one depth: each adds one atom to the beginning that its parent, of the level above, stands for."""

    parent: Int[np.ndarray, " node"]  # in rising order
    atom: Int[np.ndarray, " node"]
    bounds: Int[np.ndarray, " parent+1"]  # the children of each parent are a slice


class CountedPaths(NamedTuple):
    """How many paths lead along the beginnings that some nodes of one level stand for: [node, entity]."""

    length: int
    nodes: Int[np.ndarray, " node"]
    paths: sparse.csr_array


class Walks(NamedTuple):
    """Walks along all beginnings of one length, by their start."""

    start: Int[np.ndarray, " walk"]
    node: Int[np.ndarray, " walk"]
    stations: Int[np.ndarray, "walk place+1"]


class BodyTree:
    """A body ends at the node `ends[body]` of the level that is its length; level 0 is the root alone."""

    def __init__(self, bodies: Sequence[AtomIds]) -> None:
        self.levels: list[Level] = []
        self.ends = np.zeros(len(bodies), dtype=np.int64)
        above: dict[AtomIds, int] = {(): 0}
        for length in range(1, max(map(len, bodies), default=0) + 1):
            beginnings = sorted({body[:length] for body in bodies if len(body) >= length})
            parent = np.array([above[beginning[:-1]] for beginning in beginnings])
            bounds = np.searchsorted(parent, np.arange(len(above) + 1))
            self.levels.append(Level(parent, np.array([beginning[-1] for beginning in beginnings]), bounds))
            above = {beginning: node for node, beginning in enumerate(beginnings)}
            for index, body in enumerate(bodies):
                if len(body) == length:
                    self.ends[index] = above[body]

    def counts(self, edges: EdgeList, start: int) -> Iterator[CountedPaths]:
        """The paths from one entity along all beginnings; of one length in a few parts, where they are many."""
        here = sparse.csr_array(([np.float32(1)], [start], [0, 1]), shape=(1, edges.num_entities))
        yield from self._counted(edges, CountedPaths(0, np.zeros(1, dtype=np.int64), here))

    def _counted(self, edges: EdgeList, found: CountedPaths) -> Iterator[CountedPaths]:
        if found.length:
            yield found
        if found.length < len(self.levels):
            bounds = self.levels[found.length].bounds
            rows, children = slices(bounds[found.nodes], bounds[found.nodes + 1])
            yield from self._onward(edges, found, rows, children)

    def _onward(self, edges: EdgeList, found: CountedPaths, rows: Ids, children: Ids) -> Iterator[CountedPaths]:
        """One step further to these children of the nodes in these rows; half of them at a time if they lead to too
        many entities."""
        pointers = found.paths.indptr
        child, entry = slices(pointers[rows], pointers[rows + 1])
        steps = edges.steps.find(self.levels[found.length].atom[children][child], found.paths.indices[entry])
        if len(children) > 1 and edges.steps.lengths[steps].sum() > AT_ONCE:
            half = len(children) // 2
            for part in (slice(half), slice(half, None)):
                yield from self._onward(edges, found, rows[part], children[part])
        elif len(steps):
            bounds = np.searchsorted(child, np.arange(len(children) + 1))
            shape = (len(children), edges.steps.table.shape[0])
            taken = sparse.csr_array((found.paths.data[entry], steps, bounds), shape=shape)
            yield from self._counted(edges, CountedPaths(found.length + 1, children, taken @ edges.steps.table))

    def walks(self, edges: EdgeList, starts: Ids) -> list[Walks]:
        """All walks from these entities along all beginnings: those of each length, no step first."""
        found = [Walks(np.arange(len(starts)), np.zeros(len(starts), dtype=np.int64), starts[:, None])]
        for level in self.levels:
            start, node, stations = found[-1]
            which, child = slices(level.bounds[node], level.bounds[node + 1])
            steps = edges.steps.find(level.atom[child], stations[which, -1])
            taken, entry = slices(edges.steps.table.indptr[steps], edges.steps.table.indptr[steps + 1])
            which, heads = which[taken], edges.steps.table.indices[entry]
            found.append(Walks(start[which], child[taken], np.column_stack([stations[which], heads])))
        return found


class Joined(NamedTuple):
    """Paths of some length between the ends of pairs, by the number of their body."""

    body: Int[np.ndarray, " path"]
    pair: Int[np.ndarray, " path"]
    stations: Int[np.ndarray, "path place+1"]


class JoinedBodies:
    """Bodies that are walked from either end by half, and joined where the halves meet."""

    def __init__(self, bodies: Sequence[AtomIds], num_predicates: int) -> None:
        self._bodies, self._num_predicates = bodies, num_predicates
        self.lengths = np.array([len(body) for body in bodies], dtype=np.int64)

    @cached_property
    def _ahead(self) -> "_Halves":
        return _Halves(self._bodies, self._num_predicates)

    @cached_property
    def _back(self) -> "_Halves":
        return _Halves([turned(body, self._num_predicates) for body in self._bodies], self._num_predicates)

    def paths(self, edges: EdgeList, subjects: Ids, objects: Ids) -> Iterator[Joined]:
        """All paths from subject to object of each pair; those of one length in a few parts, where they are many.

        All pairs of a hub begin or end at one entity, from which one walk serves them all.
        """
        if len(np.unique(subjects)) >= len(np.unique(objects)):
            yield from self._ahead.paths(edges, subjects, objects)
        else:
            for body, pair, stations in self._back.paths(edges, objects, subjects):
                yield Joined(body, pair, stations[:, ::-1])


class _Halves:
    """Bodies cut in two: the shorter half is walked from every start, the longer one once from each end."""

    def __init__(self, bodies: Sequence[AtomIds], num_predicates: int) -> None:
        cut = [len(body) // 2 for body in bodies]
        self._there = BodyTree([body[:half] for body, half in zip(bodies, cut, strict=True)])
        self._back = BodyTree([turned(body[half:], num_predicates) for body, half in zip(bodies, cut, strict=True)])
        lengths = np.array([len(body) for body in bodies], dtype=np.int64)
        # The bodies of each length, by the node at which their first half ends.
        self._of_length = {
            length: np.flatnonzero(lengths == length)[np.argsort(self._there.ends[lengths == length], kind="stable")]
            for length in np.unique(lengths).tolist()
        }

    def paths(self, edges: EdgeList, starts: Ids, ends: Ids) -> Iterator[Joined]:
        distinct, end = np.unique(ends, return_inverse=True)
        there, back = self._there.walks(edges, starts), self._back.walks(edges, distinct)
        for length, bodies in self._of_length.items():
            half = length // 2
            yield from self._joined(there[half], back[length - half], bodies, end, edges.num_entities)

    def _joined(self, there: Walks, back: Walks, bodies: Ids, end: Ids, num_entities: int) -> Iterator[Joined]:
        num_ends = int(end.max(initial=0)) + 1
        met = (back.node * num_ends + back.start) * num_entities + back.stations[:, -1]
        order = np.argsort(met, kind="stable")
        nodes = self._there.ends[bodies]
        walk, place = slices(np.searchsorted(nodes, there.node), np.searchsorted(nodes, there.node, side="right"))
        body = bodies[place]
        wanted = (self._back.ends[body] * num_ends + end[there.start[walk]]) * num_entities + there.stations[walk, -1]
        first, last = (np.searchsorted(met[order], wanted, side=side) for side in ("left", "right"))
        for part in _parts(last - first):
            which, entry = slices(first[part], last[part])
            walks = walk[part][which]
            stations = np.concatenate([there.stations[walks], back.stations[order[entry], -2::-1]], axis=1)
            yield Joined(body[part][which], there.start[walks], stations)


def _parts(sizes: Ids) -> Iterator[slice]:
    """Slices of about AT_ONCE each; none of nothing."""
    total = np.cumsum(sizes)
    if len(total) and total[-1]:
        bounds = [0, *(np.flatnonzero(np.diff(total // AT_ONCE)) + 1).tolist(), len(sizes)]
        yield from (slice(*pair) for pair in pairwise(bounds))
