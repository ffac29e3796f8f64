"""The paper's prover on one KB: vectors for predicates and entities, `select`, and the best proof of each goal.

A score is that of one proof, so its gradient is that of one proof: the search runs without gradients and exactly,
and only the unifications of the proof it finds are computed again for learning. Facts get their gradient too.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ctp_core.config.ctp import CtpConfig
from ctp_core.kernels import ExponentialKernel
from ctp_core.provers.soft_entities import TIMES, Floats, Ids, SoftFacts, SoftSearch
from ctp_core.rules import Template
from ctp_core.select.base import SelectOptions, uniform
from ctp_core.select.registry import SELECTS
from ctp_core.semiring import SEMIRINGS
from ctp_core.unification import UNIFICATIONS

MIN_HEAD = 1e-30  # a rule that is not tried has head 0; its distance must be huge but finite


@dataclass(frozen=True)
class Goals:
    """Atoms to prove; `own` is the row of the fact that a goal may not use, or -1."""

    predicate: Int[np.ndarray, " goal"]
    subject: Int[np.ndarray, " goal"]
    object: Int[np.ndarray, " goal"]
    own: Int[np.ndarray, " goal"]


@dataclass(frozen=True)
class Shape:
    """All reformulators of one template for the distinct predicates of some goals."""

    template: Template
    bodies: Float[Tensor, "predicate reformulator place dim"]
    heads: Float[Tensor, "predicate reformulator"] | None
    costs: Float[np.ndarray, "predicate reformulator place known"]  # squared distances to the known predicates

    def ends(self, goals: Goals) -> tuple[Ids, Ids]:
        return (goals.object, goals.subject) if self.template.reversed else (goals.subject, goals.object)


@dataclass(frozen=True)
class Found:
    """The best proof by each reformulator of a shape: distances and the entities it passes."""

    distance: Float[np.ndarray, "goal reformulator"]
    stations: Int[np.ndarray, "goal reformulator place+1"]


class SoftTheory(nn.Module):
    """All that is learnt; its vectors start uniform, as published."""

    def __init__(
        self,
        config: CtpConfig,
        num_entities: int,
        num_predicates: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        super().__init__()
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
        self.predicates = uniform((num_predicates, config.dim), config.initial_range, generator)
        self.entities = uniform((num_entities, config.dim), config.initial_range, generator)
        self.to(device)

    def shapes(self, predicates: Int[Tensor, " predicate"]) -> list[Shape]:
        """What `select` makes of the goal predicates; first the goal itself where template `0` is listed."""
        goals = self.predicates[predicates]
        shapes = []
        if self.match_facts:
            shapes.append(self._shape(Template(1), goals[:, None, None, :], None))
        for expansion in self.select(goals, self.predicates) if self.select.groups else ():
            bodies = expansion.bodies.expand(len(goals), -1, -1, -1)
            shapes.append(self._shape(expansion.template, bodies, expansion.heads))
        return shapes

    def _shape(self, template: Template, bodies: Tensor, heads: Tensor | None) -> Shape:
        with torch.no_grad():
            costs = torch.cdist(bodies.flatten(0, 2), self.predicates) ** 2
        return Shape(template, bodies, heads, costs.view(*bodies.shape[:3], -1).cpu().numpy())

    def search(self, facts: SoftFacts) -> SoftSearch:
        with torch.no_grad():
            squared = torch.cdist(self.entities, self.entities) ** 2
            squared.fill_diagonal_(0)
        return SoftSearch(facts, squared.cpu().numpy(), self.config.unification)

    def scores(self, goals: Goals, facts: SoftFacts) -> Float[Tensor, " goal"]:
        """The score of the best proof of each goal, with its exact gradient."""
        distinct, row = np.unique(goals.predicate, return_inverse=True)
        shapes = self.shapes(torch.from_numpy(distinct).to(self.predicates.device))
        search = self.search(facts)
        found = [best_of_shape(search, shape, goals, row, self.config) for shape in shapes]
        widths = [one.distance.shape[1] for one in found]
        best = np.concatenate([one.distance for one in found], axis=1).argmin(1)
        shape_of = np.repeat(np.arange(len(found)), widths)[best]
        reformulator = best - (np.cumsum(widths) - widths)[shape_of]
        scores = self.predicates.new_zeros(len(best))
        for index, (shape, one) in enumerate(zip(shapes, found, strict=True)):
            chosen = np.flatnonzero(shape_of == index)
            if len(chosen):
                leaves = _Leaves.of(search, shape, goals, row, chosen, reformulator[chosen], one)
                scores = scores.index_put((_tensor(chosen, scores),), self._score(shape, leaves, facts))
        return scores

    def _score(self, shape: Shape, leaves: "_Leaves", facts: SoftFacts) -> Float[Tensor, " goal"]:
        """⊗ of the head and of every body atom's unification with its fact."""
        device = self.predicates
        row, reformulator = _tensor(leaves.row, device), _tensor(leaves.reformulator, device)
        vectors = shape.bodies[row, reformulator]  # [goal, place, dim]
        fact = facts.facts[leaves.fact]  # [goal, place, 3]
        subject, predicate, object_ = (_tensor(fact[..., place], device) for place in range(3))
        left, right = _tensor(leaves.stations[:, :-1], device), _tensor(leaves.stations[:, 1:], device)
        parts = UNIFICATIONS[self.config.unification](
            self.kernel,
            _squared(vectors, self.predicates[predicate]),
            _squared(self.entities[left], self.entities[subject]),
            _squared(self.entities[right], self.entities[object_]),
        )
        atoms = list(parts.unbind(1))
        heads = [] if shape.heads is None else [shape.heads[row, reformulator]]
        return SEMIRINGS[self.config.semiring].product([*heads, *atoms])


