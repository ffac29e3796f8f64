"""Base of the models that walk: a fact is as likely as a walk for its predicate from subject to object."""

from abc import abstractmethod

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import nn

from ctp_core.artifact import Artifact
from ctp_core.base.config import BaseConfig
from ctp_core.base.cost import check_question
from ctp_core.base.facts_model import (
    Explanation,
    FactsModel,
    FactsView,
    load_state,
    read_calibration,
    read_config,
    read_kb,
)
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.rules import Rule

FLOOR = 1e-9  # the likelihood of what is not reached
UNCALIBRATED = (1.0, 0.0)

Table = Float[np.ndarray, "entity entity"]


class ReachModel(FactsModel):
    """logit = scale · log(reach + FLOOR) + offset, fitted on validation so that the sigmoid reads as a probability."""

    def __init__(self, config: BaseConfig, kb: FactsKB, module: nn.Module, calibration: tuple[float, float]) -> None:
        self.config, self.kb, self.module = config, kb, module
        self.scale, self.offset = calibration
        self._tables: dict[int, Table] = {}

    @abstractmethod
    def reach(
        self, view: FactsView, predicate: int, subjects: NDArray[np.int64]
    ) -> Float[np.ndarray, "subject entity"]:
        """How likely walks from each subject end at each entity, 0 or more."""

    @property
    def semiring(self) -> str:
        return "none"

    def _table(self, predicate: int) -> Table:
        """log(reach + FLOOR) of all pairs of entities, on the KB without the facts that a question adds."""
        if predicate not in self._tables:
            everybody = np.arange(len(self.kb.entities))
            self._tables[predicate] = np.log(self.reach(self._kb_view, predicate, everybody) + FLOOR)
        return self._tables[predicate]

    def logarithms(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        """log(reach + FLOOR) of facts over the KB's own entities."""
        return np.array([self._table(predicate)[subject, object_] for subject, predicate, object_ in facts.tolist()])

    def logits(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        found = self._extended(view, facts) if view.extended else self.logarithms(facts)
        return np.asarray(self.scale * found + self.offset, dtype=np.float64)

    def num_tables(self, num_predicates: int) -> int:
        """The number of entity × entity tables in memory at the same time: one for each atom."""
        return 2 * num_predicates

    def _extended(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        check_question(len(view.entities), self.num_tables(len(view.predicates)))
        subjects, rows = np.unique(facts[:, 0], return_inverse=True)
        found = np.empty(len(facts))
        for predicate in np.unique(facts[:, 1]).tolist():
            chosen = facts[:, 1] == predicate
            found[chosen] = self.reach(view, predicate, subjects)[rows[chosen], facts[chosen, 2]]
        return np.log(found + FLOOR)

    def object_logits(
        self, subjects: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Float[np.ndarray, "question entity"]:
        rows = zip(subjects.tolist(), predicates.tolist(), strict=True)
        return self.scale * np.stack([self._table(predicate)[subject] for subject, predicate in rows]) + self.offset

    def subject_logits(
        self, objects: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Float[np.ndarray, "question entity"]:
        rows = zip(objects.tolist(), predicates.tolist(), strict=True)
        return self.scale * np.stack([self._table(predicate)[:, object_] for object_, predicate in rows]) + self.offset

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        del view, logits, num_proofs
        return [Explanation() for _ in facts]

    def rules(self) -> list[Rule]:
        return []

    def to_artifact(self) -> Artifact:
        tensors = {f"module.{name}": tensor for name, tensor in self.module.state_dict().items()}
        return self._base_artifact(tensors, calibration={"scale": self.scale, "offset": self.offset})

    @classmethod
    @abstractmethod
    def build(cls, config: BaseConfig, num_predicates: int) -> nn.Module:
        """Builds the module, whose weights are loaded later; raises ArtifactError on a config of another method."""

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "ReachModel":
        config, kb = read_config(artifact), read_kb(artifact)
        module = cls.build(config, len(kb.predicates)).to(device)
        load_state(module, "module", artifact)
        return cls(config, kb, module.requires_grad_(False), read_calibration(artifact))
