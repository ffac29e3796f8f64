"""NeuralLP (Yang et al. 2017): an LSTM says, for each predicate, which operators a walk applies, and when it ends.

In training some facts of a predicate are hidden, and walks along the others must find them.
"""

import numpy as np
import torch
from jaxtyping import Bool
from numpy.typing import NDArray
from torch import nn

from ctp_core.base.facts_model import FactsView
from ctp_core.base.progress import OnPart, unheard
from ctp_core.base.rule_counts import with_counts
from ctp_core.rules import Body, Rule, by_what_they_explain, steps_of
from ctp_core.shapes import Float, Int, Tensor
from ctp_core.walkers.config import NeuralLpConfig
from ctp_core.walkers.model import FLOOR, ReachModel
from ctp_core.walkers.trainer import ReachTrainer

MIN_CONFIDENCE = 0.01  # of a listed rule
WALKS_KEPT = 200  # while rules are decoded

Walks = dict[tuple[int, ...], float]


class OperatorController(nn.Module):
    """For every step, attends to operators and to the steps before: u_t = (Σ_τ b_tτ u_τ) · Σ_k a_tk M_k.

    Operators are the predicates and their inverses. The last memory attention chooses among walks of all lengths.
    """

    def __init__(self, num_predicates: int, config: NeuralLpConfig) -> None:
        super().__init__()
        self.rank, self.length = config.rank, config.length
        self.queries = nn.Embedding(num_predicates * config.rank, config.dim)
        self.end = nn.Parameter(torch.zeros(config.dim))
        self.lstm = nn.LSTM(config.dim, config.dim, batch_first=True)
        self.start = nn.Parameter(torch.zeros(config.dim))
        self.operators = nn.Linear(config.dim, 2 * num_predicates)

    def attention(self, predicates: Int[Tensor, " goal"]) -> tuple[Float[Tensor, "row step atom"], list[Tensor]]:
        """Returns (a, [b_1, …]) for every goal and rank, in this order; b_t has a weight for each u before step t."""
        ranks = torch.arange(self.rank, device=predicates.device)
        queries = self.queries((predicates[:, None] * self.rank + ranks).flatten())  # [goal · rank, dim]
        inputs = torch.stack([*[queries] * self.length, self.end.expand_as(queries)], dim=1)
        states = self.lstm(inputs)[0]  # [row, step + 1, dim]
        keys = torch.cat([self.start.expand(len(states), 1, -1), states], dim=1)
        memory = [
            torch.einsum("rd,rkd->rk", states[:, step], keys[:, : step + 1]).softmax(dim=1)
            for step in range(self.length + 1)
        ]
        return self.operators(states[:, : self.length]).softmax(dim=2), memory

    def forward(
        self,
        predicates: Int[Tensor, " goal"],
        tables: Float[Tensor, "atom entity entity"],
        subjects: Int[Tensor, " subject"],
    ) -> Float[Tensor, "goal subject entity"]:
        """Sums over all walks from the subjects and averages over ranks."""
        attention, memory = self.attention(predicates)
        start = torch.eye(tables.shape[1], device=tables.device, dtype=tables.dtype)[subjects]
        reached = [start.expand(len(attention), -1, -1)]
        for step in range(self.length):
            operator = torch.tensordot(attention[:, step], tables, dims=1)  # [row, entity, entity]
            reached.append(self._remembered(memory[step], reached) @ operator)
        last = self._remembered(memory[self.length], reached)
        return last.view(len(predicates), self.rank, *last.shape[1:]).mean(dim=1)

    @staticmethod
    def _remembered(weights: Float[Tensor, "row step"], reached: list[Tensor]) -> Float[Tensor, "row subject entity"]:
        return torch.einsum("rt,rtse->rse", weights, torch.stack(reached, dim=1))

    @torch.no_grad()
    def walks(self, predicate: int) -> Walks:
        """Maps each sequence of operators to its weight in the sum over walks."""
        device = self.end.device
        attention, memory = self.attention(torch.tensor([predicate], device=device))
        found: Walks = {}
        for row in range(self.rank):
            reached: list[Walks] = [{(): 1.0 / self.rank}]
            for step in range(self.length):
                operators = attention[row, step].tolist()
                before = _mixed(reached, memory[step][row].tolist())
                reached.append(
                    _heaviest({(*w, k): weight * a for w, weight in before.items() for k, a in enumerate(operators)})
                )
            for walk, weight in _mixed(reached, memory[self.length][row].tolist()).items():
                found[walk] = found.get(walk, 0.0) + weight
        return found


