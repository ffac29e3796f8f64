"""Trains the parts of a hybrid one after the other, then learns the weights of the embedding, unless one is given."""

import numpy as np
import torch
from jaxtyping import Float

from ctp_core.artifact import Artifact
from ctp_core.base.checkpoints import check_config, under
from ctp_core.base.evaluation import known_filters, rank_facts, ranking_metrics
from ctp_core.base.trainer import OnStep, Progress, Trainer, ignore
from ctp_core.embeddings.model import EmbeddingModel
from ctp_core.embeddings.trainer import VALIDATION, EmbeddingTrainer
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.model import EvidenceModel
from ctp_core.evidence.proofs_trainer import ProofsTrainer
from ctp_core.evidence.rules_trainer import RulesTrainer
from ctp_core.hybrid.config import HybridConfig
from ctp_core.hybrid.model import PARTS, HybridModel
from ctp_core.hybrid.weights import CHOOSING, choose_weights
from ctp_core.kb.knowledge_base import FactsKB

DEFAULT_WEIGHT = 0.05  # without validation facts: proofs lead, the embedding breaks ties


class HybridTrainer(Trainer):
    """Runs the epochs of the proofs, then those of the embedding; the name of a part prefixes its metrics."""

    def __init__(self, config: HybridConfig, kb: FactsKB, device: torch.device) -> None:
        self.config, self.kb = config, kb
        limits = {"seed": config.seed}
        proofs = config.proofs.model_copy(update={**limits, "epochs": min(config.epochs, config.proofs.epochs)})
        embedded = config.embedding.model_copy(update={**limits, "epochs": min(config.epochs, config.embedding.epochs)})
        self.proofs: ProofsTrainer | RulesTrainer = (
            ProofsTrainer(proofs, kb, device) if isinstance(proofs, ProofsConfig) else RulesTrainer(proofs, kb, device)
        )
        self.embedding = EmbeddingTrainer(embedded, kb, device)
        self.epochs = self.proofs.epochs + self.embedding.epochs
        self._chosen: Float[np.ndarray, " predicate"] | None = None  # the weights, once both parts are finished

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return self.proofs.epoch + self.embedding.epoch

    @property
    def finished(self) -> bool:
        return self.proofs.finished and self.embedding.finished

    def train_epoch(self, on_step: OnStep = ignore) -> Progress:
        name = PARTS[self.proofs.finished]
        part = self.embedding if self.proofs.finished else self.proofs
        before = self.proofs.epochs if part is self.embedding else 0

        def shifted(progress: Progress) -> Progress:
            metrics = {f"{name}_{metric}": value for metric, value in progress.metrics.items()}
            return Progress(before + progress.epoch, self.epochs, progress.step, progress.steps, progress.loss, metrics)

        progress = shifted(part.train_epoch(lambda step: on_step(shifted(step))))
        if not self.finished:
            return progress
        metrics = self._metrics(self._validated())
        return Progress(progress.epoch, self.epochs, progress.step, progress.steps, progress.loss, metrics)

    def _metrics(self, model: HybridModel) -> dict[str, float]:
        facts, filters = self.proofs.split.valid_sample(VALIDATION), known_filters(self.kb, "valid")
        return ranking_metrics(rank_facts(facts, model.kb_logits, filters))

    def model(self) -> HybridModel:
        return HybridModel(self.config, self.proofs.model(), self.embedding.model(), self._validated().weights)

    def _validated(self) -> HybridModel:
        """The model without the held-out facts, on which the weights of the embedding are chosen."""
        proofs, embedding = self.proofs.model_on(self.proofs.split.visible(self.kb)), self.embedding.model()
        return HybridModel(self.config, proofs, embedding, self._weights(proofs, embedding))

    def _weights(self, proofs: EvidenceModel, embedding: EmbeddingModel) -> Float[np.ndarray, " predicate"]:
        if self._chosen is not None:
            return self._chosen
        facts, given = self.proofs.split.valid_sample(CHOOSING), self.config.weight
        if given is not None or not len(facts):
            return np.full(len(self.kb.predicates), DEFAULT_WEIGHT if given is None else given)
        chosen = choose_weights(proofs, embedding, self.kb, facts)
        if self.finished:
            self._chosen = chosen
        return chosen

    def checkpoint(self) -> Artifact:
        parts = {"proofs": self.proofs.checkpoint(), "embedding": self.embedding.checkpoint()}
        manifests = {part: artifact.manifest for part, artifact in parts.items()}
        manifest = {"config": self.config.model_dump(mode="json"), "parts": manifests}
        return Artifact(
            manifest, {f"{part}.{name}": tensor for part, a in parts.items() for name, tensor in a.tensors.items()}
        )

    def restore(self, checkpoint: Artifact) -> None:
        check_config(checkpoint, self.config)
        try:
            parts = [Artifact(checkpoint.manifest["parts"][part], under(f"{part}.", checkpoint)) for part in PARTS]
        except (KeyError, TypeError) as error:
            raise ArtifactError(f"the checkpoint of a hybrid has no {error}") from None
        self._chosen = None
        self.proofs.restore(parts[0])
        self.embedding.restore(parts[1])
