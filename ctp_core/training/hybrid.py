"""Trains the parts of a hybrid one after the other, then learns the weight of the embedding on validation."""

import torch

from ctp_core.artifact import Artifact
from ctp_core.config.base import BaseConfig
from ctp_core.config.hybrid import HybridConfig
from ctp_core.config.proofs import ProofsConfig
from ctp_core.datasets.kb import FactsKB, KnowledgeBase
from ctp_core.errors import ArtifactError, ConfigError
from ctp_core.evaluation.ranking import known_filters, rank_facts, ranking_metrics
from ctp_core.models.hybrid import PARTS, HybridModel
from ctp_core.training.checkpoints import under
from ctp_core.training.combination import MAX_CELLS, choose_weight
from ctp_core.training.embeddings import VALIDATION, EmbeddingTrainer
from ctp_core.training.proofs import ProofsTrainer
from ctp_core.training.rules import RulesTrainer
from ctp_core.training.trainer import OnStep, Progress, Trainer, ignore

DEFAULT_WEIGHT = 0.2  # without validation facts: proofs lead, the embedding breaks ties


class HybridTrainer(Trainer):
    """Epochs are those of the proofs, then those of the embedding."""

    def __init__(self, config: BaseConfig, kb: KnowledgeBase, device: torch.device) -> None:
        if not isinstance(config, HybridConfig) or not isinstance(kb, FactsKB):
            raise ConfigError("a hybrid learns from a KB of kind 'facts' and a config of method 'hybrid'")
        self.config, self.kb = config, kb
        limits = {"seed": config.seed}
        proofs = config.proofs.model_copy(update={**limits, "epochs": min(config.epochs, config.proofs.epochs)})
        embedded = config.embedding.model_copy(update={**limits, "epochs": min(config.epochs, config.embedding.epochs)})
        self.proofs: ProofsTrainer | RulesTrainer = (
            ProofsTrainer(proofs, kb, device) if isinstance(proofs, ProofsConfig) else RulesTrainer(proofs, kb, device)
        )
        self.embedding = EmbeddingTrainer(embedded, kb, device)
        self.epochs = self.proofs.epochs + self.embedding.epochs

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return self.proofs.epoch + self.embedding.epoch

    @property
    def finished(self) -> bool:
        return self.embedding.finished

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        part = self.embedding if self.proofs.finished else self.proofs
        before = self.proofs.epochs if part is self.embedding else 0

        def shifted(progress: Progress) -> Progress:
            epoch = before + progress.epoch
            return Progress(epoch, self.epochs, progress.step, progress.steps, progress.loss, progress.metrics)

        progress = shifted(part.train_epoch(lambda step: on_step(shifted(step))))
        if not self.finished:
            return progress
        metrics = self._metrics(self._validated())
        return Progress(progress.epoch, self.epochs, progress.step, progress.steps, progress.loss, metrics)

    def _metrics(self, model: HybridModel) -> dict[str, float]:
        facts, filters = self.proofs.split.valid_sample(VALIDATION), known_filters(self.kb)
        return ranking_metrics(rank_facts(facts, model.object_logits, model.subject_logits, filters))

    def model(self) -> HybridModel:
        return HybridModel(self.config, self.proofs.model(), self.embedding.model(), self._validated().weight)

    def _validated(self) -> HybridModel:
        """Without the facts that are held out; on them the weight of the embedding is chosen."""
        proofs, embedding = self.proofs.model_on(self.proofs.split.visible(self.kb)), self.embedding.model()
        facts = self.proofs.split.valid_sample(max(1, int(MAX_CELLS / len(self.kb.entities))))
        weight = choose_weight(proofs, embedding, self.kb, facts) if len(facts) else DEFAULT_WEIGHT
        return HybridModel(self.config, proofs, embedding, weight)

    def checkpoint(self) -> Artifact:
        parts = {"proofs": self.proofs.checkpoint(), "embedding": self.embedding.checkpoint()}
        manifests = {part: artifact.manifest for part, artifact in parts.items()}
        manifest = {"config": self.config.model_dump(mode="json"), "parts": manifests}
        return Artifact(
            manifest, {f"{part}.{name}": tensor for part, a in parts.items() for name, tensor in a.tensors.items()}
        )

    def restore(self, checkpoint: Artifact) -> None:
        if checkpoint.manifest.get("config") != self.config.model_dump(mode="json"):
            raise ArtifactError("the checkpoint was written by a run with another config")
        try:
            parts = [Artifact(checkpoint.manifest["parts"][part], under(f"{part}.", checkpoint)) for part in PARTS]
        except (KeyError, TypeError) as error:
            raise ArtifactError(f"the checkpoint of a hybrid has no {error}") from None
        self.proofs.restore(parts[0])
        self.embedding.restore(parts[1])
