"""Trains the paper's prover on one KB: each fact against false ones, without using the fact in its own proof."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ctp_core.base.calibration import FACTS, calibrate_on_unseen
from ctp_core.base.cost import check_dense, check_edges
from ctp_core.base.evaluation import known_filters, rank_facts
from ctp_core.base.facts_trainer import FactsTrainer
from ctp_core.base.goals import Score
from ctp_core.base.training_loop import one_cycle
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_facts.cost import shapes_of, step_cells
from ctp_core.ctp_facts.entities import NO_FACT, SoftFacts
from ctp_core.ctp_facts.model import CtpFactsModel
from ctp_core.ctp_facts.nearest_loss import NearestRanking
from ctp_core.ctp_facts.negatives import NegativeSampler
from ctp_core.ctp_facts.ranking_loss import ranking_loss
from ctp_core.ctp_facts.search import Goals
from ctp_core.ctp_facts.summed_loss import sharpness, summed_loss
from ctp_core.ctp_facts.theory import SoftTheory, start_from_facts
from ctp_core.kb.knowledge_base import FactSet, FactsKB

REMEDIES = ("lower `depth` or `batch_size`, or list fewer `templates`", "use loss 'all'")
VALIDATED = 300  # facts ranked for validation during training, on a KB too large for tables
MAX_SCORE = 1 - 1e-6  # keeps log(1 - score) finite for a negative that matches a fact exactly


class CtpFactsTrainer(FactsTrainer[CtpFactsModel]):
    """Trains with Adagrad, as published, on cross-entropy against sampled facts or on ranks among all entities."""

    config: CtpFactsConfig
    module: SoftTheory

    def __init__(self, config: CtpFactsConfig, kb: FactsKB, device: torch.device) -> None:
        super().__init__(config, kb, device, config.eval_every)
        sizes = (len(kb.entities), len(kb.predicates))
        self.module = SoftTheory(config, *sizes, self.generator, device)
        self._negatives = NegativeSampler(FactSet(self.split.train, *sizes), sizes[0], config.negatives)
        if self.module.dense:
            check_dense(float(sizes[1]) * sizes[0] ** 2, config.method, "use neighbours 'nearest'")
            cells = step_cells(config, shapes_of(self.module.training_plans, self.module.select.groups), *sizes)
            check_dense(cells, config.method, REMEDIES[config.loss == "summed"])
        else:
            check_edges(len(self.split.train), config.nearest)
        if config.entity_start == "facts":
            start_from_facts(self.module, self.split.train, self.generator)
        self.optimiser = torch.optim.Adagrad(self._groups_of_weights(), lr=config.learning_rate, fused=True)
        # Sorted so that the facts of a predicate are adjacent, and the search need not sort them for every goal.
        self._train = self.split.train[np.lexsort(self.split.train.T[[2, 0, 1]])]
        self._groups = np.cumsum(np.diff(self._train[:, :2], axis=0, prepend=self._train[:1, :2]).any(1))
        self._facts = SoftFacts(self._train, len(kb.predicates))
        self._nearest = NearestRanking(self.module, self._facts)

    def _groups_of_weights(self) -> list[dict[str, Any]]:
        """The vectors, and the parameters of `select`, which learn at the share `rule_rate` of the rate."""
        vectors, made = [self.module.predicates, self.module.entities], list(self.module.select.parameters())
        if not made or self.config.rule_rate == 1:
            return [{"params": [*vectors, *made]}]  # every group adds time to a step
        return [{"params": vectors}, {"params": made, "share": self.config.rule_rate}]

    def batches(self) -> Sequence[Tensor]:
        self._nearest.restart()
        if self.config.loss != "sampled" and self.module.dense:
            stated = torch.from_numpy(np.unique(self._train[:, 1]))
            order = stated[torch.randperm(len(stated), generator=self.generator)]
        else:
            order = torch.randperm(len(self._train), generator=self.generator)
        return torch.split(order, self.config.batch_size)

    def learning_rate(self, step: int, steps: int) -> float:
        peak = self.config.learning_rate
        return one_cycle(step, steps, peak) if self.config.schedule == "one-cycle" else peak

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        if not self.module.dense:
            return self._nearest.loss(batch.numpy())
        if self.config.loss == "summed":
            return summed_loss(self.module, *self._seen_and_hidden(), batch, sharpness(self.made))
        if self.config.loss == "all":
            return ranking_loss(self.module, *self._seen_and_hidden(), batch)
        return self._sampled_loss(batch.numpy())

    def _sampled_loss(self, rows: Int[np.ndarray, " fact"]) -> Float[Tensor, ""]:
        """Binary cross-entropy on these training facts and on their negatives."""
        true = self._train[rows]
        goals = np.concatenate([true, self._negatives.draw(true, self.generator)])
        own = np.full(len(goals), NO_FACT, dtype=np.int64)
        own[: len(rows)] = rows
        scores = self.module.scores(
            Goals(goals[:, 1], goals[:, 0], goals[:, 2], own), self._facts, self.module.training_plans
        )
        labels = torch.zeros_like(scores)
        labels[: len(rows)] = 1
        return functional.binary_cross_entropy(scores.clamp(max=MAX_SCORE), labels)

    def _seen_and_hidden(self) -> tuple[SoftFacts, SoftFacts]:
        """Splits the facts at random into those that proofs of one step may use, at least one, and the hidden ones."""
        hidden = self._drawn(len(self._train), self.config.hidden_facts)
        if self.config.hidden_subjects:
            hidden |= self._drawn(self._groups[-1] + 1, self.config.hidden_subjects)[self._groups]
        hidden[torch.randint(len(hidden), (1,), generator=self.generator)] = False
        seen, rest = self._train[~hidden], self._train[hidden]
        return SoftFacts(seen, len(self.kb.predicates)), SoftFacts(rest, len(self.kb.predicates))

    def _drawn(self, count: int, share: float) -> NDArray[np.bool_]:
        return np.asarray(torch.rand(count, generator=self.generator).numpy() < share)

    def ranks(self) -> Float[np.ndarray, " question"]:
        valid = self.split.valid
        if not self.module.dense:
            self._nearest.look_around()
            valid = self.split.valid_sample(VALIDATED)
        model = CtpFactsModel(self.config, self.kb, self.module, self.split.train)
        return rank_facts(valid, model.kb_logits, known_filters(self.kb, "valid"), self.on_part)

    def model(self) -> CtpFactsModel:
        theory = self.with_best_weights(self.module)

        def score_on(kb: FactsKB) -> Score:
            model = CtpFactsModel(self.config, kb, theory)
            return lambda goals: model.to_calibrate(model.kb_logits(goals))

        most = FACTS if theory.dense else VALIDATED
        calibration = calibrate_on_unseen(score_on, self.kb, self.split, most)
        return self.ranking_model().calibrated_by(calibration)

    def ranking_model(self) -> CtpFactsModel:
        theory = self.with_best_weights(self.module)
        return CtpFactsModel(self.config, self.kb, theory)
