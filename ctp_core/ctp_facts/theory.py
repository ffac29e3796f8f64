"""The paper's prover on one KB: vectors for predicates and entities, `select`, and the best proof of each goal.

A score comes from one proof, and so does its gradient: the search is exact and runs without gradients, and only the
unifications of the proof found are computed again for learning. Facts get their gradient too.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ctp_core.base.cost import fits_tables
from ctp_core.ctp_facts import unification
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.entities import Ids, SoftFacts, SoftSearch
from ctp_core.ctp_facts.plans import Plan, plans
from ctp_core.ctp_facts.search import Chains, Goals, GoalSearch, Leaves, as_tensor, pairwise_squared, squared_distances
from ctp_core.ctp_facts.unification import Unifications, proof_distances
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.kernels import ExponentialKernel
from ctp_core.rules import Template
from ctp_core.select.base import Expansion, SelectOptions, uniform
from ctp_core.select.registry import select_class
from ctp_core.tnorm.registry import TNORMS, on_distances

ROUNDS = 2  # times that vectors spread along facts; the second adds what is stated of an entity's neighbours
OWN = 0.3  # weight of an entity's own random vector, so that no two entities are equal
MIN_HEAD = 1e-30  # a rule that is not tried has head 0; its distance must be large but finite


class SoftTheory(nn.Module):
    """All learnt parameters. Vectors start uniformly at random, as published."""

    nearest: Int[Tensor, "entity k"]  # exists only where tables do not fit

    def __init__(
        self,
        config: CtpFactsConfig,
        num_entities: int,
        num_predicates: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        super().__init__()
        self.config, self.tnorm = config, TNORMS[config.semiring]
        self.distance_times = on_distances(self.tnorm.name)
        self.kernel = ExponentialKernel(config.slope)
        templates = tuple(Template.parse(text) for text in config.templates)
        self.match_facts = any(template.length == 0 for template in templates)
        options = SelectOptions(
            tuple(template for template in templates if template.length),
            config.dim,
            num_predicates,
            self.kernel,
            memory=config.memory,
            memory_start=config.memory_start,
            top_k=config.top_k,
        )
        self.select = select_class(config.select)(options, generator)
        self.plans = plans(self.select.groups, config.depth, match_facts=self.match_facts)
        shallow = min(config.depth, config.train_depth)
        self.training_plans = plans(self.select.groups, shallow, match_facts=self.match_facts)
        self.predicates = uniform((num_predicates, config.dim), config.initial_range, generator)
        self.entities = uniform((num_entities, config.dim), config.initial_range * config.entity_scale, generator)
        self.dense = config.neighbours == "tables" or (
            config.neighbours == "auto" and fits_tables(num_entities, num_predicates)
        )
        if not self.dense:
            alone = torch.full((num_entities, min(config.nearest, num_entities)), -1)
            alone[:, 0] = torch.arange(num_entities)
            self.register_buffer("nearest", alone)  # the entities that may stand in for each entity
        self.to(device)

    # The chains that proofs follow

    def chains(self, predicates: Int[Tensor, " predicate"], shapes: Sequence[Plan] | None = None) -> list[Chains]:
        """One entry for each plan, by default those used for answers; facts come first where template `0` is listed."""
        goals = self.predicates.index_select(0, predicates)
        rules = self.select(goals, self.predicates)
        return [Chains(plan, *self._unfold(plan, goals, rules), known=self.predicates) for plan in shapes or self.plans]

    def _unfold(
        self, plan: Plan, goals: Float[Tensor, "goal dim"], rules: Sequence[Expansion]
    ) -> tuple[Float[Tensor, "goal chain place dim"], Float[Tensor, "goal chain"] | None]:
        """The vectors at the leaves of a plan along the path, for every choice of reformulators; and their guards.

        `rules` are those that `select` makes for these goals.
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
        """⊗ of distances."""
        return reduce(self.distance_times.tensors, distances)

    # The search, and the gradient of the proofs found

    def entity_squared(self) -> Float[Tensor, "entity entity"]:
        """Squared distances between all entities; the diagonal is exactly 0."""
        squared = pairwise_squared(self.entities, self.entities)
        return squared * (1 - torch.eye(len(squared), device=squared.device, dtype=squared.dtype))

    def scores(self, goals: Goals, facts: SoftFacts, shapes: Sequence[Plan] | None = None) -> Float[Tensor, " goal"]:
        """The score of the best proof of each goal, with its exact gradient."""
        distinct, row = np.unique(goals.predicate, return_inverse=True)
        chains = self.chains(torch.from_numpy(distinct).to(self.predicates.device), shapes)
        entities = self.entities.detach().cpu().numpy()
        squared = squared_distances(entities, entities)
        np.fill_diagonal(squared, 0)
        times = self.distance_times.arrays
        search = GoalSearch(SoftSearch(facts, squared, self.config.unification), goals, row, times)
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
        """The distance of each proof: ⊗ of its heads and unifications; `order` is the place of each proof."""
        vectors = torch.cat([chains.vectors.flatten(0, 2) for chains, _ in proved])
        heads = [_heads(*one) for one in proved]
        headed = any(chains.guards is not None for chains, _ in proved)
        placed = torch.cat(heads)[as_tensor(order.argsort(), self.entities)] if headed else None
        atoms = _unifications(proved, facts, order, self.entities)
        semantics = (self.config.unification, self.distance_times)
        return proof_distances(vectors, self.predicates, self.entities, placed, atoms, semantics)

    def distances_by_tables(
        self, chains: Chains, leaves: Leaves, facts: SoftFacts, squared: Float[Tensor, "entity entity"]
    ) -> Float[Tensor, " proof"]:
        """Like `distances`, but reads those of entities from a table, which is faster for many proofs."""
        fact = facts.facts[leaves.fact]  # [proof, place, 3]
        gaps = _selected(squared, leaves.met(chains.plan) * len(squared) + fact[:, :, [0, 2]].transpose(2, 0, 1))
        costs = _selected(chains.squared, np.ravel_multi_index((*leaves.atoms, fact[:, :, 1]), chains.squared.shape))
        return self._proofs(unification.distance(self.config.unification, costs, *gaps), chains, leaves)

    def _proofs(self, atoms: Tensor, chains: Chains, leaves: Leaves) -> Float[Tensor, " proof"]:
        """⊗ of the atoms and the heads of each proof."""
        parts = list(atoms.view(leaves.fact.shape).unbind(1))
        if chains.guards is not None:
            row, chain = as_tensor(leaves.row, self.entities), as_tensor(leaves.chain, self.entities)
            parts.append(chains.guards[row, chain])
        return self.times(parts)


