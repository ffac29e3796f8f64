"""Proofs, an embedding and perhaps a frontier together: each adds its part to the logit, the proofs explain theirs."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from ctp_core.artifact import Artifact, check_magnitude
from ctp_core.base.calibration import Calibration
from ctp_core.base.facts_model import Explanation, FactsModel, FactsView, lines_of, read_config, read_probabilities
from ctp_core.base.goals import GoalIds, Place
from ctp_core.base.model import Scoring
from ctp_core.base.progress import OnPart, unheard
from ctp_core.embeddings.model import EmbeddingModel
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.model import EvidenceModel
from ctp_core.evidence.proofs_model import ProofsModel
from ctp_core.evidence.rules_model import RulesModel
from ctp_core.frontier.model import FrontierModel
from ctp_core.hybrid.config import HybridConfig
from ctp_core.kb.knowledge_base import FactIds, KnowledgeBase
from ctp_core.rules import Rule


class Weighed(NamedTuple):
    """A frontier, and how much it counts for each predicate."""

    model: FrontierModel
    weights: Float[np.ndarray, " predicate"]

    def on(self, kb: KnowledgeBase) -> "Weighed":
        return Weighed(self.model.on(kb), self.weights)


class HybridModel(FactsModel):
    """logit = logit of the proofs + weight · logit of the embedding + weight · logit of the frontier.

    The embedding counts only where both entities are known. Weights are those of the predicate, so that a fact has one
    score whichever place was asked for. `alone` calibrates what has no embedding, where there is a frontier: without
    one, these are the logits of the proofs, which have a calibration of their own.
    """

    scoring: ClassVar[Scoring] = "evidence"

    def __init__(
        self,
        config: HybridConfig,
        proofs: EvidenceModel,
        embedding: EmbeddingModel | None,
        weights: Float[np.ndarray, " predicate"],
        frontier: Weighed | None = None,
        alone: Calibration | None = None,
    ) -> None:
        self.config: HybridConfig = config
        self.kb = proofs.kb
        self.proofs, self.embedding, self.weights = proofs, embedding, weights
        self.frontier, self.alone = frontier, alone

    def on(self, kb: KnowledgeBase) -> FactsModel:
        """What knows no entity, applied to another KB: the proofs, and the frontier where there is one."""
        proofs = self.proofs.on(kb)
        assert isinstance(proofs, EvidenceModel)
        if self.frontier is None:
            return proofs
        model = HybridModel(self.config, proofs, None, self.weights, self.frontier.on(kb), self.alone)
        return model.calibrated_by(self.calibration)

    def without_embedding(self) -> "HybridModel":
        return HybridModel(self.config, self.proofs, None, self.weights, self.frontier)

    def alone_by_name(self) -> dict[str, FactsModel]:
        """Each part as a model of its own, as it is named in figures."""
        parts: dict[str, FactsModel] = {"proofs_": self.proofs}
        if self.embedding is not None:
            parts["embedding_"] = self.embedding
        if self.frontier is not None:
            parts["frontier_"] = self.frontier.model
        return parts

    @cached_property
    def kb_view(self) -> FactsView:
        """The view of the proofs, which keeps what they have counted."""
        return self.proofs.kb_view

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        return self._parts(view, goals)[""]

    def settled(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"]
    ) -> Float[np.ndarray, " fact"]:
        return logits if self.frontier is None else self.logits(view, GoalIds.hiding(facts, None))[:, 0]

    def kb_parts(self, goals: GoalIds) -> dict[str, Float[np.ndarray, "goal candidate"]]:
        """The logits of the whole (under "") and of each part, asked against the KB alone."""
        return self._parts(self.kb_view, goals)

    def _parts(self, view: FactsView, goals: GoalIds) -> dict[str, Float[np.ndarray, "goal candidate"]]:
        proved = self.proofs.logits(view, goals)
        parts = {"proofs_": proved}
        together = np.asarray(proved)
        if self.embedding is not None:
            embedded = self.embedding.logits_of_seen(view, goals)
            weighted = _for_goals(self.weights, goals) * embedded
            together = together + (weighted if goals.for_ranking else np.nan_to_num(weighted))
            parts["embedding_"] = embedded
        if self.frontier is not None:
            parts["frontier_"] = self.frontier.model.logits(view, goals)
            together = together + _for_goals(self.frontier.weights, goals) * parts["frontier_"]
        return {"": together, **parts}

    def _embedding_parts(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The embedding's part of each logit; NaN where an entity was never seen."""
        if self.embedding is None:
            return np.full(len(facts), np.nan)
        embedded = self.embedding.logits_of_seen(view, GoalIds.hiding(facts, None))[:, 0]
        return np.asarray(self.weights[facts[:, 1]] * embedded)

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        others = {"embedding": self._embedding_parts(view, facts)}
        if self.frontier is not None:
            found = self.frontier.model.logits(view, GoalIds.hiding(facts, None))[:, 0]
            others["frontier"] = self.frontier.weights[facts[:, 1]] * found
        rest = logits - sum(np.nan_to_num(part) for part in others.values())
        proved = self.proofs.explain(view, facts, rest, num_proofs)
        rows = zip(proved, *(part.tolist() for part in others.values()), strict=True)
        return [
            replace(why, score_parts={**(why.score_parts or {}), **_named(others, values)}) for why, *values in rows
        ]

    def lines(self, facts: FactIds) -> tuple[Float[np.ndarray, " fact"], Float[np.ndarray, " fact"]]:
        """The calibration of the hybrid; another one for a fact with an entity that the embedding never saw.

        Without a frontier, the proofs alone make the logit of such a fact.
        """
        seen = self._seen(facts)
        alone, at = self.proofs.lines(facts) if self.frontier is None else lines_of(self.alone, facts)
        slopes, levels = super().lines(facts)
        return np.where(seen, slopes, alone), np.where(seen, levels, at)

    def bent(self, straight: Float[np.ndarray, " fact"], facts: FactIds) -> Float[np.ndarray, " fact"]:
        if self.frontier is None:
            alone = self.proofs.bent(straight, facts)
        else:
            alone = straight if self.alone is None else self.alone.bend(straight)
        return np.where(self._seen(facts), super().bent(straight, facts), alone)

    def _seen(self, facts: FactIds) -> Bool[np.ndarray, " fact"]:
        """The facts whose two entities the embedding knows."""
        known = 0 if self.embedding is None else len(self.kb.entities)
        return np.asarray((facts[:, [0, 2]] < known).all(1))

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        """The rules of the proofs; their weights are those that they have within the hybrid."""
        return self.proofs.rules_calibrated_by(self.calibration, on_part)

    def rules_of(self, predicate: int) -> list[Rule]:
        return self.proofs.rules_calibrated_by(self.calibration, heads=(predicate,))

    def to_artifact(self) -> Artifact:
        """All parts in one artifact: their tensors under their names, the KB once."""
        assert self.embedding is not None, "applied to another KB, a hybrid is not stored"
        parts = {"proofs": self.proofs.to_artifact(), "embedding": self.embedding.to_artifact()}
        manifest: dict[str, Any] = {"weights": self.weights.tolist()}
        if self.frontier is not None:
            parts["frontier"] = self.frontier.model.to_artifact()
            manifest["frontier_weights"] = self.frontier.weights.tolist()
            manifest["alone"] = None if self.alone is None else self.alone.values()
        tensors = {
            f"{part}.{name}": tensor
            for part, artifact in parts.items()
            for name, tensor in artifact.tensors.items()
            if not name.startswith("facts.")
        }
        own = {part: _own_manifest(artifact) for part, artifact in parts.items()}
        return self._base_artifact(tensors, **manifest, parts=own)

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "HybridModel":
        config = read_config(artifact, HybridConfig)
        try:
            parts = {part: _part(artifact, part) for part in config.parts}
            weights, frontier_weights = _weights(artifact), _frontier_weights(artifact)
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"the artifact of a hybrid has no {error}") from None
        check_magnitude("the weights", *weights.tolist(), *frontier_weights.tolist())
        reader = ProofsModel if isinstance(config.proofs, ProofsConfig) else RulesModel
        proofs = reader.from_artifact(parts["proofs"], device)
        embedding = EmbeddingModel.from_artifact(parts["embedding"], device)
        if embedding.config.method != config.embedding.method:
            raise ArtifactError(f"the artifact of a hybrid has an embedding of method {embedding.config.method!r}")
        frontier, alone = None, None
        if "frontier" in parts:
            frontier = Weighed(FrontierModel.from_artifact(parts["frontier"], device), frontier_weights)
            alone = Calibration.read(artifact.manifest.get("alone"), len(weights))
        model = cls(config, proofs, embedding, weights, frontier, alone)
        return model.calibrated_by(read_probabilities(artifact))


def _weights(artifact: Artifact) -> Float[np.ndarray, " predicate"]:
    """One weight for each predicate; artifacts of earlier versions hold one `weight` for all."""
    manifest = artifact.manifest
    size = len(manifest["predicates"])
    stored = manifest["weights"] if "weights" in manifest else [manifest["weight"]] * size
    return np.array(stored, dtype=np.float64).reshape(size)


def _frontier_weights(artifact: Artifact) -> Float[np.ndarray, " predicate"]:
    """None at all in a hybrid without a frontier."""
    stored = artifact.manifest.get("frontier_weights", [])
    size = len(artifact.manifest["predicates"]) if stored else 0
    return np.array(stored, dtype=np.float64).reshape(size)


def _for_goals(weights: Float[np.ndarray, " predicate"], goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
    return weights[None] if goals.place is Place.PREDICATE else weights[goals.predicates][:, None]


def _named(parts: Iterable[str], values: Iterable[float]) -> dict[str, float | None]:
    """The parts of one logit; None where a part knows nothing of a fact."""
    return {name: None if np.isnan(value) else value for name, value in zip(parts, values, strict=True)}


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
