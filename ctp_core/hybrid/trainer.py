"""Trains the parts of a hybrid one after the other, then learns the weights of the embedding, unless one is given."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.artifact import Artifact
from ctp_core.base.calibration import calibrate_on_unseen
from ctp_core.base.evaluation import known_filters, rank_facts, ranking_metrics
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.facts_trainer import CalibratedTrainer
from ctp_core.base.goals import Score
from ctp_core.base.parts import TrainingPart, checkpoint_parts, restore_parts
from ctp_core.base.progress import OnPart, OnStep, Progress, Trial, ignore, parts_of
from ctp_core.base.search import Fit, SearchTrainer, fitted
from ctp_core.base.trainer import Trainer
from ctp_core.embeddings.model import EmbeddingModel
from ctp_core.embeddings.trainer import VALIDATION, EmbeddingTrainer
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.evidence.model import EvidenceModel
from ctp_core.evidence.rules_trainer import RulesTrainer
from ctp_core.evidence.trainer import evidence_trainer
from ctp_core.hybrid.config import CHOOSING_FACTS, PARTS, HybridConfig, PartName
from ctp_core.hybrid.model import HybridModel
from ctp_core.hybrid.weights import choose_weights
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.kb.splits import FactsSplit
from ctp_core.methods import forecast, search_space


class HybridTrainer(Trainer[HybridModel]):
    """Runs the epochs of the proofs, then those of the embedding; the name of a part prefixes its metrics."""

    def __init__(self, config: HybridConfig, kb: FactsKB, device: torch.device) -> None:
        self.config, self.kb = config, kb
        self.split, self._profile = FactsSplit.of(kb), Profile.of(kb)
        self.proofs = self._searched("proofs", partial(_proofs_trainer, device=device))
        self.embedding = self._searched("embedding", partial(EmbeddingTrainer, device=device))
        self._chosen: Float[np.ndarray, " predicate"] | None = None  # the weights, once both parts are finished

    def _searched(self, name: PartName, create: Callable[[Any, FactsKB], Fit]) -> Fit | SearchTrainer[Fit]:
        """The trainer of a part, which first finds those of its settings that are to be searched."""
        config = self.config.part(name)
        space = search_space(config, self._profile)
        return create(config, self.kb) if space is None else SearchTrainer(config, self.kb, create, space)

    @property
    def epochs(self) -> int:  # type: ignore[override]
        return self.proofs.epochs + self.embedding.epochs

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of both parts; a setting is named after its part."""
        return tuple(
            replace(trial, settings={f"{name}.{setting}": value for setting, value in trial.settings.items()})
            for name, part in self._trainers.items()
            for trial in part.trials
        )

    @property
    def _trainers(self) -> dict[str, Trainer[FactsModel]]:
        return {"proofs": self.proofs, "embedding": self.embedding}

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return self.proofs.epoch + self.embedding.epoch

    @property
    def finished(self) -> bool:
        return self.proofs.finished and self.embedding.finished

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        progress = self._part().train_epoch(on_step)
        if not self.finished:
            return progress
        ranked = parts_of("validation", replace(progress, metrics={}), on_step)
        ranked(0, 1)
        return replace(progress, metrics=self._metrics(self._validated(), ranked))

    def sampled_metrics(self) -> dict[str, float]:
        if self.proofs.finished:
            return {}
        return {f"proofs_{metric}": value for metric, value in self.proofs.sampled_metrics().items()}

    def _part(self) -> TrainingPart:
        """The part that is trained now."""
        proofs, embedding = (self._work(name) for name in PARTS)
        share = proofs / (proofs + embedding)
        if not self.proofs.finished:
            return TrainingPart(self, self.proofs, 0, 0.0, share, "proofs_")
        return TrainingPart(self, self.embedding, self.proofs.epochs, share, 1 - share, "embedding_")

    def _work(self, name: PartName) -> float:
        """The forecast CPU seconds of a part."""
        part = self._trainers[name]
        return (
            part.work
            if isinstance(part, SearchTrainer)
            else forecast(self.config.part(name), self._profile).cpu_seconds
        )

    def _metrics(self, model: HybridModel, on_part: OnPart) -> dict[str, float]:
        facts, filters = self.split.valid_sample(VALIDATION), known_filters(self.kb, "valid")
        return ranking_metrics(rank_facts(facts, model.kb_logits, filters, on_part))

    def model(self) -> HybridModel:
        weights = self._validated().weights
        proofs, embedding = fitted(self.proofs).model(), fitted(self.embedding).model()
        parts = {"proofs": (self.proofs, proofs.config), "embedding": (self.embedding, embedding.config)}
        chosen = {name: found for name, (part, found) in parts.items() if isinstance(part, SearchTrainer)}
        config = self.config.model_copy(update=chosen)

        def score_on(kb: FactsKB) -> Score:
            return HybridModel(config, self._proofs_on(kb), embedding, weights).kb_logits

        calibration = calibrate_on_unseen(score_on, self.kb, self.split)
        return HybridModel(config, proofs, embedding, weights).calibrated_by(calibration)

    def _validated(self) -> HybridModel:
        """The model without the held-out facts, on which the weights of the embedding are chosen."""
        proofs, embedding = self._parts(self.split.visible(self.kb))
        return HybridModel(self.config, proofs, embedding, self._weights(proofs, embedding))

    def _parts(self, kb: FactsKB) -> tuple[EvidenceModel, EmbeddingModel]:
        """The models of both parts so far; the proofs are found among the facts of this KB."""
        return self._proofs_on(kb), fitted(self.embedding).model()

    def _proofs_on(self, kb: FactsKB) -> EvidenceModel:
        return fitted(self.proofs).model_on(kb)

    def _weights(self, proofs: EvidenceModel, embedding: EmbeddingModel) -> Float[np.ndarray, " predicate"]:
        if self._chosen is not None:
            return self._chosen
        facts = self.split.valid_sample(CHOOSING_FACTS)
        chosen = choose_weights(proofs, embedding, self.kb, facts, self.config.weight)
        if self.finished:
            self._chosen = chosen
        return chosen

    def checkpoint(self) -> Artifact:
        return checkpoint_parts(self.config, self._trainers)

    def restore(self, checkpoint: Artifact) -> None:
        restore_parts(checkpoint, self.config, self._trainers)
        self._chosen = None


def _proofs_trainer(
    config: ProofsConfig | RulesConfig, kb: FactsKB, device: torch.device
) -> CalibratedTrainer[EvidenceModel]:
    if isinstance(config, RulesConfig):
        return RulesTrainer(config, kb, device)
    return evidence_trainer(config, kb, device)
