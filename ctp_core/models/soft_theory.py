"""The paper's prover on one KB: vectors for predicates and entities, `select`, and the best proof of each goal.

A score is that of one proof, so its gradient is that of one proof: the search runs without gradients and exactly,
and only the unifications of the proof it finds are computed again for learning. Facts get their gradient too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ctp_core import unification
from ctp_core.config.ctp import CtpConfig
from ctp_core.errors import ConfigError
from ctp_core.kernels import ExponentialKernel
from ctp_core.models.soft_unification import Unifications, proof_distances
from ctp_core.provers.dense import fits_tables
from ctp_core.provers.plans import Plan, plans
from ctp_core.provers.soft_bounds import Atoms, meeting, nearest_facts
from ctp_core.provers.soft_entities import ROUNDING, TIMES, Flips, Floats, Ids, SoftFacts, SoftSearch
from ctp_core.rules import Template
from ctp_core.select.base import Expansion, SelectOptions, uniform
from ctp_core.select.registry import SELECTS

MIN_HEAD = 1e-30  # a rule that is not tried has head 0; its distance must be huge but finite


@dataclass(frozen=True)
class Goals:
    """Atoms to prove; `own` is the row of the fact that a goal may not use, or -1."""

    predicate: Int[np.ndarray, " goal"]
    subject: Int[np.ndarray, " goal"]
    object: Int[np.ndarray, " goal"]
    own: Int[np.ndarray, " goal"]


@dataclass(frozen=True)
class Chains:
    """What `select` makes of some goal predicates by one plan: paths of atoms from subject to object.

    `guards` is the distance of all heads on the way, None where no head is unified; `known` are all predicates.
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
        return _pairwise_squared(self.vectors.flatten(0, 2), self.known).view(*self.vectors.shape[:3], len(self.known))

    @cached_property
    def costs(self) -> Float[np.ndarray, "predicate chain place known"]:
        """The same without gradient, for the search."""
        vectors, known = (one.detach().cpu().numpy() for one in (self.vectors, self.known))
        return squared_distances(vectors.reshape(-1, vectors.shape[-1]), known).reshape(*vectors.shape[:3], -1)


@dataclass(frozen=True)
class Leaves:
    """The unifications of some proofs by chains of one plan, each given by its row and number among the chains."""

    row: Int[np.ndarray, " proof"]
    chain: Int[np.ndarray, " proof"]
    stations: Int[np.ndarray, "proof place+1"]
    fact: Int[np.ndarray, "proof place"]

    @property
    def atoms(self) -> tuple[Ids, Ids, Ids]:
        """Row, chain and place of every unification; they broadcast to [proof, place]."""
        return self.row[:, None], self.chain[:, None], np.arange(self.fact.shape[1])[None, :]

    def met(self, plan: Plan) -> Int[np.ndarray, "2 proof place"]:
        """The entities that subject and object of each fact are taken for."""
        before, after, flips = self.stations[:, :-1], self.stations[:, 1:], np.array(plan.flips)
        return np.stack([np.where(flips, after, before), np.where(flips, before, after)])


@dataclass(frozen=True)
class Found:
    """The best proof by each chain of a plan: its distance, the entities it passes and its facts."""

    distance: Float[np.ndarray, "chain goal"]
    stations: Int[np.ndarray, "*chain goal place+1"]
    fact: Int[np.ndarray, "chain goal place"]

    def leaves(self, row: Ids, chain: Ids, goal: Ids) -> Leaves:
        """The unifications behind some of them, where `row` is that of these goals among the chains."""
        stations = np.broadcast_to(self.stations, (*self.fact.shape[:2], self.stations.shape[2]))
        return Leaves(row, chain, stations[chain, goal], self.fact[chain, goal])


