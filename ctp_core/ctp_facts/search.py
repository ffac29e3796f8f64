"""Searches the best proof of each goal among the chains of atoms that `select` makes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ctp_core.ctp_facts import unification
from ctp_core.ctp_facts.bounds import Atoms, meeting, nearest_facts
from ctp_core.ctp_facts.entities import NO_FACT, ROUNDING, Flips, Floats, Ids, Join, SoftSearch
from ctp_core.ctp_facts.plans import Plan


@dataclass(frozen=True)
class Goals:
    """Atoms to prove. `own` is the row of the fact that a goal may not use, or -1."""

    predicate: Int[np.ndarray, " goal"]
    subject: Int[np.ndarray, " goal"]
    object: Int[np.ndarray, " goal"]
    own: Int[np.ndarray, " goal"]


@dataclass(frozen=True)
class Chains:
    """The chains that `select` makes for some goal predicates by one plan: paths of atoms from subject to object.

    `guards` is the distance of all heads on the way, None where no head is unified. `known` holds all predicates.
    """

    plan: Plan
    vectors: Float[Tensor, "predicate chain place dim"]
    guards: Float[Tensor, "predicate chain"] | None
    known: Float[Tensor, "known dim"]

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    @cached_property
    def squared(self) -> Float[Tensor, "predicate chain place known"]:
        """Squared distances of the atoms' vectors to the known predicates."""
        return pairwise_squared(self.vectors.flatten(0, 2), self.known).view(*self.vectors.shape[:3], len(self.known))

    @cached_property
    def costs(self) -> Float[np.ndarray, "predicate chain place known"]:
        """`squared` without gradient, for the search."""
        vectors, known = (one.detach().cpu().numpy() for one in (self.vectors, self.known))
        return squared_distances(vectors.reshape(-1, vectors.shape[-1]), known).reshape(*vectors.shape[:3], -1)


@dataclass(frozen=True)
class Leaves:
    """The unifications of some proofs by one plan; `row` and `chain` say which of its chains each proof used."""

    row: Int[np.ndarray, " proof"]
    chain: Int[np.ndarray, " proof"]
    stations: Int[np.ndarray, "proof place+1"]
    fact: Int[np.ndarray, "proof place"]

    @property
    def atoms(self) -> tuple[Ids, Ids, Ids]:
        """Row, chain and place of every unification; the three broadcast to [proof, place]."""
        return self.row[:, None], self.chain[:, None], np.arange(self.fact.shape[1])[None, :]

    def met(self, plan: Plan) -> Int[np.ndarray, "2 proof place"]:
        """The stations that unify with the subject and with the object of each fact."""
        before, after, flips = self.stations[:, :-1], self.stations[:, 1:], np.array(plan.flips)
        return np.stack([np.where(flips, after, before), np.where(flips, before, after)])


@dataclass(frozen=True)
class Found:
    """The best proof by each chain of a plan: its distance, the entities it passes and its facts."""

    distance: Float[np.ndarray, "chain goal"]
    stations: Int[np.ndarray, "*chain goal place+1"]
    fact: Int[np.ndarray, "chain goal place"]

    def leaves(self, row: Ids, chain: Ids, goal: Ids) -> Leaves:
        """The unifications behind some proofs; `row` says which row of the chains each of these goals has."""
        stations = np.broadcast_to(self.stations, (*self.fact.shape[:2], self.stations.shape[2]))
        return Leaves(row, chain, stations[chain, goal], self.fact[chain, goal])


class _Tried(NamedTuple):
    """The chains to try for each goal, and the distances of their heads where they have heads."""

    chain: Int[np.ndarray, " proof"]
    goal: Int[np.ndarray, " proof"]
    guards: Float[np.ndarray, " proof"] | None


def _turns(chains: Sequence[Chains]) -> list[list[int]]:
    """The order of the search: lists of chains that are searched together."""
    numbers: dict[bool, list[int]] = {False: [], True: []}
    long = []
    for number, one in enumerate(chains):
        if len(one.plan.flips) == 1:
            numbers[one.guards is not None].append(number)
        else:
            long.append([number])
    return [turn for turn in (*numbers.values(), *long) if turn]