@dataclass(frozen=True)
class _Leaves:
    """The unifications of the chosen proofs of one shape."""

    row: Int[np.ndarray, " goal"]
    reformulator: Int[np.ndarray, " goal"]
    stations: Int[np.ndarray, "goal place+1"]
    fact: Int[np.ndarray, "goal place"]

    @classmethod
    def of(
        cls, search: SoftSearch, shape: Shape, goals: Goals, row: Ids, chosen: Ids, reformulator: Ids, found: Found
    ) -> "_Leaves":
        stations = found.stations[chosen, reformulator]
        costs = shape.costs[row[chosen], reformulator]
        facts = [
            search.pair(costs[:, place], stations[:, place], stations[:, place + 1], goals.own[chosen]).argmin(1)
            for place in range(costs.shape[1])
        ]
        return cls(row[chosen], reformulator, stations, np.stack(facts, axis=1))


def best_of_shape(search: SoftSearch, shape: Shape, goals: Goals, row: Ids, config: CtpConfig) -> Found:
    """For each goal and reformulator the distance of its best proof, exactly."""
    num_goals, width = len(row), shape.bodies.shape[1]
    costs = shape.costs[row].reshape(num_goals * width, *shape.costs.shape[2:])  # [query, place, known]
    left, right = (np.repeat(end, width) for end in shape.ends(goals))
    own = np.repeat(goals.own, width)
    distance, stations = _best_chain(search, costs, (left, right), own, config.semiring)
    distance = distance.reshape(num_goals, width)
    if shape.heads is not None:
        heads = shape.heads.detach().clamp(min=MIN_HEAD).log().neg().cpu().numpy() / config.slope
        distance = TIMES[config.semiring](distance, heads[row])
    return Found(distance, stations.reshape(num_goals, width, -1))


def _best_chain(
    search: SoftSearch, costs: Floats, ends: tuple[Ids, Ids], own: Ids, semiring: str
) -> tuple[Floats, Ids]:
    """(distance, stations) of the best path through the body places of each query."""
    left, right = ends
    length = costs.shape[1]
    if length == 1:
        squared = search.join(costs[:, 0], search.nearest(left, right, own)).min(1)
        return np.sqrt(squared), np.stack([left, right], axis=1)
    times, query = TIMES[semiring], np.arange(len(left))
    reached, back = search.row(costs[:, 0], left, own), []
    for place in range(1, length - 1):
        tables = np.stack([search.table(cost, int(fact)) for cost, fact in zip(costs[:, place], own, strict=True)])
        steps = times(reached[:, :, None], tables)  # [query, from, to]
        back.append(steps.argmin(1))
        reached = steps.min(1)
    total = times(reached, search.row(costs[:, -1], right, own, open_subject=True))
    station = total.argmin(1)
    path = [right, station]
    for pointers in reversed(back):
        path.append(pointers[query, path[-1]])
    return total[query, station], np.stack([left, *reversed(path)], axis=1)


def _squared(left: Tensor, right: Tensor) -> Tensor:
    return ((left - right) ** 2).sum(-1)


def _tensor(ids: Ids, like: Tensor) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids)).to(like.device)
