"""Proofs and an embedding together: the embedding adds one more part to the logit, the proofs explain theirs."""

from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float

from ctp_core.artifact import Artifact, check_magnitude
from ctp_core.base.facts_model import Explanation, FactsModel, FactsView, read_config, read_probabilities
from ctp_core.base.goals import GoalIds, Place
from ctp_core.base.model import Model, Scoring
from ctp_core.base.progress import OnPart, unheard
from ctp_core.embeddings.model import EmbeddingModel
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.model import EvidenceModel
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.evidence.rules_model import RulesModel
from ctp_core.hybrid.config import PARTS, HybridConfig
from ctp_core.kb.knowledge_base import FactIds, KnowledgeBase
from ctp_core.rules import Rule


class HybridModel(FactsModel):
    """logit = logit of the proofs + weight · logit of the embedding, the latter only where both entities are known.

    The weight is that of the predicate, so that a fact has one score whichever place was asked for.
    """

    scoring: ClassVar[Scoring] = "evidence"

    def __init__(
        self,
        config: HybridConfig,
        proofs: EvidenceModel,
        embedding: EmbeddingModel,
        weights: Float[np.ndarray, " predicate"],
    ) -> None:
        self.config: HybridConfig = config
        self.kb = proofs.kb
        self.proofs, self.embedding, self.weights = proofs, embedding, weights

    def on(self, kb: KnowledgeBase) -> Model:
        """The proofs alone, applied to another KB: the embedding does not know its entities."""
        return self.proofs.on(kb)

    @cached_property
    def kb_view(self) -> FactsView:
        """The view of the proofs, which keeps what they have counted."""
        return self.proofs.kb_view

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        return self._parts(view, goals)[""]

    def kb_parts(self, goals: GoalIds) -> dict[str, Float[np.ndarray, "goal candidate"]]:
        """The logits of the whole (under "") and of each part, asked against the KB alone."""
        return self._parts(self.kb_view, goals)

    def _parts(self, view: FactsView, goals: GoalIds) -> dict[str, Float[np.ndarray, "goal candidate"]]:
        proved, embedded = self.proofs.logits(view, goals), self.embedding.logits_of_seen(view, goals)
        weights = self.weights[None] if goals.place is Place.PREDICATE else self.weights[goals.predicates][:, None]
        weighted = weights * embedded
        together = proved + (weighted if goals.for_ranking else np.nan_to_num(weighted))
        return {"": np.asarray(together), "proofs_": proved, "embedding_": embedded}

    def _embedding_parts(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The embedding's part of each logit; NaN where an entity was never seen."""
        embedded = self.embedding.logits_of_seen(view, GoalIds.hiding(facts, None))[:, 0]
        return np.asarray(self.weights[facts[:, 1]] * embedded)

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        embedded = self._embedding_parts(view, facts)
        proved = self.proofs.explain(view, facts, logits - np.nan_to_num(embedded), num_proofs)
        return [
            replace(why, score_parts={**(why.score_parts or {}), "embedding": None if np.isnan(part) else float(part)})
            for why, part in zip(proved, embedded, strict=True)
        ]

    def lines(self, facts: FactIds) -> tuple[Float[np.ndarray, " fact"], Float[np.ndarray, " fact"]]:
        """The calibration of the hybrid; that of the proofs for a fact with an entity that the embedding never saw.

        The proofs alone make the logit of such a fact.
        """
        seen = self._seen(facts)
        (slopes, levels), (alone, at) = super().lines(facts), self.proofs.lines(facts)
        return np.where(seen, slopes, alone), np.where(seen, levels, at)

    def bent(self, straight: Float[np.ndarray, " fact"], facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.where(self._seen(facts), super().bent(straight, facts), self.proofs.bent(straight, facts))

    def _seen(self, facts: FactIds) -> Bool[np.ndarray, " fact"]:
        """The facts whose two entities the embedding knows."""
        return np.asarray((facts[:, [0, 2]] < len(self.kb.entities)).all(1))

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        """The rules of the proofs; their weights are those that they have within the hybrid."""
        return self.proofs.rules_calibrated_by(self.calibration, on_part)

    def rules_of(self, predicate: int) -> list[Rule]:
        return self.proofs.rules_calibrated_by(self.calibration, heads=(predicate,))

    def to_artifact(self) -> Artifact:
        """Both parts in one artifact: their tensors under their names, the KB once."""
        parts = {"proofs": self.proofs.to_artifact(), "embedding": self.embedding.to_artifact()}
        tensors = {
            f"{part}.{name}": tensor
            for part, artifact in parts.items()
            for name, tensor in artifact.tensors.items()
            if not name.startswith("facts.")
        }
        own = {part: _own_manifest(artifact) for part, artifact in parts.items()}
        return self._base_artifact(tensors, weights=self.weights.tolist(), parts=own)

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "HybridModel":
        config = read_config(artifact, HybridConfig)
        try:
            parts = {part: _part(artifact, part) for part in PARTS}
            weights = _weights(artifact)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"the artifact of a hybrid has no {error}") from None
        check_magnitude("the weights", *weights.tolist())
        reader = ProofsModel if isinstance(config.proofs, ProofsConfig) else RulesModel
        proofs = reader.from_artifact(parts["proofs"], device)
        embedding = EmbeddingModel.from_artifact(parts["embedding"], device)
        if embedding.config.method != config.embedding.method:
            raise ArtifactError(f"the artifact of a hybrid has an embedding of method {embedding.config.method!r}")
        return cls(config, proofs, embedding, weights).calibrated_by(read_probabilities(artifact))


def _weights(artifact: Artifact) -> Float[np.ndarray, " predicate"]:
    """One weight for each predicate; artifacts of earlier versions hold one `weight` for all."""
    manifest = artifact.manifest
    size = len(manifest["predicates"])
    stored = manifest["weights"] if "weights" in manifest else [manifest["weight"]] * size
    return np.array(stored, dtype=np.float64).reshape(size)


def _own_manifest(artifact: Artifact) -> dict[str, object]:
    shared = ("kind", "entities", "predicates")
    return {key: value for key, value in artifact.manifest.items() if key not in shared}


def _part(artifact: Artifact, part: str) -> Artifact:
    """The artifact of one part as if it had been saved alone."""
    manifest = {**artifact.manifest, **artifact.manifest["parts"][part]}
    tensors = {name: tensor for name, tensor in artifact.tensors.items() if name.startswith("facts.")}
    prefix = f"{part}."
    tensors |= {name.removeprefix(prefix): t for name, t in artifact.tensors.items() if name.startswith(prefix)}
    return Artifact(manifest, tensors)
