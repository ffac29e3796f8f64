"""Fits the weights of rules: each sampled fact against all entities, by sparse products and their exact gradient."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from ctp_core.base.schedule import one_cycle
from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.rules_arrays import evidence_of
from ctp_core.rules import Template

INITIAL_WEIGHT = -1.0  # softplus: 0.31
MIN_RIVALS = 1e-9  # a question without any rival is won
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Cells = tuple[Ids, Ids, Ids, Floats]  # question, entity, rule, evidence
NO_CELLS: Cells = (*(np.zeros(0, dtype=np.int64) for _ in range(3)), np.zeros(0))  # type: ignore[assignment]


@dataclass(frozen=True)
class Questions:
    """One direction of the sampled facts. A cell is a (question, entity) in which some rule fires."""

    features: sparse.csr_array  # [cell, rule]
    question: Int[np.ndarray, " cell"]
    entity: Int[np.ndarray, " cell"]
    true: Float[np.ndarray, "question rule"]
    base: sparse.csr_array  # [entity, rule]: what is said of every entity, whoever asks
    excluded: sparse.csr_array  # [question, entity]: the true answers, which are no rivals

    def logits(self, weights: Floats) -> tuple[Float[np.ndarray, " question"], Float[np.ndarray, " question"]]:
        """(logit of the true answer, log Σ exp of all rivals)."""
        rivals, *_ = self._rivals(weights)
        return np.asarray(self.true @ weights), np.log(rivals)

    def _rivals(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """(Σ exp of the rivals, exp of the base of every entity, exp of the evidence in every cell).

        Entities without evidence are counted, not visited.
        """
        base, evidence = np.exp(self.base @ weights), np.exp(self.features @ weights)
        rivals = base.sum() - self.excluded @ base
        rivals += np.bincount(self.question, base[self.entity] * (evidence - 1), len(rivals))
        return np.maximum(rivals, MIN_RIVALS), base, evidence

    def loss(self, weights: Floats) -> tuple[float, Float[np.ndarray, " rule"]]:
        """-log of the chance of the true answer, and its gradient."""
        rivals, base, evidence = self._rivals(weights)
        margin = np.log(rivals) - self.true @ weights
        lost = expit(margin) / len(margin)
        per_rival = lost / rivals
        of_cells = per_rival[self.question]
        of_base = per_rival.sum() - self.excluded.T @ per_rival
        of_base += np.bincount(self.entity, of_cells * (evidence - 1), len(base))
        gradient = self.base.T @ (of_base * base) - self.true.T @ lost
        gradient += self.features.T @ (of_cells * base[self.entity] * evidence)
        return float(np.logaddexp(0, margin).mean()), np.asarray(gradient)


def fit(directions: list[Questions], active: Floats, config: RulesConfig) -> tuple[Floats, float, float]:
    """(weights, bias, loss). Weights are not negative; the bias turns the chance of an answer into a sigmoid."""
    raw = torch.full((len(active),), INITIAL_WEIGHT, dtype=torch.float64)
    optimiser = torch.optim.Adam([raw], lr=config.learning_rate)
    penalty = config.sparsity / max(1, len(directions[0].true))
    total = 0.0
    for step in range(config.steps if len(active) else 0):
        optimiser.param_groups[0]["lr"] = one_cycle(step, config.steps, config.learning_rate)
        values = raw.numpy()
        losses = [direction.loss(active * np.logaddexp(0, values)) for direction in directions]
        total = sum(loss for loss, _ in losses)
        gradient = np.sum([one for _, one in losses], axis=0) + penalty
        raw.grad = torch.from_numpy(gradient * active * expit(values))
        optimiser.step()
    weights = active * np.logaddexp(0, raw.numpy())
    bias = -float(np.mean([direction.logits(weights)[1].mean() for direction in directions]))
    return weights, bias, total


def cells_of(question: Ids, entity: Ids, counts: Ids, template: Template, rule: int) -> Cells:
    return question, entity, np.full(len(question), rule), evidence_of(counts, template)


def collect(cells: list[Cells], base: sparse.csr_array, true: Floats, known: NDArray[np.bool_]) -> Questions:
    """Joins the cells of all rules into one sparse table of features."""
    num_entities = base.shape[0]
    question, entity, rule, value = (np.concatenate(column) for column in zip(*(cells or [NO_CELLS]), strict=True))
    keys, cell = np.unique(question.astype(np.int64) * num_entities + entity, return_inverse=True)
    features = sparse.csr_array((value, (cell, rule)), shape=(len(keys), true.shape[1]))
    excluded = sparse.csr_array(known).astype(np.float64)
    return Questions(features, keys // num_entities, keys % num_entities, true, base, excluded)
