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
from ctp_core.base.goals import GoalIds, Place
from ctp_core.errors import ArtifactError
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.model import EvidenceModel
from ctp_core.evidence.proofs_arrays import EvidenceArrays
from ctp_core.evidence.proofs_counts import AskedFacts
from ctp_core.evidence.proofs_head import EvidenceHead
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
        """`offsets` set the level of each predicate's logits, which a loss that only ranks leaves open."""
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

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        evidence = super().logits(view, goals) if view.extended else self._looked_up(goals)
        offsets = self.offsets[None] if goals.place is Place.PREDICATE else self.offsets[goals.predicates][:, None]
        return np.asarray(evidence + offsets)

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(super().biases(facts) + self.offsets[facts[:, 1]])

    def _looked_up(self, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        if not goals.asks_for_entities:
            facts = goals.candidates(len(self.kb.entities), len(self.kb.predicates))
            self._compute_tables(facts[:, 1])
            found = [self._tables[predicate][subject, object_] for subject, predicate, object_ in facts.tolist()]
            return goals.by_goal(np.array(found, dtype=np.float64))
        self._compute_tables(goals.predicates)
        rows = zip(goals.given.tolist(), map(self._tables.__getitem__, goals.predicates.tolist()), strict=True)
        return np.stack([table[given] if goals.forward else table[:, given] for given, table in rows])

    @cached_property
    def _atom_tables(self) -> Float[Tensor, "atom entity entity"]:
        return atom_tables(self.kb.splits["train"], len(self.kb.entities), len(self.kb.predicates), self._device)

    def _compute_tables(self, predicates: Int[np.ndarray, " predicate"]) -> None:
        """Computes the logits of all pairs of entities for predicates not asked for before; no fact proves itself.

        Takes a few predicates at a time to save memory.
        """
        missing = [predicate for predicate in np.unique(predicates).tolist() if predicate not in self._tables]
        cells = max(self.head.templates.values()) * len(self.kb.entities) ** 2
        at_once = max(1, int(CELLS_AT_ONCE / max(1, cells)))
        for start in range(0, len(missing), at_once):
            goals = torch.tensor(missing[start : start + at_once], device=self._device)
            goal, subject, object_ = self._atom_tables[goals].nonzero().unbind(1)
            with torch.no_grad():
                logits = self.head.logits(self._atom_tables, goals, AskedFacts(goal, goals[goal], subject, object_))
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
    """The stored offsets; zeros for artifacts of earlier versions, which had none."""
    try:
        offsets = np.array(artifact.manifest.get("offsets", [0.0] * size), dtype=np.float64).reshape(size)
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"the artifact of a model of proofs has offsets that are not numbers: {error}") from None
    if not np.isfinite(offsets).all():
        raise ArtifactError("the artifact of a model of proofs has offsets that are not finite")
    return offsets
