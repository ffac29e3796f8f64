"""Trains ComplEx and DistMult: every question of the KB against all entities, Adagrad, N3."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from ctp_core.config.base import BaseConfig
from ctp_core.config.embeddings import EmbeddingConfig
from ctp_core.datasets.kb import FactsKB, KnowledgeBase
from ctp_core.errors import ConfigError
from ctp_core.evaluation.ranking import known_filters, rank_facts
from ctp_core.models.embeddings import ComplexModel, DistMultModel, EmbeddingModel
from ctp_core.models.factorisation import FACTORISATIONS, Factorisation
from ctp_core.training.calibration import fit_calibration
from ctp_core.training.gradient import GradientTrainer

MODELS: dict[str, type[EmbeddingModel]] = {"complex": ComplexModel, "distmult": DistMultModel}
UNCALIBRATED = (1.0, 0.0)


class EmbeddingTrainer(GradientTrainer):
    """A question is (entity, predicate or inverse, answer)."""

    config: EmbeddingConfig
    module: Factorisation

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, EmbeddingConfig) or not isinstance(kb, FactsKB):
            raise ConfigError("an embedding learns from a KB of kind 'facts' and a config of its own method")
        super().__init__(config, kb, device, config.eval_every)
        sizes = (len(kb.entities), len(kb.predicates))
        self.module = FACTORISATIONS[config.method](sizes, config.rank, self.generator, device)
        self.optimiser = torch.optim.Adagrad(self.module.parameters(), lr=config.learning_rate)
        facts = torch.from_numpy(self.split.train)
        reverse = torch.stack([facts[:, 2], facts[:, 1] + len(kb.predicates), facts[:, 0]], 1)
        self._questions = torch.cat([facts, reverse])

    def batches(self) -> Sequence[Tensor]:
        order = torch.randperm(len(self._questions), generator=self.generator)
        return torch.split(self._questions[order], self.config.batch_size)

    def learning_rate(self, step: int, steps: int) -> float:
        del step, steps
        return self.config.learning_rate

    def loss(self, batch: Tensor) -> Float[Tensor, ""]:
        given, atoms, answers = batch.to(self.device).unbind(1)
        queries, predicates = self.module.queries(given, atoms, tied=not self.config.reciprocal)
        entities = self.module.entities
        rivals, target = self._rivals(answers)
        fit = functional.cross_entropy(queries @ rivals.T, target)
        vectors = (entities[given], predicates, entities[answers])
        norms = torch.stack([(self.module.moduli(vector) ** 3).sum() for vector in vectors]).sum()
        return fit + self.config.n3 * norms / len(batch)

    def _rivals(self, answers: Int[Tensor, " question"]) -> tuple[Tensor, Int[Tensor, " question"]]:
        """(vectors to rank among, where each answer stands in them): all entities, or the batch's and random ones."""
        if self.config.negatives is None:
            return self.module.entities, answers
        drawn = torch.randint(len(self.kb.entities), (self.config.negatives,), generator=self.generator)
        chosen, where = torch.unique(torch.cat([answers, drawn.to(self.device)]), return_inverse=True)
        return self.module.entities[chosen], where[: len(answers)]

    def ranks(self) -> Float[np.ndarray, " question"]:
        model = MODELS[self.config.method](self.config, self.kb, self.module, UNCALIBRATED)
        return rank_facts(self.split.valid, model.object_logits, model.subject_logits, known_filters(self.kb))

    def model(self) -> EmbeddingModel:
        factorisation = self.best_module()
        assert isinstance(factorisation, Factorisation)
        model_class = MODELS[self.config.method]
        raw = model_class(self.config, self.kb, factorisation, UNCALIBRATED)
        facts = self.split.valid if len(self.split.valid) else self.split.train
        return model_class(self.config, self.kb, factorisation, fit_calibration(raw.fact_products, self.kb, facts))
