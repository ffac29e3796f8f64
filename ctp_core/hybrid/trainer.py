"""Trains the parts of a hybrid one after the other, then learns the weights between them."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.artifact import Artifact
from ctp_core.base.calibration import FACTS, calibrate_on_unseen
from ctp_core.base.evaluation import known_filters, rank_facts, ranking_metrics
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.facts_trainer import CalibratedTrainer
from ctp_core.base.parts import TrainingPart, checkpoint_parts, restore_parts
from ctp_core.base.progress import OnPart, OnStep, Progress, Trial, ignore, parts_of
from ctp_core.base.search import Fit, SearchTrainer, fitted
from ctp_core.base.trainer import Trainer
from ctp_core.embeddings.trainer import VALIDATION, EmbeddingTrainer
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.evidence.model import EvidenceModel
from ctp_core.evidence.rules_trainer import RulesTrainer
from ctp_core.evidence.trainer import evidence_trainer
from ctp_core.frontier.cost import CALIBRATED
from ctp_core.frontier.trainer import FrontierTrainer
from ctp_core.hybrid.config import CHOOSING_FACTS, CHOOSING_FEWER, HybridConfig, PartName
from ctp_core.hybrid.model import HybridModel, Weighed
from ctp_core.hybrid.weights import choose_weights
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.kb.profile import Profile
from ctp_core.kb.splits import FactsSplit
from ctp_core.methods import forecast, search_space

# (of the embedding, of the frontier where there is one)
Weights = tuple[Float[np.ndarray, " predicate"], Float[np.ndarray, " predicate"] | None]


class HybridTrainer(Trainer[HybridModel]):
    """Runs the epochs of the proofs, of the embedding, of the frontier; the name of a part prefixes its metrics."""

    def __init__(self, config: HybridConfig, kb: FactsKB, device: torch.device) -> None:
        self.config, self.kb = config, kb
        self.split, self._profile = FactsSplit.of(kb), Profile.of(kb)
        self.proofs = self._searched("proofs", partial(_proofs_trainer, device=device))
        self.embedding = self._searched("embedding", partial(EmbeddingTrainer, device=device))
        self.frontier = None
        if config.frontier is not None:
            self.frontier = self._searched("frontier", partial(FrontierTrainer, device=device))
        self._chosen: Weights | None = None  # once all parts are finished

    def _searched(self, name: PartName, create: Callable[[Any, FactsKB], Fit]) -> Fit | SearchTrainer[Fit]:
        """The trainer of a part, which first finds those of its settings that are to be searched."""
        config = self.config.part(name)
        space = search_space(config, self._profile)
        return create(config, self.kb) if space is None else SearchTrainer(config, self.kb, create, space)

    @property
    def epochs(self) -> int:  # type: ignore[override]
        return sum(part.epochs for part in self._trainers.values())

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of all parts; a setting is named after its part."""
        return tuple(
            replace(trial, settings={f"{name}.{setting}": value for setting, value in trial.settings.items()})
            for name, part in self._trainers.items()
            for trial in part.trials
        )

    @property
    def _trainers(self) -> dict[str, Trainer[FactsModel]]:
        parts: dict[str, Trainer[FactsModel]] = {"proofs": self.proofs, "embedding": self.embedding}
        return parts if self.frontier is None else {**parts, "frontier": self.frontier}

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return sum(part.epoch for part in self._trainers.values())

    @property
    def finished(self) -> bool:
        return all(part.finished for part in self._trainers.values())

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
        works: dict[str, float] = {name: self._work(name) for name in self.config.parts}
        total, behind, epochs = sum(works.values()), 0.0, 0
        for name, part in self._trainers.items():
            if not part.finished:
                return TrainingPart(self, part, epochs, behind / total, works[name] / total, f"{name}_")
            behind, epochs = behind + works[name], epochs + part.epochs
        raise AssertionError("all parts are finished")

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
        weights = self._weights()
        proofs, embedding = fitted(self.proofs).model(), fitted(self.embedding).model()
        models: dict[str, FactsModel] = {"proofs": proofs, "embedding": embedding}
        frontier = None
        if self.frontier is not None:
            models["frontier"] = fitted(self.frontier).ranking_model()
            frontier = self._frontier_on(self.kb, weights)
        searched = [name for name, part in self._trainers.items() if isinstance(part, SearchTrainer)]
        config = self.config.model_copy(update={name: models[name].config for name in searched})

        def on(kb: FactsKB) -> HybridModel:
            return HybridModel(config, self._proofs_on(kb), embedding, weights[0], self._frontier_on(kb, weights))

        most = FACTS if frontier is None else CALIBRATED
        calibration = calibrate_on_unseen(lambda kb: on(kb).kb_logits, self.kb, self.split, most)
        alone = None
        if frontier is not None:
            alone = calibrate_on_unseen(lambda kb: on(kb).without_embedding().kb_logits, self.kb, self.split, most)
        return HybridModel(config, proofs, embedding, weights[0], frontier, alone).calibrated_by(calibration)

    def _validated(self) -> HybridModel:
        """The model without the held-out facts, on which the weights are chosen."""
        kb, weights = self.split.visible(self.kb), self._weights()
        embedding = fitted(self.embedding).model()
        return HybridModel(self.config, self._proofs_on(kb), embedding, weights[0], self._frontier_on(kb, weights))

    def _proofs_on(self, kb: FactsKB) -> EvidenceModel:
        return fitted(self.proofs).model_on(kb)

    def _frontier_on(self, kb: FactsKB, weights: Weights) -> Weighed | None:
        if self.frontier is None or weights[1] is None:
            return None
        return Weighed(fitted(self.frontier).model_on(kb), weights[1])

    def _weights(self) -> Weights:
        """Those of the embedding beside the proofs; then those of the frontier beside both."""
        if self._chosen is not None:
            return self._chosen
        kb = self.split.visible(self.kb)
        proofs, embedding = self._proofs_on(kb), fitted(self.embedding).model()
        facts = self.split.valid_sample(CHOOSING_FACTS)
        first = choose_weights(proofs, embedding, self.kb, facts, self.config.weight)
        second = None
        if self.frontier is not None:
            both = HybridModel(self.config, proofs, embedding, first)
            fewer = self.split.valid_sample(CHOOSING_FEWER)
            second = choose_weights(both, fitted(self.frontier).model_on(kb), self.kb, fewer)
        if self.finished:
            self._chosen = first, second
        return first, second

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
