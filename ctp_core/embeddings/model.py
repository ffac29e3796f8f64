"""An embedding as a model: accurate, but without proofs."""

from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ctp_core.artifact import Artifact
from ctp_core.base.facts_model import (
    Explanation,
    FactsModel,
    FactsView,
    load_state,
    read_calibration,
    read_config,
    read_kb,
    read_probabilities,
)
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Scoring
from ctp_core.base.progress import OnPart, unheard
from ctp_core.embeddings.config import EMBEDDINGS, EmbeddingConfig
from ctp_core.embeddings.factorisations import FACTORISATIONS, Factorisation
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.rules import Rule


class EmbeddingModel(FactsModel):
    """logit = scale · φ(s, p, o) + offset, on the scale of a logit, so that a hybrid can add it to proofs."""

    scoring: ClassVar[Scoring] = "no_proofs"

    def __init__(
        self, config: EmbeddingConfig, kb: FactsKB, factorisation: Factorisation, calibration: tuple[float, float]
    ) -> None:
        self.config: EmbeddingConfig = config
        self.kb = kb
        self.factorisation = factorisation
        self.scale, self.offset = calibration
        with torch.no_grad():
            averaged = factorisation.averaged() if config.reciprocal else factorisation.predicates
            self._predicates = averaged.detach()

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        """The logits; the offset alone where an entity was not in training."""
        found = self.logits_of_seen(view, goals)
        return found if goals.for_ranking else np.nan_to_num(found, nan=self.offset)

    def logits_of_seen(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        """The logits; NaN where an entity was not in training."""
        if goals.for_ranking:
            products = self._ranked_products(goals)
        else:  # fact by fact, so that a fact has one score to the last bit whichever place is asked for
            products = goals.by_goal(self.fact_products(goals.candidates(*view.sizes)))
        return np.asarray(self.scale * products + self.offset)

    def _ranked_products(self, goals: GoalIds) -> Float[np.ndarray, "goal entity"]:
        """φ of all entities in the open place, by one matrix product."""
        with torch.no_grad():
            vectors = self._predicates[self._ids(goals.predicates)]
            vectors = vectors if goals.forward else self.factorisation.adjoint(vectors)
            queries = self.factorisation.compose(self.factorisation.entities[self._ids(goals.given)], vectors)
            return (queries @ self.factorisation.entities.T).cpu().numpy()

    def fact_products(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """φ of each fact; NaN where an entity was not in training."""
        seen = (facts[:, [0, 2]] < len(self.kb.entities)).all(1)
        products = np.full(len(facts), np.nan)
        with torch.no_grad():
            subject, predicate, object_ = (self._ids(column) for column in facts[seen].T)
            entities = self.factorisation.entities
            queries = self.factorisation.compose(entities[subject], self._predicates[predicate])
            products[seen] = (queries * entities[object_]).sum(-1).cpu().numpy()
        return products

    def _ids(self, ids: NDArray[np.int64]) -> Int[Tensor, " row"]:
        return torch.from_numpy(np.ascontiguousarray(ids)).to(self._predicates.device)

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        """Gives no proofs, only parts of the logit: `bias`, and `embedding`, None for entities not in training."""
        del view, logits, num_proofs
        parts = self.scale * self.fact_products(facts)
        return [
            Explanation((), {"bias": self.offset, "embedding": None if np.isnan(part) else float(part)})
            for part in parts
        ]

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        """Always empty: an embedding has no rules."""
        del on_part
        return []

    def to_artifact(self) -> Artifact:
        state = self.factorisation.state_dict()
        calibration = {"scale": self.scale, "offset": self.offset}
        return self._base_artifact({f"factorisation.{name}": t for name, t in state.items()}, calibration=calibration)

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "EmbeddingModel":
        config = read_config(artifact, EMBEDDINGS[artifact.manifest["config"]["method"]])
        kb = read_kb(artifact)
        sizes = (len(kb.entities), len(kb.predicates))
        factorisation = FACTORISATIONS[config.method](sizes, config.width, torch.Generator(), device)
        load_state(factorisation, "factorisation", artifact)
        model = cls(config, kb, factorisation.requires_grad_(False), read_calibration(artifact))
        return model.calibrated_by(read_probabilities(artifact))
