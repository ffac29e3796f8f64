"""Trains the attention head: one-vs-all over all pairs of entities, a few predicates at a time."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ctp_core.base.calibration import level
from ctp_core.base.cost import check_dense
from ctp_core.base.edges import atom_tables
from ctp_core.base.evaluation import known_filters, rank_facts
from ctp_core.base.facts_trainer import CalibratedTrainer, FactsTrainer
from ctp_core.base.goals import GoalIds
from ctp_core.base.training_loop import one_cycle
from ctp_core.evidence.attention_counts import AskedFacts
from ctp_core.evidence.attention_head import EXCLUDED, AttentionHead, inverse_softplus
from ctp_core.evidence.config import Loss, ProofsConfig
from ctp_core.evidence.cost import attention_cells
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.kb.knowledge_base import FactsKB

REMEDY = "lower `batch_size`, `members` or the numbers in `templates`, or use 'rules' or 'complex'"
FORGIVENESS = 0.5  # of pairs that are not stated, by cross-validation on Nations: docs/lab/links.md

LossFunction = Callable[[Float[Tensor, "goal entity entity"], Float[Tensor, "goal entity entity"]], Float[Tensor, ""]]


def binary(
    logits: Float[Tensor, "goal entity entity"], facts: Float[Tensor, "goal entity entity"]
) -> Float[Tensor, ""]:
    """Cross-entropy of every pair on its own: calibrated, but most of its weight lies on easy pairs."""
    return functional.binary_cross_entropy_with_logits(logits, facts, reduction="sum")


def open_world(
    logits: Float[Tensor, "goal entity entity"], facts: Float[Tensor, "goal entity entity"]
) -> Float[Tensor, ""]:
    """Cross-entropy of the facts; of every other pair (1 - (1 - score)^q) / q, q = FORGIVENESS.

    That is its cross-entropy for q = 0 and its score for q = 1 (Zhang & Sabuncu 2018). A pair that all evidence
    speaks for is probably a fact that nobody stated, and its gradient ends there instead of growing.
    """
    stated = functional.softplus(-logits)
    unstated = -torch.expm1(-FORGIVENESS * functional.softplus(logits)) / FORGIVENESS
    return torch.where(facts.bool(), stated, unstated).sum()


def softmax(
    logits: Float[Tensor, "goal entity entity"], facts: Float[Tensor, "goal entity entity"]
) -> Float[Tensor, ""]:
    """-log of the chance of the true object among all objects that are not also true, and likewise for subjects."""
    false = logits.masked_fill(facts.bool(), -torch.inf)
    loss = logits.new_zeros(())
    for entities in (2, 1):
        rivals = torch.logsumexp(false, entities, keepdim=True).clamp(min=torch.finfo(logits.dtype).min)
        loss = loss + (functional.softplus(rivals - logits) * facts).sum()
    return loss


LOSSES: dict[Loss, LossFunction] = {"binary": binary, "softmax": softmax, "open_world": open_world}


class Ensemble(nn.Module):
    """The mean of the logits of heads that differ in their random start: steadier than any of them."""

    def __init__(self, heads: list[AttentionHead]) -> None:
        super().__init__()
        self.members = nn.ModuleList(heads)

    @property
    def heads(self) -> list[AttentionHead]:
        return [head for head in self.members if isinstance(head, AttentionHead)]

    def logits(
        self, tables: Float[Tensor, "atom entity entity"], goals: Int[Tensor, " goal"]
    ) -> Float[Tensor, "goal entity entity"]:
        return torch.stack([head.logits(tables, goals) for head in self.heads]).mean(0)

    def merged(self) -> AttentionHead:
        """One head with the reformulators of all, each at its share of the weight: the same logits, the same proofs."""
        heads = self.heads
        if len(heads) == 1:
            return heads[0]
        first = heads[0]
        widths = {template: len(heads) * width for template, width in first.templates.items()}
        sizes, how = (first.num_predicates, widths), (first.saturation, first.counting)
        merged = AttentionHead(*sizes, torch.Generator(), first.bias.device, 1.0, *how)
        with torch.no_grad():
            for name in map(str, widths):
                merged.attention_logits[name].copy_(torch.cat([h.attention_logits[name] for h in heads], 1))
                strengths = torch.cat([functional.softplus(h.weights[name]) for h in heads], 1)
                merged.weights[name].copy_(inverse_softplus(strengths / len(heads)))
            merged.bias.copy_(torch.stack([head.bias for head in heads]).mean(0))
            merged.loop_bias.copy_(torch.stack([head.loop_bias for head in heads]).mean(0))
        return merged.requires_grad_(False)


class AttentionTrainer(CalibratedTrainer[ProofsModel], FactsTrainer[ProofsModel]):
    """Adam with a one-cycle rate; keeps the weights that were best on validation."""

    config: ProofsConfig
    module: Ensemble

    def __init__(self, config: ProofsConfig, kb: FactsKB, device: torch.device) -> None:
        super().__init__(config, kb, device, config.eval_every)
        self._sizes = (len(kb.entities), len(kb.predicates))
        check_dense(attention_cells(config, *self._sizes), config.method, REMEDY)
        self.module = Ensemble([self._new_head(config) for _ in range(config.members)])
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=config.learning_rate)
        self._tables = atom_tables(self.split.train, *self._sizes, device)
        self._goals = torch.from_numpy(np.unique(self.split.train[:, 1]))

    def _new_head(self, config: ProofsConfig) -> AttentionHead:
        num_predicates = self._sizes[1]
        return AttentionHead(
            num_predicates,
            config.widths,
            self.generator,
            self.device,
            scale=config.initial_scale,
            saturation=config.saturation,
            counting=config.counting,
        )

    def batches(self) -> Sequence[Tensor]:
        order = self._goals[torch.randperm(len(self._goals), generator=self.generator)]
        return torch.split(order, self.config.batch_size)

    def learning_rate(self, step: int, steps: int) -> float:
        return one_cycle(step, steps, self.config.learning_rate)

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        """Each member learns on its own; their losses are summed so that one step serves all."""
        goals = batch.to(self.device)
        return torch.stack([self._loss_of(head, goals) for head in self.module.heads]).sum()

    def _loss_of(self, head: AttentionHead, goals: Int[Tensor, " goal"]) -> Float[Tensor, ""]:
        visible = self._visible()
        facts, shown = self._tables[goals], visible[goals]
        if self.config.ranked == "hidden":  # a shown fact is neither a target nor a rival
            logits, facts = head.logits(visible, goals).masked_fill(shown.bool(), EXCLUDED), facts - shown
        else:
            goal, subject, object_ = shown.nonzero().unbind(1)
            logits = head.logits(visible, goals, AskedFacts(goal, goals[goal], subject, object_))
        loss = LOSSES[self.config.loss](logits, facts)
        return (loss + self.config.sparsity * head.sparsity(goals)) / len(goals)

    def _visible(self) -> Float[Tensor, "atom entity entity"]:
        """The tables without a random share of the facts: no proof may rest on the KB being complete."""
        if not self.config.hidden_facts:
            return self._tables
        kept = torch.rand(len(self.split.train), generator=self.generator) >= self.config.hidden_facts
        return atom_tables(self.split.train[kept.numpy()], *self._sizes, self.device)

    def ranks(self) -> Float[np.ndarray, " question"]:
        goals = torch.from_numpy(np.unique(self.split.valid[:, 1])).to(self.device)
        logits = torch.cat([self.module.logits(self._tables, goal[None]) for goal in goals]).cpu().numpy()
        row = np.zeros(len(self.kb.predicates), dtype=np.int64)
        row[goals.cpu().numpy()] = np.arange(len(goals))

        def score(asked: GoalIds) -> Float[np.ndarray, "goal entity"]:
            table = row[asked.predicates]
            return logits[table, asked.given] if asked.forward else logits[table, :, asked.given]

        return rank_facts(self.split.valid, score, known_filters(self.kb, "valid"), self.on_part)

    def model_on(self, kb: FactsKB) -> ProofsModel:
        """The model with the best weights so far, applied to the facts of this KB."""
        head = self.with_best_weights(self.module).merged()
        return ProofsModel(self.config, kb, head, self._offsets(head) if self.config.loss == "softmax" else None)

    def _offsets(self, head: AttentionHead) -> Float[np.ndarray, " predicate"]:
        """The level of each predicate's logits at which as many facts are expected as are stated.

        Softmax only tells how far facts are above their rivals; with these offsets a score is a probability and
        predicates can be compared.
        """
        found = np.zeros(len(self.kb.predicates))
        for predicate in range(len(found)):
            goal = torch.tensor([predicate], device=self.device)
            row, subject, object_ = self._tables[goal].nonzero().unbind(1)
            with torch.no_grad():
                logits = head.logits(self._tables, goal, AskedFacts(row, goal[row], subject, object_))
            found[predicate] = level(logits.double().cpu().numpy().ravel(), len(row))
        return found