def _mixed(parts: list[Walks], weights: list[float]) -> Walks:
    mixed: Walks = {}
    for part, share in zip(parts, weights, strict=True):
        for walk, weight in part.items():
            mixed[walk] = mixed.get(walk, 0.0) + share * weight
    return mixed


def _heaviest(walks: Walks) -> Walks:
    return dict(sorted(walks.items(), key=lambda item: -item[1])[:WALKS_KEPT])


class NeuralLpModel(ReachModel):
    """Reads rules off its attention. A score is the sum over walks by all rules, so no single proof explains it."""

    config_class = NeuralLpConfig
    module_class = OperatorController
    module: OperatorController
    _rules: list[Rule] | None = None  # once they were asked for

    @torch.no_grad()
    def reach(self, view: FactsView, predicate: int, subjects: NDArray[np.int64]) -> NDArray[np.float64]:
        device = self.module.end.device
        goal, starts = (torch.as_tensor(ids, device=device) for ids in ([predicate], subjects))
        found = self.module(goal, self.tables(view), starts)[0]
        return np.asarray(found.double().cpu().numpy())

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        if self._rules is None:
            self._rules = self._counted_rules(on_part)
        return self._rules

    def _counted_rules(self, on_part: OnPart) -> list[Rule]:
        names, found = self.kb.predicates.names, []
        for predicate in range(len(names)):
            for walk, weight in self.module.walks(predicate).items():
                if walk and weight >= MIN_CONFIDENCE:
                    found.append(Rule(names[predicate], Body(steps_of(names, walk)), min(1.0, weight)))
        return by_what_they_explain(with_counts(found, self.kb, on_part))


LOST = 0.01  # added to what ends at wrong entities, so that walks that end nowhere do not look right


class NeuralLpTrainer(ReachTrainer):
    """Minimises -log of the share of walks that end at the object of a hidden fact, and likewise at its subject."""

    model_class = NeuralLpModel
    config: NeuralLpConfig
    module: OperatorController

    def learning_rate(self, step: int, steps: int) -> float:
        del step, steps
        return self.config.learning_rate

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        goals, facts = batch.to(self.device), self.tables[batch.to(self.device)]
        hidden = self.hidden(facts)
        visible = self.tables.clone()
        visible[goals] -= hidden
        visible[goals + self.num_predicates] -= hidden.transpose(1, 2)
        reached = self.module(goals, visible, torch.arange(len(self.kb.entities), device=self.device))
        asked = hidden.bool()
        losses = [_unlikely(reached, facts.bool(), asked, entities) for entities in (2, 1)]
        return torch.stack(losses).sum() / asked.sum().clamp(min=1)


def _unlikely(
    reached: Float[Tensor, "goal entity entity"],
    facts: Bool[Tensor, "goal entity entity"],
    asked: Bool[Tensor, "goal entity entity"],
    entities: int,
) -> Float[Tensor, ""]:
    """Sums -log(true / (true + false)) over the asked facts.

    `true` is what is reached of a fact, `false` all that is reached along the axis `entities` and is not a fact.
    """
    false = reached.masked_fill(facts, 0.0).sum(dim=entities, keepdim=True).expand_as(reached)[asked]
    true = reached[asked] + FLOOR
    return ((true + false + LOST).log() - true.log()).sum()
