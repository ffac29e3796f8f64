"""MINERVA (Das et al. 2018): a walker with a memory that chooses, entity by entity, which fact to follow.

Entities have no vectors, as in the published runs on these KBs: all facts of one predicate at an entity are equally
attractive. So the walker chooses an atom, weighted by how many facts of it the entity has, and then any of those facts.

In training, a walk is rewarded where it ends at the object of the fact it was asked for. The published code samples
walks and estimates the gradient of the expected reward (REINFORCE). Here the rewards of all walks are summed, and the
mean of the logarithm is maximised: there is no noise, and a fact that is hardly ever found teaches as much as others
(docs/decisions/0035-minerva-without-sampling.md).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ctp_core.base.edges import atom_tables
from ctp_core.base.facts_model import FactsView
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.shapes import Float, Int, Tensor
from ctp_core.walkers.config import MinervaConfig
from ctp_core.walkers.model import FLOOR, ReachModel
from ctp_core.walkers.trainer import ReachTrainer

# Bounds the logits: where the wanted atom is missing, a walk goes on by another, whose exp must not vanish.
SHARPEST = 10.0

State = tuple[Float[Tensor, "row dim"], Float[Tensor, "row dim"]]


class Walker(nn.Module):
    """π(fact | walk so far, query): the atom of a fact is compared with what the walker wants."""

    def __init__(self, num_predicates: int, config: MinervaConfig) -> None:
        super().__init__()
        self.start = 2 * num_predicates + 1  # after the atoms and staying: a walk that has not begun
        self.atoms = nn.Embedding(self.start + 1, config.dim)
        self.queries = nn.Embedding(2 * num_predicates, config.dim)
        self.memory = nn.LSTMCell(config.dim, config.dim)
        self.wish = nn.Sequential(nn.Linear(2 * config.dim, config.dim), nn.ReLU(), nn.Linear(config.dim, config.dim))

    def begin(self, num_rows: int) -> State:
        nothing = self.atoms.weight.new_zeros(num_rows, self.memory.hidden_size)
        return self.step((nothing, nothing), torch.full((num_rows,), self.start, device=nothing.device))

    def step(self, state: State, atoms: Int[Tensor, " row"]) -> State:
        hidden, cell = self.memory(self.atoms(atoms), state)
        return hidden, cell

    def wanted(self, state: State, queries: Int[Tensor, " row"]) -> Float[Tensor, "row atom"]:
        """The logit of one fact of each atom, within ±SHARPEST."""
        wish = self.wish(torch.cat([state[0], self.queries(queries)], dim=1))
        return SHARPEST * torch.tanh(wish @ self.atoms.weight[: self.start].T / SHARPEST)

    def walk(
        self, query: int, tables: Float[Tensor, "atom entity entity"], length: int, beam: int
    ) -> tuple[Float[Tensor, "entity entity"], Float[Tensor, ""]]:
        """The chance that a walk from one entity ends at the other, and the mean entropy of its choices.

        The memory depends only on the atoms of a walk, so walks with the same atoms are one sequence. Where there are
        more sequences than `beam`, only the likeliest go on.
        """
        counts, size = tables.sum(dim=2).T, tables.shape[1]
        state, reached = self.begin(1), torch.eye(size, device=tables.device)[None]  # [sequence, start, entity]
        entropy = reached.new_zeros(())
        for step in range(length):
            wanted = self.wanted(state, torch.full((len(reached),), query, device=tables.device))
            wanted = wanted - wanted.detach().amax(dim=1, keepdim=True)
            powers = wanted.exp()
            totals = (powers @ counts.T).clamp(min=FLOOR)  # [sequence, entity]
            open_there = totals.log() - (powers * wanted) @ counts.T / totals
            entropy = entropy + (reached.sum(dim=1) * open_there).sum() / (size * length)
            shares = reached / totals[:, None]
            if step == length - 1:
                break
            mass = (shares.sum(dim=1) @ counts * powers).detach()  # [sequence, atom]
            chosen = mass.flatten().topk(min(beam, mass.numel())).indices
            sequence, atom = chosen // mass.shape[1], chosen % mass.shape[1]
            reached = (shares[sequence] * powers[sequence, atom][:, None, None]) @ tables[atom]
            state = self.step((state[0][sequence], state[1][sequence]), atom)
        return (shares @ torch.tensordot(powers, tables, dims=1)).sum(dim=0), entropy


class MinervaModel(ReachModel):
    """Walks a fact from both ends and takes the geometric mean of the two chances.

    Published MINERVA asks p for objects and p⁻¹ for subjects; here a fact has one score, whichever place was asked for.
    """

    config_class = MinervaConfig
    module_class = Walker
    config: MinervaConfig
    module: Walker

    @staticmethod
    def num_tables(config: MinervaConfig, num_predicates: int) -> int:
        """A walk has a table for each sequence that it follows, and for each atom; the larger number counts."""
        return max(2 * num_predicates, config.beam)

    @staticmethod
    def tables_of(
        facts: FactIds, num_entities: int, num_predicates: int, device: torch.device
    ) -> Float[Tensor, "atom entity entity"]:
        """The table of where each atom leads; the last atom stays where it is."""
        tables = atom_tables(facts, num_entities, num_predicates, device)
        return torch.cat([tables, torch.eye(num_entities, device=device)[None]])

    @torch.no_grad()
    def reach(self, view: FactsView, predicate: int, subjects: NDArray[np.int64]) -> NDArray[np.float64]:
        tables = self.tables(view)
        there, back = (
            self.module.walk(query, tables, self.config.length, self.config.beam)[0].double().cpu().numpy()
            for query in (predicate, predicate + len(view.predicates))
        )
        return np.asarray(np.sqrt((there + FLOOR) * (back.T + FLOOR)))[subjects]


class MinervaTrainer(ReachTrainer):
    """Hides facts of a predicate or its inverse and asks for them; a walk to another true answer does not count."""

    model_class = MinervaModel
    config: MinervaConfig
    module: Walker

    def questions(self, predicates: Int[np.ndarray, " predicate"]) -> Int[np.ndarray, " question"]:
        """What an epoch asks for once: each predicate that has facts, and its inverse."""
        return np.concatenate([predicates, predicates + self.num_predicates])

    def learning_rate(self, step: int, steps: int) -> float:
        return self.config.learning_rate * (1 - step / steps)

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        """-(mean log chance of the hidden facts + weighted entropy of the choices)."""
        parts = [self._walked(query) for query in batch.tolist()]
        rewards = torch.cat([reward for reward, _ in parts])
        openness = self.config.entropy * (1 - self.made) * torch.stack([entropy for _, entropy in parts]).mean()
        return -(rewards.sum() / max(1, len(rewards)) + openness)

    def _walked(self, query: int) -> tuple[Float[Tensor, " fact"], Float[Tensor, ""]]:
        """The log chance of every hidden fact among walks that do not end at another true answer, and the entropy."""
        facts = self.tables[query]
        hidden = self.hidden(facts)
        visible = self.tables.clone()
        visible[query] -= hidden
        visible[(query + self.num_predicates) % (2 * self.num_predicates)] -= hidden.T
        reached, entropy = self.module.walk(query, visible, self.config.length, self.config.beam)
        wrong = (reached * (1 - facts)).sum(dim=1, keepdim=True)
        return ((reached + FLOOR) / (reached + wrong + FLOOR))[hidden.bool()].log(), entropy
