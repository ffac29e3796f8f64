"""Link prediction by proofs alone: every proof adds its share to the logit of a fact."""

from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ctp_core.artifact import Artifact
from ctp_core.base.edges import atom_tables
from ctp_core.base.facts_model import FactsView, facts_about, load_state, read_config, read_kb
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.head import EvidenceHead, OwnFacts
from ctp_core.evidence.model import EvidenceModel
from ctp_core.evidence.proofs_arrays import EvidenceArrays
from ctp_core.kb.knowledge_base import FactIds, FactsKB, KnowledgeBase

CELLS_AT_ONCE = 2e5  # counts computed together: a small KB is asked for all its predicates in a few calls


class ProofsModel(EvidenceModel):
    """The answering side of the evidence head: crisp entities, attention over predicates and their inverses."""

    method: ClassVar[str] = "proofs"

    def __init__(
        self,
        config: ProofsConfig,
        kb: FactsKB,
        head: EvidenceHead,
        offsets: Float[np.ndarray, " predicate"] | None = None,
    ) -> None:
        """`offsets`: what a loss that only ranks has left open, the level of the logits of each predicate."""
        self.config: ProofsConfig = config
        super().__init__(kb)
        self.head = head
        self.offsets = np.zeros(len(kb.predicates)) if offsets is None else offsets
        self._tables: dict[int, NDArray[np.float32]] = {}

    @property
    def arrays(self) -> EvidenceArrays:
        return self._arrays

    @cached_property
    def _arrays(self) -> EvidenceArrays:
        return EvidenceArrays(self.head)

    @property
    def _device(self) -> torch.device:
        return self.head.bias.device

    def on(self, kb: KnowledgeBase) -> "ProofsModel":
        """Its rules on other facts: those whose predicates it knows, about whatever entities."""
        return ProofsModel(self.config, facts_about(kb, self.kb.predicates), self.head, self.offsets)

    def logits(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(self._evidence(view, facts) + self.offsets[facts[:, 1]])

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(super().biases(facts) + self.offsets[facts[:, 1]])

    def _evidence(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        same_predicate = bool((facts[:, 1] == facts[0, 1]).all()) if len(facts) else True
        if not view.extended:
            if same_predicate:
                return np.asarray(self._table(int(facts[0, 1]))[facts[:, 0], facts[:, 2]], dtype=np.float64)
            values = [self._table(predicate)[subject, object_] for subject, predicate, object_ in facts.tolist()]
            return np.array(values, dtype=np.float64)
        if len(facts) > 1 and same_predicate:
            forward = bool((facts[:, 0] == facts[0, 0]).all())
            given, asked = (0, 2) if forward else (2, 0)
            reached = self.arrays.reach(view.edges, int(facts[0, 1]), int(facts[0, given]), forward=forward)
            return np.asarray(reached[facts[:, asked]])
        return self.arrays.totals(view.edges, facts)

    def object_logits(
        self, subjects: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Float[np.ndarray, "question entity"]:
        self._compute_tables(predicates)
        rows = zip(subjects.tolist(), predicates.tolist(), strict=True)
        return self._ranked(predicates, [self._table(predicate)[subject] for subject, predicate in rows])

    def subject_logits(
        self, objects: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Float[np.ndarray, "question entity"]:
        self._compute_tables(predicates)
        rows = zip(objects.tolist(), predicates.tolist(), strict=True)
        return self._ranked(predicates, [self._table(predicate)[:, object_] for object_, predicate in rows])

    def _ranked(
        self, predicates: Int[np.ndarray, " question"], rows: list[NDArray[np.float32]]
    ) -> Float[np.ndarray, "question entity"]:
        return np.asarray(np.stack(rows) + self.offsets[predicates][:, None])

    @cached_property
    def _atom_tables(self) -> Float[Tensor, "atom entity entity"]:
        return atom_tables(self.kb.splits["train"], len(self.kb.entities), len(self.kb.predicates), self._device)

    def _table(self, predicate: int) -> NDArray[np.float32]:
        """Logits of all pairs of entities, computed when a predicate is first asked for; no fact proves itself."""
        if predicate not in self._tables:
            self._compute_tables(np.array([predicate]))
        return self._tables[predicate]

    def _compute_tables(self, predicates: Int[np.ndarray, " predicate"]) -> None:
        """Those that are missing, as many at once as fit in little memory."""
        missing = [predicate for predicate in np.unique(predicates).tolist() if predicate not in self._tables]
        cells = max(self.head.templates.values()) * len(self.kb.entities) ** 2
        at_once = max(1, int(CELLS_AT_ONCE / max(1, cells)))
        for start in range(0, len(missing), at_once):
            goals = torch.tensor(missing[start : start + at_once], device=self._device)
            goal, subject, object_ = self._atom_tables[goals].nonzero().unbind(1)
            with torch.no_grad():
                logits = self.head.logits(self._atom_tables, goals, OwnFacts(goal, goals[goal], subject, object_))
            self._tables.update(zip(goals.tolist(), logits.cpu().numpy(), strict=True))

    def to_artifact(self) -> Artifact:
        tensors = {f"head.{name}": tensor for name, tensor in self.head.state_dict().items()}
        return self._base_artifact(tensors, offsets=self.offsets.tolist())

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "ProofsModel":
        config, kb = read_config(artifact, ProofsConfig), read_kb(artifact)
        widths = {template: config.members * width for template, width in config.widths.items()}
        sizes, how = (len(kb.predicates), widths), (config.saturation, config.counting)
        head = EvidenceHead(*sizes, torch.Generator(), device, config.initial_scale, *how)
        load_state(head, "head", artifact)
        return cls(config, kb, head, _offsets(artifact, len(kb.predicates)))


def _offsets(artifact: Artifact, size: int) -> Float[np.ndarray, " predicate"]:
    """0 in the artifacts of versions that had no such thing."""
    try:
        offsets = np.array(artifact.manifest.get("offsets", [0.0] * size), dtype=np.float64).reshape(size)
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"the artifact of a model of proofs has offsets that are no numbers: {error}") from None
    if not np.isfinite(offsets).all():
        raise ArtifactError("the artifact of a model of proofs has offsets that are not finite")
    return offsets