def _heads(chains: Chains, leaves: Leaves) -> Float[Tensor, " proof"]:
    """The distance of the heads of each proof, 0 where no head is unified."""
    if chains.guards is None:
        return chains.known.new_zeros(len(leaves.row))
    return chains.guards[as_tensor(leaves.row, chains.known), as_tensor(leaves.chain, chains.known)]


def _unifications(proved: Sequence[tuple[Chains, Leaves]], facts: SoftFacts, order: Ids, like: Tensor) -> Unifications:
    """Every atom of these proofs; its row counts within the vectors of all chains together."""
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


def _selected(table: Tensor, places: Ids) -> Tensor:
    """Reads cells by their place in the flat table; its gradient is faster than that of indexing by axis."""
    return table.flatten().index_select(0, as_tensor(places.ravel(), table)).view(places.shape)


@torch.no_grad()
def start_from_facts(theory: SoftTheory, facts: FactIds, generator: torch.Generator) -> None:
    """Moves entities near to those with similar facts: each becomes a random projection of its facts.

    Each vector keeps its length, and entities without facts keep their vector. A fact p(i, j) adds j's vector to i's
    with random signs of p, and i's vector to j's with other signs; entities with many facts add less to each.
    """
    vectors = theory.entities.data
    subject, predicate, object_ = (as_tensor(column, vectors) for column in facts.T)
    signs = torch.randint(0, 2, (2, len(theory.predicates), vectors.shape[1]), generator=generator).to(vectors) * 2 - 1
    degree = torch.bincount(torch.cat([subject, object_]), minlength=len(vectors)).clamp(min=1).to(vectors)
    length = vectors.norm(dim=1, keepdim=True)
    for _ in range(ROUNDS):
        said = vectors / degree.sqrt()[:, None]
        gathered = torch.zeros_like(vectors)
        gathered.index_add_(0, subject, said[object_] * signs[0, predicate])
        gathered.index_add_(0, object_, said[subject] * signs[1, predicate])
        vectors = _of_length_one(_of_length_one(gathered) + OWN * _of_length_one(vectors)) * length
    theory.entities.data.copy_(vectors)


def _of_length_one(vectors: Tensor) -> Tensor:
    return torch.div(vectors, vectors.norm(dim=1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny))
