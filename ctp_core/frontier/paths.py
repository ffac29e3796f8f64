"""The strongest paths from a question to an answer: those with the largest product of weights, each found once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ctp_core.base.edges import slices
from ctp_core.frontier.graph import Graph
from ctp_core.frontier.replay import Part, Replayed

Ids = NDArray[np.int64]
Logs = NDArray[np.float64]
BEAM = 24  # paths of an answer that are followed back side by side
STAY = -1  # stands for an edge where a path stays where it is
NEVER = 1e-30  # keeps the logarithm of a weight finite


class Path(NamedTuple):
    """Atoms and entities from the entity of a question to the answer, and how much each atom was attended to."""

    atoms: tuple[int, ...]
    stations: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def strength(self) -> float:
        return float(np.prod(self.weights))

    def turned(self, num_predicates: int) -> "Path":
        """The same path from the answer: every atom becomes its inverse."""
        atoms = tuple((atom + num_predicates) % (2 * num_predicates) for atom in reversed(self.atoms))
        return Path(atoms, self.stations[::-1], self.weights[::-1])

    @property
    def simple(self) -> bool:
        """It meets no entity twice, but may end where it began."""
        inner = self.stations[1:-1]
        return (
            bool(self.atoms)
            and len(set(inner)) == len(inner)
            and not {*self.stations[:1], *self.stations[-1:]} & set(inner)
        )

    def facts(self, num_predicates: int) -> list[tuple[int, int, int]]:
        """(subject, predicate, object) of each atom."""
        steps = zip(self.stations[:-1], self.atoms, self.stations[1:], strict=True)
        return [
            (left, atom, right) if atom < num_predicates else (right, atom - num_predicates, left)
            for left, atom, right in steps
        ]


def strongest(graph: Graph, replayed: Replayed, num_items: int) -> list[list[Path]]:
    """The paths of each answer, the strongest first: backwards from it, guided by the best way from the question."""
    steps = [_Arrays.of(part) for part in replayed.parts]
    best = _best_ways(steps, num_items)
    end_step, end_node = (ids.cpu().numpy() for ids in (replayed.end_step, replayed.end_node))
    beam = _Beam.empty()
    for number in range(len(steps), 0, -1):
        ends = np.flatnonzero(end_step == number)
        beam = beam.joined_by(ends, end_node[ends]).back(steps[number - 1], best[number - 1])
    return _read(graph, beam, num_items)


class _Arrays(NamedTuple):
    """A part on the CPU: its edges and, with weight 1 and STAY as edge, its stays; sorted by target."""

    edge: Ids
    source: Ids
    target: Ids
    log: Logs
    bounds: Ids

    @classmethod
    def of(cls, part: Part) -> "_Arrays":
        source, target, moved, stayed_from, stayed = (
            ids.cpu().numpy() for ids in (part.source, part.target, part.edge, part.staying, part.stayed)
        )
        log = np.log(np.maximum(part.weight.double().cpu().numpy(), NEVER))
        targets = np.concatenate([target, stayed])
        order = np.argsort(targets, kind="stable")
        return cls(
            np.concatenate([moved, np.full(len(stayed), STAY)])[order],
            np.concatenate([source, stayed_from])[order],
            targets[order],
            np.concatenate([log, np.zeros(len(stayed))])[order],
            np.searchsorted(targets[order], np.arange(len(part.item) + 1)),
        )


def _best_ways(steps: list[_Arrays], num_items: int) -> list[Logs]:
    """The logarithm of the strongest way to each node, before each step."""
    best = [np.zeros(num_items)]
    for step in steps:
        ahead = np.full(len(step.bounds) - 1, -np.inf)
        np.maximum.at(ahead, step.target, best[-1][step.source] + step.log)
        best.append(ahead)
    return best


class _Beam(NamedTuple):
    """The ends of paths, from some step on."""

    item: Ids
    node: Ids
    log: Logs
    edges: Ids  # [path, step]
    logs: Logs  # [path, step]

    @classmethod
    def empty(cls) -> "_Beam":
        ids = np.zeros(0, dtype=np.int64)
        return cls(ids, ids, np.zeros(0), np.zeros((0, 0), dtype=np.int64), np.zeros((0, 0)))

    def joined_by(self, items: Ids, nodes: Ids) -> "_Beam":
        """With paths that end at these nodes, and stay there for all later steps."""
        length = self.edges.shape[1]
        return _Beam(
            np.concatenate([self.item, items]),
            np.concatenate([self.node, nodes]),
            np.concatenate([self.log, np.zeros(len(items))]),
            np.concatenate([self.edges, np.full((len(items), length), STAY)]),
            np.concatenate([self.logs, np.zeros((len(items), length))]),
        )

    def back(self, step: _Arrays, best: Logs) -> "_Beam":
        """One step back; of each answer the BEAM strongest are kept."""
        path, row = slices(step.bounds[self.node], step.bounds[self.node + 1])
        log = self.log[path] + step.log[row]
        order = np.lexsort((-(log + best[step.source[row]]), self.item[path]))
        item = self.item[path][order]
        rank = np.arange(len(item)) - np.searchsorted(item, item)
        kept = order[rank < BEAM]
        return _Beam(
            self.item[path[kept]],
            step.source[row[kept]],
            log[kept],
            np.column_stack([step.edge[row[kept]], self.edges[path[kept]]]),
            np.column_stack([step.log[row[kept]], self.logs[path[kept]]]),
        )


def _read(graph: Graph, beam: _Beam, num_items: int) -> list[list[Path]]:
    tail, head, atom = (ids.cpu().numpy() for ids in (graph.tail, graph.head, graph.atom))
    found: list[dict[tuple[int, ...], Path]] = [{} for _ in range(num_items)]
    for item, edges, logs in zip(beam.item.tolist(), beam.edges, beam.logs, strict=True):
        moved = edges != STAY
        if not moved.any():
            continue
        taken = edges[moved]
        stations = (int(tail[taken[0]]), *head[taken].tolist())
        path = Path(tuple(atom[taken].tolist()), stations, tuple(np.exp(logs[moved]).tolist()))
        key = tuple(taken.tolist())
        if path.simple and (key not in found[item] or found[item][key].strength < path.strength):
            found[item][key] = path
    return [sorted(paths.values(), key=lambda path: -path.strength) for paths in found]