class GoalSearch:
    """Finds the best proofs of some goals; `row` says which row of the chains each goal has."""

    def __init__(self, search: SoftSearch, goals: Goals, row: Ids, times: Join) -> None:
        self.search, self.goals, self.row, self.times = search, goals, row, times

    def best(self, chains: Sequence[Chains]) -> list[Found]:
        """The proofs found for each plan. The best proof of each goal is exact; other distances may be too large.

        Plans of one fact are searched first and all at once, rules without heads before rules with heads: the
        distances found bound the search for longer paths.
        """
        limit = np.full(len(self.row), np.inf, dtype=self.search.squared.dtype)
        found: dict[int, Found] = {}
        for turn in _turns(chains):
            some = [chains[number] for number in turn]
            proofs = self._by_facts(some, limit) if len(some[0].plan.flips) == 1 else [self._by_path(some[0], limit)]
            for number, one in zip(turn, proofs, strict=True):
                found[number] = one
                np.minimum(limit, one.distance.min(0), out=limit)
        return [found[number] for number in range(len(chains))]

    def _by_facts(self, chains: Sequence[Chains], limit: Float[np.ndarray, " goal"]) -> list[Found]:
        """Proofs by plans of one atom, either all with heads or all without."""
        tried = [self._tried(one, limit) for one in chains]
        atoms = Atoms.joined([self._atoms(one, 0, some) for one, some in zip(chains, tried, strict=True)])
        # A distant head may undo an advantage, so with heads no chain bounds another.
        rivals = sum(one.width for one in chains) if chains[0].guards is None else 1
        bounds = np.concatenate([limit[some.goal] for some in tried]) ** 2
        nearest = nearest_facts(self.search, atoms, bounds, rivals=rivals)
        distance = np.where(nearest.fact == NO_FACT, np.inf, np.sqrt(nearest.squared)).astype(bounds.dtype, copy=False)
        stations = np.stack([self.goals.subject, self.goals.object], axis=1)[None]
        ends = np.cumsum([len(some.goal) for some in tried])[:-1]
        parts = zip(chains, tried, np.split(distance, ends), np.split(nearest.fact, ends), strict=True)
        return [
            Found(self._distances(one, some, part), stations, self._spread(one, some, fact[:, None]))
            for one, some, part, fact in parts
        ]

    def _by_path(self, chains: Chains, limit: Float[np.ndarray, " goal"]) -> Found:
        """Proofs by a plan of several atoms."""
        flips, tried = chains.plan.flips, self._tried(chains, limit)
        left, right = self.goals.subject[tried.goal], self.goals.object[tried.goal]
        atoms = [self._atoms(chains, place, tried) for place in range(len(flips))]
        if len(flips) == 2:
            bounds = limit[tried.goal]
            distance, station, facts = meeting(self.search, (atoms[0], atoms[1]), flips, self.times, bounds)
            stations = np.stack([left, station, right])
        elif len(tried.goal):
            distance, stations = self._long_path(atoms, flips, left, right)
            facts = self._facts_along(atoms, flips, stations, distance)
        else:
            nowhere = np.empty((len(flips) + 1, 0), dtype=np.int64)
            distance, stations, facts = np.empty(0, dtype=limit.dtype), nowhere, nowhere[1:]
        along = (self._spread(chains, tried, one.T) for one in (stations, facts))
        return Found(self._distances(chains, tried, distance), *along)

    def _tried(self, chains: Chains, limit: Float[np.ndarray, " goal"]) -> _Tried:
        """Skips rules whose head alone is as far as the best known proof."""
        if chains.guards is None:
            return _Tried(*np.divmod(np.arange(chains.width * len(self.row)), len(self.row)), None)
        guards = chains.guards.detach().cpu().numpy()[self.row].T  # [chain, goal]
        chain, goal = (guards < limit).nonzero()
        return _Tried(chain, goal, guards[chain, goal])

    def _atoms(self, chains: Chains, place: int, tried: _Tried) -> Atoms:
        """The atoms at one place of the chains."""
        goals, flip = self.goals, chains.plan.flips[place]
        row = self.row[tried.goal] * chains.width + tried.chain
        costs = np.ascontiguousarray(chains.costs[:, :, place]).reshape(-1, chains.costs.shape[3])
        if tried.guards is not None:  # mostly few are tried, so only their costs are read
            used, row = np.unique(row, return_inverse=True)
            costs = costs[used]
        ends = (goals.object, goals.subject) if flip else (goals.subject, goals.object)
        return Atoms(costs, row, *(one[tried.goal] for one in (*ends, goals.own)))

    def _distances(self, chains: Chains, tried: _Tried, distance: Floats) -> Float[np.ndarray, "chain goal"]:
        """Distances with the heads included, ∞ for what was not tried."""
        found = np.full((chains.width, len(self.row)), np.inf, dtype=distance.dtype)
        found[tried.chain, tried.goal] = distance if tried.guards is None else self.times(distance, tried.guards)
        return found

    def _spread(self, chains: Chains, tried: _Tried, ids: Int[np.ndarray, "proof place"]) -> Ids:
        found = np.full((chains.width, len(self.row), ids.shape[1]), NO_FACT)
        found[tried.chain, tried.goal] = ids
        return found

    def _long_path(self, atoms: list[Atoms], flips: Flips, left: Ids, right: Ids) -> tuple[Floats, Ids]:
        """(distance, stations) of the best path between two entities through more than two places."""
        search, query, own = self.search, np.arange(len(left)), atoms[0].own
        first, last = (one.costs[one.row] for one in (atoms[0], atoms[-1]))
        reached, back = search.row(first, left, own, open_subject=flips[0]), []
        for one, flip in zip(atoms[1:-1], flips[1:-1], strict=True):
            tables = self._tables(one)
            steps = self.times(reached[:, :, None], tables.transpose(0, 2, 1) if flip else tables)  # [query, from, to]
            back.append(steps.argmin(1))
            reached = steps.min(1)
        total = self.times(reached, search.row(last, right, own, open_subject=not flips[-1]))
        path = [right, total.argmin(1)]
        for pointers in reversed(back):
            path.append(pointers[query, path[-1]])
        return total[query, path[1]], np.stack([left, *reversed(path)])

    def _tables(self, atoms: Atoms) -> Float[np.ndarray, "atom entity entity"]:
        """Distances of all pairs for each atom; most goals of a chain share one table."""
        distinct, number = np.unique(np.stack([atoms.row, atoms.own]), axis=1, return_inverse=True)
        tables = [self.search.table(atoms.costs[row], own) for row, own in distinct.T.tolist()]
        return np.stack(tables)[number.ravel()]

    def _facts_along(self, atoms: list[Atoms], flips: Flips, stations: Ids, distance: Floats) -> Ids:
        """The facts behind each place of a path; none of them is further away than the whole path."""
        limit = distance**2 * (1 + ROUNDING) + unification.SQUARED_FLOOR
        steps = zip(atoms, flips, stations[:-1], stations[1:], strict=True)
        ends = [replace(one, subject=to if flip else at, object=at if flip else to) for one, flip, at, to in steps]
        return np.stack([nearest_facts(self.search, one, limit).fact for one in ends])


def pairwise_squared(left: Float[Tensor, "m dim"], right: Float[Tensor, "n dim"]) -> Float[Tensor, "m n"]:
    """Squared distances by one matrix product, clamped so that rounding makes none negative."""
    products = torch.addmm((right**2).sum(1), left, right.T, alpha=-2)
    return (products + (left**2).sum(1)[:, None]).clamp(min=0)


def squared_distances(left: Floats, right: Floats) -> Floats:
    """`pairwise_squared` on arrays, without gradient."""
    squared = left @ right.T
    squared *= -2
    squared += np.square(right).sum(1)
    squared += np.square(left).sum(1)[:, None]
    return np.maximum(squared, 0, out=squared)


def as_tensor(ids: Ids, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids)).to(like.device)
