"""NeuralLP (Yang et al. 2017): an LSTM says, for each predicate, which operators a walk applies, and when it ends."""

from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ctp_core.config.base import BaseConfig
from ctp_core.config.walkers import NeuralLpConfig
from ctp_core.errors import ArtifactError
from ctp_core.models.chain_rules import chain_rule
from ctp_core.models.facts_model import FactsView
from ctp_core.models.reach import ReachModel
from ctp_core.provers.evidence import atom_tables
from ctp_core.rule_counts import with_counts
from ctp_core.rules import Rule
from ctp_core.shapes import Float, Int, Tensor

MIN_CONFIDENCE = 0.01  # of a listed rule
WALKS_KEPT = 200  # while rules are decoded

Walks = dict[tuple[int, ...], float]


class OperatorController(nn.Module):
    """Attention over operators for every step, and over the steps before it: u_t = (Σ_τ b_tτ u_τ) · Σ_k a_tk M_k.

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
        """(a, [b_1, …]) for every goal and rank, rows in that order; b_t has one weight for each u before step t."""
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
        """The sum over all walks, averaged over ranks."""
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
        """Operators in order -> their weight in the sum: what the matrices are multiplied out to."""
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
    """Rules can be read off its attention, but a score is the sum over walks of all of them: no proof stands for it."""

    method: ClassVar[str] = "neurallp"
    module: OperatorController

    @classmethod
    def build(cls, config: BaseConfig, num_predicates: int) -> OperatorController:
        if not isinstance(config, NeuralLpConfig):
            raise ArtifactError(f"a config of method {config.method!r} is not that of NeuralLP")
        return OperatorController(num_predicates, config)

    @torch.no_grad()
    def reach(self, view: FactsView, predicate: int, subjects: NDArray[np.int64]) -> NDArray[np.float64]:
        device = self.module.end.device
        tables = self._operators_of(view) if view.extended else self._operators
        goal, starts = (torch.as_tensor(ids, device=device) for ids in ([predicate], subjects))
        found = self.module(goal, tables, starts)[0]
        return np.asarray(found.double().cpu().numpy())

    @cached_property
    def _operators(self) -> Float[Tensor, "atom entity entity"]:
        return self._operators_of(self._kb_view)

    def _operators_of(self, view: FactsView) -> Float[Tensor, "atom entity entity"]:
        return atom_tables(view.edges.facts, len(view.entities), len(view.predicates), self.module.end.device)

    def rules(self) -> list[Rule]:
        return self._rules

    @cached_property
    def _rules(self) -> list[Rule]:
        names, found = self.kb.predicates.names, []
        for predicate in range(len(names)):
            for walk, weight in self.module.walks(predicate).items():
                if walk and weight >= MIN_CONFIDENCE:
                    found.append(chain_rule(names, predicate, str(len(walk)), walk, min(1.0, weight)))
        return sorted(with_counts(found, self.kb), key=lambda rule: (-rule.confidence, rule.text))
