"""MINERVA (Das et al. 2018): a walker with a memory that chooses, entity by entity, which fact to follow."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from ctp_core.config.base import BaseConfig
from ctp_core.config.walkers import MinervaConfig
from ctp_core.errors import ArtifactError
from ctp_core.models.facts_model import FactsView
from ctp_core.models.reach import FLOOR, ReachModel
from ctp_core.provers.edge_list import EdgeList
from ctp_core.shapes import Float, Int, Tensor

ACTIONS_SEED = 0  # which facts of a hub are considered does not depend on anything else

State = tuple[Float[Tensor, "row dim"], Float[Tensor, "row dim"]]


@dataclass(frozen=True)
class Actions:
    """What can be done at each entity: to stay, or to follow one of its facts either way; -1 beyond its own."""

    atoms: Int[Tensor, "entity action"]
    targets: Int[Tensor, "entity action"]

    @classmethod
    def of(cls, edges: EdgeList, most: int, device: torch.device) -> "Actions":
        stay = 2 * edges.num_predicates
        draw = np.random.default_rng(ACTIONS_SEED)
        own = [edges.of_entities(np.array([entity]))[1] for entity in range(edges.num_entities)]
        own = [draw.permutation(found)[:most] if len(found) > most else found for found in own]
        atoms = np.full((len(own), 1 + max(map(len, own), default=0)), -1)
        targets = np.zeros_like(atoms)
        for entity, found in enumerate(own):
            atoms[entity, 0], targets[entity, 0] = stay, entity
            atoms[entity, 1 : 1 + len(found)] = edges.atom[found]
            targets[entity, 1 : 1 + len(found)] = edges.head[found]
        return cls(torch.as_tensor(atoms, device=device), torch.as_tensor(targets, device=device))


class Walker(nn.Module):
    """π(action | walk so far, query): the atom of an action is compared with what the walker wants."""

    mean_reward: Tensor

    def __init__(self, num_predicates: int, config: MinervaConfig) -> None:
        super().__init__()
        self.start = 2 * num_predicates + 1  # beside the atoms and staying: the walk has not begun
        self.atoms = nn.Embedding(self.start + 1, config.dim)
        self.queries = nn.Embedding(2 * num_predicates, config.dim)
        self.memory = nn.LSTMCell(config.dim, config.dim)
        self.wish = nn.Sequential(nn.Linear(2 * config.dim, config.dim), nn.ReLU(), nn.Linear(config.dim, config.dim))
        self.register_buffer("mean_reward", torch.zeros(()))

    def begin(self, num_rows: int) -> State:
        nothing = self.atoms.weight.new_zeros(num_rows, self.memory.hidden_size)
        return self.step((nothing, nothing), torch.full((num_rows,), self.start, device=nothing.device))

    def step(self, state: State, atoms: Int[Tensor, " row"]) -> State:
        hidden, cell = self.memory(self.atoms(atoms), state)
        return hidden, cell

    def log_policy(
        self, state: State, queries: Int[Tensor, " row"], atoms: Int[Tensor, "row action"]
    ) -> Float[Tensor, "row action"]:
        """Over the actions that there are; -inf beyond them."""
        wish = self.wish(torch.cat([state[0], self.queries(queries)], dim=1))
        wanted = (wish @ self.atoms.weight.T).gather(1, atoms.clamp(min=0))
        return functional.log_softmax(wanted.masked_fill(atoms < 0, -torch.inf), dim=1)

    @torch.no_grad()
    def search(
        self, actions: Actions, query: int, starts: Int[Tensor, " subject"], length: int, beam: int
    ) -> tuple[Int[Tensor, "subject walk"], Float[Tensor, "subject walk"]]:
        """The likeliest walks from every start: where they end, and log π of each."""
        entities, chances = starts[:, None], torch.zeros(len(starts), 1, device=starts.device)
        state = self.begin(len(starts))
        for _ in range(length):
            width = entities.shape[1]
            atoms, targets = actions.atoms[entities.flatten()], actions.targets[entities.flatten()]
            queries = torch.full((len(atoms),), query, device=starts.device)
            policy = self.log_policy(state, queries, atoms).view(len(starts), width, -1)
            total = (chances[:, :, None] + policy).flatten(1)  # [subject, walk · action]
            chances, chosen = total.topk(min(beam, total.shape[1]), dim=1)
            entities = targets.view(len(starts), -1).gather(1, chosen)
            taken = atoms.view(len(starts), -1).gather(1, chosen).flatten()
            rows = (
                torch.arange(len(starts), device=starts.device)[:, None] * width + chosen // atoms.shape[1]
            ).flatten()
            state = self.step((state[0][rows], state[1][rows]), taken.clamp(min=0))
        return entities, chances


class MinervaModel(ReachModel):
    """An end is as likely as the likeliest walk to it; a fact is walked from both ends and gets the geometric mean.

    Published MINERVA asks p for objects and p⁻¹ for subjects; here a fact has one score, whichever place was asked for.
    """

    method: ClassVar[str] = "minerva"
    config: MinervaConfig
    module: Walker

    @classmethod
    def build(cls, config: BaseConfig, num_predicates: int) -> Walker:
        if not isinstance(config, MinervaConfig):
            raise ArtifactError(f"a config of method {config.method!r} is not that of MINERVA")
        return Walker(num_predicates, config)

    def reach(self, view: FactsView, predicate: int, subjects: NDArray[np.int64]) -> NDArray[np.float64]:
        everybody = np.arange(len(view.entities))
        there = self._walked(view, predicate, subjects)
        back = self._walked(view, predicate + len(view.predicates), everybody)[:, subjects].T
        return np.asarray(np.sqrt((there + FLOOR) * (back + FLOOR)))

    def _walked(self, view: FactsView, atom: int, starts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The chance of the likeliest walk to every entity."""
        device = self.module.mean_reward.device
        actions, begins = self._actions(view, device), torch.as_tensor(starts, device=device)
        ends, chances = self.module.search(actions, atom, begins, self.config.length, self.config.beam)
        found = torch.zeros(len(starts), len(view.entities), device=device)
        return np.asarray(found.scatter_reduce(1, ends, chances.exp(), "amax").double().cpu().numpy())

    def _actions(self, view: FactsView, device: torch.device) -> Actions:
        if view.extended:
            return Actions.of(view.edges, self.config.max_actions, device)
        if not hasattr(self, "_kb_actions"):
            self._kb_actions = Actions.of(view.edges, self.config.max_actions, device)
        return self._kb_actions
