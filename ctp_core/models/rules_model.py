"""Link prediction by mined rules with learnt weights, on edge lists: for KBs too large for tables of all pairs."""

from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ctp_core.artifact import Artifact
from ctp_core.config.rules import RulesConfig
from ctp_core.datasets.kb import FactIds, FactsKB, KnowledgeBase
from ctp_core.errors import ArtifactError
from ctp_core.models.evidence_model import EvidenceModel
from ctp_core.models.facts_model import FactsView, facts_about, read_config, read_kb
from ctp_core.provers.rule_arrays import RuleArrays, RuleTable

COLUMNS = ("head", "template", "body", "weight", "bias")


class RulesModel(EvidenceModel):
    method: ClassVar[str] = "rules"

    def __init__(self, config: RulesConfig, kb: FactsKB, table: RuleTable) -> None:
        super().__init__(kb)
        self.config: RulesConfig = config
        self._table = table
        self._arrays = RuleArrays(table)

    def on(self, kb: KnowledgeBase) -> "RulesModel":
        """Its rules on other facts: those whose predicates it knows, about whatever entities."""
        return RulesModel(self.config, facts_about(kb, self.kb.predicates), self._table)

    @property
    def arrays(self) -> RuleArrays:
        return self._arrays

    def logits(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        if len(facts) > 1 and (facts[:, 1] == facts[0, 1]).all():
            forward = bool((facts[:, 0] == facts[0, 0]).all())
            given, asked = (0, 2) if forward else (2, 0)
            reached = self.arrays.reach(view.edges, int(facts[0, 1]), int(facts[0, given]), forward=forward)
            return np.asarray(reached[facts[:, asked]])
        return self.arrays.totals(view.edges, facts)

    def object_logits(
        self, subjects: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Float[np.ndarray, "question entity"]:
        return self._rows(subjects, predicates, forward=True)

    def subject_logits(
        self, objects: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Float[np.ndarray, "question entity"]:
        return self._rows(objects, predicates, forward=False)

    def _rows(
        self, starts: NDArray[np.int64], predicates: NDArray[np.int64], *, forward: bool
    ) -> Float[np.ndarray, "question entity"]:
        """All questions of a predicate are pushed together. Known facts keep the evidence of themselves here, which
        ranking filters out."""
        logits = np.empty((len(starts), len(self.kb.entities)))
        for predicate in np.unique(predicates).tolist():
            chosen = np.flatnonzero(predicates == predicate)
            counter = self._kb_view.edges.counter
            logits[chosen] = self.arrays.rows(counter, predicate, starts[chosen], forward=forward)
        return logits

    def to_artifact(self) -> Artifact:
        table = self.arrays.table
        return self._base_artifact({f"rules.{name}": torch.from_numpy(getattr(table, name)) for name in COLUMNS})

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "RulesModel":
        """On the CPU, whatever the device: sparse products of integers gain nothing elsewhere."""
        del device
        config, kb = read_config(artifact), read_kb(artifact)
        if not isinstance(config, RulesConfig):
            raise ArtifactError(f"a model of method {config.method!r} has no mined rules")
        try:
            table = RuleTable(**{name: artifact.tensors[f"rules.{name}"].numpy() for name in COLUMNS})
        except KeyError as error:
            raise ArtifactError(f"the artifact of mined rules has no {error}") from None
        return cls(config, kb, table)