class SoftTheory(nn.Module):
    """All that is learnt; its vectors start uniform, as published."""

    nearest: Int[Tensor, "entity k"]  # where there are no tables

    def __init__(
        self,
        config: CtpConfig,
        num_entities: int,
        num_predicates: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        super().__init__()
        if config.depth is None or config.depth < 1:
            raise ConfigError("on a KB of facts the depth is a number from 1 on: there is no fixpoint to run to")
        if config.semiring == "max-mean":
            raise ConfigError("on a KB of facts the semiring is max-min or max-product")
        self.config = config
        self.kernel = ExponentialKernel(config.slope)
        templates = tuple(Template.parse(text) for text in config.templates)
        self.match_facts = any(template.length == 0 for template in templates)
        options = SelectOptions(
            tuple(template for template in templates if template.length),
            config.dim,
            num_predicates,
            self.kernel,
            memory=config.memory,
            top_k=config.top_k,
        )
        self.select = SELECTS[config.select](options, generator)
        self.plans = plans(self.select.groups, config.depth, match_facts=self.match_facts)
        shallow = min(config.depth, config.train_depth)
        self.training_plans = plans(self.select.groups, shallow, match_facts=self.match_facts)
        self.predicates = uniform((num_predicates, config.dim), config.initial_range, generator)
        self.entities = uniform((num_entities, config.dim), config.initial_range * config.entity_scale, generator)
        self.tabled = config.search == "tables" or (
            config.search == "auto" and fits_tables(num_entities, num_predicates)
        )
        if not self.tabled:
            alone = torch.full((num_entities, min(config.nearest, num_entities)), -1)
            alone[:, 0] = torch.arange(num_entities)
            self.register_buffer("nearest", alone)  # the entities that each may be taken for
        self.to(device)

    # What is proved with

    def chains(self, predicates: Int[Tensor, " predicate"], shapes: Sequence[Plan] | None = None) -> list[Chains]:
        """One entry for each plan (those of answers unless said); by facts first, where template `0` is listed."""
        goals = self.predicates.index_select(0, predicates)
        rules = self.select(goals, self.predicates)
        return [Chains(plan, *self._unfold(plan, goals, rules), known=self.predicates) for plan in shapes or self.plans]

    def _unfold(
        self, plan: Plan, goals: Float[Tensor, "goal dim"], rules: Sequence[Expansion]
    ) -> tuple[Float[Tensor, "goal chain place dim"], Float[Tensor, "goal chain"] | None]:
        """The vectors at the leaves of a plan for every choice of reformulators, along the path, and their guards.

        `rules` are what `select` makes of these goals.
        """
        if plan.template is None:
            return goals[:, None, None, :], None
        [rule] = [rule for rule in rules if rule.template == plan.template]
        bodies = rule.bodies.expand(len(goals), -1, -1, -1)
        num_goals, width, _, dim = bodies.shape
        guards = None if rule.heads is None else self._distance(rule.heads)[:, :, None]
        if all(part.template is None for part in plan.parts):
            path = bodies.flip(2) if plan.template.reversed else bodies
            return path, None if guards is None else guards[:, :, 0]
        path = bodies.new_empty(num_goals, width, 1, 0, dim)
        for place, part in enumerate(plan.parts):
            atoms = bodies[:, :, place].reshape(-1, dim)
            below, guarded = self._unfold(part, atoms, self.select(atoms, self.predicates) if part.template else ())
            below = below.view(num_goals, width, 1, *below.shape[1:])
            path = path[:, :, :, None]
            shape = (num_goals, width, path.shape[2], below.shape[3])  # [goal, reformulator, chain so far, chain below]
            joined = torch.cat([path.expand(*shape, -1, -1), below.expand(*shape, -1, -1)], dim=-2)
            path = joined.flatten(2, 3)
            guards = self._guard(guards, guarded, shape)
        path = path.flatten(1, 2)
        return path.flip(2) if plan.template.reversed else path, None if guards is None else guards.flatten(1, 2)

    def _guard(self, above: Tensor | None, below: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
        parts = []
        if above is not None:
            parts.append(above[:, :, :, None].expand(*shape))
        if below is not None:
            parts.append(below.view(*shape[:2], 1, -1).expand(*shape))
        return self.times(parts).flatten(2, 3) if parts else None

    def _distance(self, scores: Tensor) -> Tensor:
        return scores.clamp(min=MIN_HEAD).log() / -self.config.slope

    def times(self, distances: Sequence[Tensor]) -> Tensor:
        """⊗ as it is on distances."""
        total = distances[0]
        for one in distances[1:]:
            total = torch.maximum(total, one) if self.config.semiring == "max-min" else total + one
        return total

    # The search, and what it found with its gradient

    def entity_squared(self) -> Float[Tensor, "entity entity"]:
        """Squared distances between all entities; the diagonal is exactly 0."""
        squared = _pairwise_squared(self.entities, self.entities)
        return squared * (1 - torch.eye(len(squared), device=squared.device, dtype=squared.dtype))

    def scores(self, goals: Goals, facts: SoftFacts, shapes: Sequence[Plan] | None = None) -> Float[Tensor, " goal"]:
        """The score of the best proof of each goal, with its exact gradient."""
        distinct, row = np.unique(goals.predicate, return_inverse=True)
        chains = self.chains(torch.from_numpy(distinct).to(self.predicates.device), shapes)
        entities = self.entities.detach().cpu().numpy()
        squared = squared_distances(entities, entities)
        np.fill_diagonal(squared, 0)
        search = GoalSearch(SoftSearch(facts, squared, self.config.unification), goals, row, self.config.semiring)
        found = search.best(chains)
        widths = np.array([one.width for one in chains])
        best = np.concatenate([one.distance for one in found]).argmin(0)
        plan_of = np.arange(len(found)).repeat(widths)[best]
        chain = best - (widths.cumsum() - widths)[plan_of]
        proved, order = [], []
        for index, (one, proofs) in enumerate(zip(chains, found, strict=True)):
            chosen = (plan_of == index).nonzero()[0]
            if len(chosen):
                proved.append((one, proofs.leaves(row[chosen], chain[chosen], chosen)))
                order.append(chosen)
        return self.kernel.from_distance(self.distances(proved, facts, np.concatenate(order)))

    def distances(
        self, proved: Sequence[tuple[Chains, Leaves]], facts: SoftFacts, order: Ids
    ) -> Float[Tensor, " proof"]:
        """⊗ of the heads and of every atom's unification with its fact, as a distance; `order` is where each goes."""
        vectors = torch.cat([chains.vectors.flatten(0, 2) for chains, _ in proved])
        heads = [_heads(*one) for one in proved]
        headed = any(chains.guards is not None for chains, _ in proved)
        placed = torch.cat(heads)[as_tensor(order.argsort(), self.entities)] if headed else None
        atoms = _unifications(proved, facts, order, self.entities)
        semantics = (self.config.unification, self.config.semiring)
        return proof_distances(vectors, self.predicates, self.entities, placed, atoms, semantics)

    def distances_by_tables(
        self, chains: Chains, leaves: Leaves, facts: SoftFacts, squared: Float[Tensor, "entity entity"]
    ) -> Float[Tensor, " proof"]:
        """The same where proofs are so many that the squared distances of all entities are worth having."""
        fact = facts.facts[leaves.fact]  # [proof, place, 3]
        gaps = _selected(squared, leaves.met(chains.plan) * len(squared) + fact[:, :, [0, 2]].transpose(2, 0, 1))
        costs = _selected(chains.squared, np.ravel_multi_index((*leaves.atoms, fact[:, :, 1]), chains.squared.shape))
        return self._proofs(unification.distance(self.config.unification, costs, *gaps), chains, leaves)

    def _proofs(self, atoms: Tensor, chains: Chains, leaves: Leaves) -> Float[Tensor, " proof"]:
        """⊗ of the atoms of each proof, and of its heads."""
        parts = list(atoms.view(leaves.fact.shape).unbind(1))
        if chains.guards is not None:
            row, chain = as_tensor(leaves.row, self.entities), as_tensor(leaves.chain, self.entities)
            parts.append(chains.guards[row, chain])
        return self.times(parts)


class GoalSearch:
    """The best proofs of some goals by any chains; `row` is that of each goal among the chains."""

    def __init__(self, search: SoftSearch, goals: Goals, row: Ids, semiring: str) -> None:
        self.search, self.goals, self.row, self.times = search, goals, row, TIMES[semiring]

    def best(self, chains: Sequence[Chains]) -> list[Found]:
        """Of each plan; exact for the best proof of each goal, and for others no better than they are.

        Those by one fact come first and all at once: what they find bounds the search for longer ones.
        """
        lengths = [len(one.plan.flips) for one in chains]
        short = self._by_facts([one for one, length in zip(chains, lengths, strict=True) if length == 1])
        limit = np.full(len(self.row), np.inf, dtype=self.search.squared.dtype)
        for one in short:
            np.minimum(limit, one.distance.min(0), out=limit)
        found = []
        for chain, length in zip(chains, lengths, strict=True):
            found.append(short.pop(0) if length == 1 else self._by_path(chain, limit))
            np.minimum(limit, found[-1].distance.min(0), out=limit)
        return found

    def _by_facts(self, chains: Sequence[Chains]) -> list[Found]:
        """By plans of one atom."""
        atoms = [self._atoms(one, 0) for one in chains]
        if not atoms:
            return []
        widths = [one.width for one in chains]
        # Heads may undo an advantage, so that then no chain bounds another.
        rivals = sum(widths) if all(one.guards is None for one in chains) else 1
        limit = np.full(sum(widths) * len(self.row), np.inf, dtype=self.search.squared.dtype)
        nearest = nearest_facts(self.search, Atoms.joined(atoms), limit, rivals=rivals)
        distance = np.sqrt(nearest.squared).reshape(-1, len(self.row))
        fact = nearest.fact.reshape(-1, len(self.row), 1)
        ends = np.stack([self.goals.subject, self.goals.object], axis=1)
        return [
            Found(self._guarded(one, distance[last - one.width : last]), ends[None], fact[last - one.width : last])
            for one, last in zip(chains, np.cumsum(widths), strict=True)
        ]

    def _by_path(self, chains: Chains, limit: Float[np.ndarray, " goal"]) -> Found:
        """By a plan of several atoms."""
        flips = chains.plan.flips
        atoms = [self._atoms(chains, place) for place in range(len(flips))]
        left, right = (np.tile(end, chains.width) for end in (self.goals.subject, self.goals.object))
        if len(flips) == 2:
            distance, station, facts = meeting(
                self.search, (atoms[0], atoms[1]), flips, self.times, np.tile(limit, chains.width)
            )
            stations = np.stack([left, station, right])
        else:
            distance, stations = self._long_path(atoms, flips, left, right)
            facts = self._facts_along(atoms, flips, stations, distance)
        shape = (chains.width, len(self.row))
        along = (one.T.reshape(*shape, -1) for one in (stations, facts))
        return Found(self._guarded(chains, distance.reshape(shape)), *along)

    def _atoms(self, chains: Chains, place: int) -> Atoms:
        """Those of one place, the goals of a chain side by side."""
        goals, width, flip = self.goals, chains.width, chains.plan.flips[place]
        row = (self.row * width + np.arange(width)[:, None]).ravel()
        ends = (goals.object, goals.subject) if flip else (goals.subject, goals.object)
        costs = np.ascontiguousarray(chains.costs[:, :, place]).reshape(-1, chains.costs.shape[3])
        return Atoms(costs, row, *(np.tile(one, width) for one in (*ends, goals.own)))

    def _guarded(self, chains: Chains, distance: Float[np.ndarray, "chain goal"]) -> Floats:
        if chains.guards is None:
            return distance
        return self.times(distance, chains.guards.detach().cpu().numpy()[self.row].T)

    def _long_path(self, atoms: list[Atoms], flips: Flips, left: Ids, right: Ids) -> tuple[Floats, Ids]:
        """(distance, stations) of the best path between two entities through more than two places."""
        search, query, own = self.search, np.arange(len(left)), atoms[0].own
        first, *middle, last = (one.costs[one.row] for one in atoms)
        reached, back = search.row(first, left, own, open_subject=flips[0]), []
        for costs, flip in zip(middle, flips[1:-1], strict=True):
            tables = np.stack([search.table(*one) for one in zip(costs, own.tolist(), strict=True)])
            steps = self.times(reached[:, :, None], tables.transpose(0, 2, 1) if flip else tables)  # [query, from, to]
            back.append(steps.argmin(1))
            reached = steps.min(1)
        total = self.times(reached, search.row(last, right, own, open_subject=not flips[-1]))
        path = [right, total.argmin(1)]
        for pointers in reversed(back):
            path.append(pointers[query, path[-1]])
        return total[query, path[1]], np.stack([left, *reversed(path)])

    def _facts_along(self, atoms: list[Atoms], flips: Flips, stations: Ids, distance: Floats) -> Ids:
        """The facts behind each place of a path, none of which is further than the whole."""
        limit = distance**2 * (1 + ROUNDING) + unification.SQUARED_FLOOR
        steps = zip(atoms, flips, stations[:-1], stations[1:], strict=True)
        ends = [replace(one, subject=to if flip else at, object=at if flip else to) for one, flip, at, to in steps]
        return np.stack([nearest_facts(self.search, one, limit).fact for one in ends])


def _heads(chains: Chains, leaves: Leaves) -> Float[Tensor, " proof"]:
    """The distance of the heads of each proof, 0 where none is unified."""
    if chains.guards is None:
        return chains.known.new_zeros(len(leaves.row))
    return chains.guards[as_tensor(leaves.row, chains.known), as_tensor(leaves.chain, chains.known)]


def _unifications(proved: Sequence[tuple[Chains, Leaves]], facts: SoftFacts, order: Ids, like: Tensor) -> Unifications:
    """Every atom of these proofs, whose rows are those among the vectors of all chains."""
    columns, rows, proofs = [], 0, 0
    for chains, leaves in proved:
        count, places = leaves.fact.shape
        subject, predicate, object_ = facts.facts[leaves.fact.ravel()].T
        atom = rows + np.ravel_multi_index(leaves.atoms, chains.vectors.shape[:3]).ravel()
        cell = (np.arange(places) * len(order) + order[proofs : proofs + count, None]).ravel()
        met = leaves.met(chains.plan).reshape(2, -1)
        columns.append(np.stack([atom, predicate, cell, *met, subject, object_]))
        rows, proofs = rows + chains.vectors.shape[:3].numel(), proofs + count
    ids = as_tensor(np.concatenate(columns, axis=1), like)
    shape = (1 + max(leaves.fact.shape[1] for _, leaves in proved), len(order))  # the last row is for heads
    return Unifications(ids[0], ids[1], ids[3:5].flatten(), ids[5:].flatten(), ids[2], shape)


def _pairwise_squared(left: Float[Tensor, "m dim"], right: Float[Tensor, "n dim"]) -> Float[Tensor, "m n"]:
    """By one matrix product; rounding may not make a distance negative."""
    products = torch.addmm((right**2).sum(1), left, right.T, alpha=-2)
    return (products + (left**2).sum(1)[:, None]).clamp(min=0)


def squared_distances(left: Floats, right: Floats) -> Floats:
    """The same without gradient."""
    squared = left @ right.T
    squared *= -2
    squared += np.square(right).sum(1)
    squared += np.square(left).sum(1)[:, None]
    return np.maximum(squared, 0, out=squared)


def _selected(table: Tensor, places: Ids) -> Tensor:
    """Cells by their place in the flat table, whose gradient adds up faster than that of an index for each axis."""
    return table.flatten().index_select(0, as_tensor(places.ravel(), table)).view(places.shape)


def as_tensor(ids: Ids, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids)).to(like.device)
