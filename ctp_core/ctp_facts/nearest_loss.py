"""The ranking loss for a KB too large for tables: each fact against the best answers that its question reaches."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ctp_core.base.evaluation import KnownFilter
from ctp_core.ctp_facts.entities import Ids, SoftFacts
from ctp_core.ctp_facts.neighbours import nearest_entities, soft_edges
from ctp_core.ctp_facts.reach import ChainCosts, SoftPaths, SoftReach, Starts
from ctp_core.ctp_facts.search import Chains, Leaves, as_tensor
from ctp_core.ctp_facts.theory import SoftTheory
from ctp_core.kb.knowledge_base import FactIds

RIVALS = 64  # per question, the nearest; those further away hardly change its loss


class NearestRanking:
    """Computes the loss of each step; every `nearest_every` steps it searches the nearest entities again."""

    def __init__(self, theory: SoftTheory, facts: SoftFacts) -> None:
        self.theory, self.facts = theory, facts
        sizes = (len(theory.entities), len(theory.predicates))
        self._known = (
            KnownFilter([facts.facts], *sizes, subjects=False),
            KnownFilter([facts.facts], *sizes, subjects=True),
        )
        self._reach: SoftReach | None = None
        self._steps = 0

    def restart(self) -> None:
        """Makes the next step search the nearest entities, so that a resumed run equals one that was never stopped."""
        self._reach = None

    def look_around(self) -> SoftReach:
        """Searches the nearest entities of every entity, and builds the edges that proofs may use."""
        config, vectors = self.theory.config, self.theory.entities.detach().cpu().numpy()
        self.theory.nearest.copy_(torch.from_numpy(nearest_entities(vectors, config.nearest)))
        edges = soft_edges(self.theory, self.facts, len(vectors))
        self._reach, self._steps = SoftReach(edges, self.theory.distance_times.arrays, config.unification), 0
        return self._reach

    def loss(self, rows: Int[np.ndarray, " goal"]) -> Float[Tensor, ""]:
        """Mean over the two questions of every fact; a question does not count where its fact has no proof in reach."""
        stale = self._reach is None or self._steps >= self.theory.config.nearest_every
        reach = self.look_around() if stale else self._reach
        assert reach is not None
        self._steps += 1
        ranked = self.facts.facts[rows]
        distinct, row = np.unique(ranked[:, 1], return_inverse=True)
        device, shapes = self.theory.predicates.device, self.theory.training_plans
        chains = self.theory.chains(torch.from_numpy(distinct).to(device), shapes)
        asked = _Questions(self.theory, reach, self.facts, chains, row, ranked, rows)
        losses = torch.cat([_question_losses(asked, way, self._known[way]) for way in (0, 1)])
        # Where nothing can be proved there is nothing to learn: a zero gradient changes no vector.
        return losses.mean() if len(losses) else self.theory.entities.sum() * 0


@dataclass(frozen=True)
class _Questions:
    """What the questions for objects and for subjects share."""

    theory: SoftTheory
    reach: SoftReach
    facts: SoftFacts
    chains: list[Chains]
    row: Ids  # row of each goal's predicate in the chains
    goals: FactIds
    own: Ids  # the fact that each goal may not use


def _question_losses(asked: _Questions, way: int, known: KnownFilter) -> Float[Tensor, " question"]:
    given, sought = asked.goals[:, 2 * way], asked.goals[:, 2 - 2 * way]
    arrived = [
        _arrived(asked, one, number, given, backwards=bool(way)) for one in asked.chains for number in range(one.width)
    ]
    best = _best_of([paths for _, _, paths in arrived], asked.reach.edges.size)
    at_goal = best.end == sought[best.question]
    false = ~known.mask(given, asked.goals[:, 1])[best.question, best.end]
    proved = np.unique(best.question[at_goal])
    chosen = at_goal | (false & (best.place < RIVALS))
    chosen &= np.isin(best.question, proved)
    distances = _distances(asked, arrived, best, np.flatnonzero(chosen), backwards=bool(way))
    return _losses(distances, best.question[chosen], at_goal[chosen], asked.theory.config.slope)


def _arrived(
    asked: _Questions, chains: Chains, number: int, given: Ids, *, backwards: bool
) -> tuple[Chains, int, SoftPaths]:
    atoms = ChainCosts(chains.costs[asked.row, number], chains.plan.flips)
    paths = asked.reach.arrive(atoms.reversed if backwards else atoms, Starts(given, asked.own))
    if chains.guards is not None:
        guards = chains.guards.detach().cpu().numpy()[asked.row[paths.question], number]
        paths = SoftPaths(paths.question, asked.reach.times(paths.distance, guards), paths.stations, paths.facts)
    return chains, number, paths


@dataclass(frozen=True)
class _Best:
    """The best path of each question to each entity it reaches: by which chain, and its rank by distance."""

    question: Ids
    end: Ids
    chain: Ids
    path: Ids  # index among the paths of the chain
    place: Ids


def _best_of(arrived: list[SoftPaths], num_entities: int) -> _Best:
    question, end, distance = (
        np.concatenate([getattr(paths, name) for paths in arrived]) for name in ("question", "end", "distance")
    )
    chain = np.repeat(np.arange(len(arrived)), [len(paths) for paths in arrived])
    path = np.concatenate([np.arange(len(paths)) for paths in arrived])
    order = np.lexsort((distance, question * num_entities + end))
    first = order[np.diff((question * num_entities + end)[order], prepend=-1) != 0]
    first = first[np.lexsort((distance[first], question[first]))]
    sizes = np.bincount(question[first], minlength=1)
    place = np.arange(len(first)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return _Best(question[first], end[first], chain[first], path[first], place)


def _distances(
    asked: _Questions, arrived: list[tuple[Chains, int, SoftPaths]], best: _Best, chosen: Ids, *, backwards: bool
) -> Float[Tensor, " chosen"]:
    """Distances of the chosen paths, by the current vectors and with their gradient."""
    parts, order = [], []
    for index, (chains, number, paths) in enumerate(arrived):
        mine = np.flatnonzero(best.chain[chosen] == index)
        if len(mine):
            some = paths.at(best.path[chosen[mine]])
            step = -1 if backwards else 1
            size = np.full(len(mine), number)
            leaves = Leaves(asked.row[some.question], size, some.stations[:, ::step], some.facts[:, ::step])
            parts.append((chains, leaves))
            order.append(mine)
    if not parts:
        return asked.theory.entities.new_zeros(0)
    return asked.theory.distances(parts, asked.facts, np.concatenate(order))


def _losses(
    distances: Float[Tensor, " chosen"], question: Ids, at_goal: NDArray[np.bool_], slope: float
) -> Float[Tensor, " question"]:
    """-log of the goal's share among itself and its rivals, for each question."""
    if not len(question):
        return distances
    _, dense = np.unique(question, return_inverse=True)
    goal = distances[as_tensor(np.flatnonzero(at_goal), distances)]  # one for each question, in order
    rivals = np.flatnonzero(~at_goal)
    sizes = np.bincount(dense[rivals], minlength=len(goal))
    place = np.arange(len(rivals)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    least = torch.finfo(distances.dtype).min
    logits = distances.new_full((len(goal), int(sizes.max()) or 1), least)
    logits = logits.index_put(
        (as_tensor(dense[rivals], distances), as_tensor(place, distances)),
        -slope * distances[as_tensor(rivals, distances)],
    )
    return functional.softplus(torch.logsumexp(logits, 1) + slope * goal)
