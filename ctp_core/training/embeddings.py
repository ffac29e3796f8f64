"""Trains ComplEx and DistMult: every question of the KB against all entities, Adagrad, N3."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from ctp_core.config.base import BaseConfig
from ctp_core.config.embeddings import EmbeddingConfig
from ctp_core.datasets.kb import FactsKB, KnowledgeBase
from ctp_core.errors import ConfigError
from ctp_core.evaluation.ranking import KnownFilter, ScoreObjects, known_filters, rank_facts
from ctp_core.models.embeddings import ComplexModel, DistMultModel, EmbeddingModel
from ctp_core.models.factorisation import FACTORISATIONS, Factorisation
from ctp_core.models.facts_model import FactsModel
from ctp_core.training.calibration import fit_calibration
from ctp_core.training.gradient import GradientTrainer

MODELS: dict[str, type[EmbeddingModel]] = {"complex": ComplexModel, "distmult": DistMultModel}
UNCALIBRATED = (1.0, 0.0)


class EmbeddingTrainer(GradientTrainer):
    """A question is (entity, predicate or inverse, answer)."""

    config: EmbeddingConfig
    module: Factorisation
    offset: FactsModel | None = None  # what a hybrid explains by proofs already

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
        self._known = KnownFilter([self._questions.numpy()], sizes[0], 2 * sizes[1], subjects=False)
        self._everybody = torch.arange(sizes[0], device=device)

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
        logits = queries @ entities[rivals].T + self._explained(batch)[:, rivals]
        if self.config.filtered:
            logits = logits.masked_fill(self._also_true(batch)[:, rivals], -torch.inf)
        fit = functional.cross_entropy(logits, target)
        vectors = (entities[given], predicates, entities[answers])
        norms = torch.stack([(self.module.moduli(vector) ** 3).sum() for vector in vectors]).sum()
        return fit + self.config.n3 * norms / len(batch)

    def _explained(self, questions: Int[Tensor, "question 3"]) -> Float[Tensor, "question entity"]:
        """The logits that another model gives to all answers already; none by itself."""
        if self.offset is None:
            return self.module.entities.new_zeros(1, 1).expand(len(questions), len(self._everybody))
        given, atoms, _ = questions.cpu().numpy().T
        num_predicates = len(self.kb.predicates)
        logits = np.empty((len(given), len(self._everybody)), dtype=np.float32)
        for forward, score in ((True, self.offset.object_logits), (False, self.offset.subject_logits)):
            chosen = np.flatnonzero((atoms < num_predicates) == forward)
            if len(chosen):
                logits[chosen] = score(given[chosen], atoms[chosen] % num_predicates)
        return torch.from_numpy(logits).to(self.device)

    def _also_true(self, questions: Int[Tensor, "question 3"]) -> Bool[Tensor, "question entity"]:
        """The other answers that the training facts give to each question."""
        given, atoms, answers = questions.cpu().numpy().T
        known = self._known.mask(given, atoms)
        known[np.arange(len(answers)), answers] = False
        return torch.from_numpy(known).to(self.device)

    def _rivals(self, answers: Int[Tensor, " question"]) -> tuple[Int[Tensor, " rival"], Int[Tensor, " question"]]:
        """(entities to rank among, where each answer stands in them): all, or the batch's and random ones."""
        if self.config.negatives is None:
            return self._everybody, answers
        drawn = torch.randint(len(self.kb.entities), (self.config.negatives,), generator=self.generator)
        chosen, where = torch.unique(torch.cat([answers, drawn.to(self.device)]), return_inverse=True)
        return chosen, where[: len(answers)]

    def ranks(self) -> Float[np.ndarray, " question"]:
        model = MODELS[self.config.method](self.config, self.kb, self.module, UNCALIBRATED)
        objects, subjects = model.object_logits, model.subject_logits
        filters = known_filters(self.kb)
        if self.offset is None:
            return rank_facts(self.split.valid, objects, subjects, filters)
        together = _sum(objects, self.offset.object_logits), _sum(subjects, self.offset.subject_logits)
        return rank_facts(self.split.valid, *together, filters)

    def model(self) -> EmbeddingModel:
        factorisation = self.best_module()
        assert isinstance(factorisation, Factorisation)
        model_class = MODELS[self.config.method]
        raw = model_class(self.config, self.kb, factorisation, UNCALIBRATED)
        facts = self.split.valid if len(self.split.valid) else self.split.train
        return model_class(self.config, self.kb, factorisation, fit_calibration(raw.fact_products, self.kb, facts))


def _sum(own: ScoreObjects, given: ScoreObjects) -> ScoreObjects:
    """The logits of two models together."""
    return lambda entities, predicates: own(entities, predicates) + given(entities, predicates)
