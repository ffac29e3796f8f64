"""Link prediction by proofs alone: every proof adds its share to the logit of a fact."""

from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from ctp_core.artifact import Artifact, check_magnitude
from ctp_core.base.edges import atom_tables
from ctp_core.base.facts_model import FactsView, facts_about, load_state, read_config, read_kb, read_probabilities
from ctp_core.base.goals import GoalIds, Place
from ctp_core.errors import ArtifactError
from ctp_core.evidence.attention_arrays import AttentionArrays
from ctp_core.evidence.attention_counts import AskedFacts
from ctp_core.evidence.attention_head import AttentionHead
from ctp_core.evidence.config import ProofsConfig
from ctp_core.evidence.model import Arrays, EvidenceModel, logits_by
from ctp_core.evidence.rules_arrays import RuleArrays, RuleTable
from ctp_core.evidence.rules_model import logits_by_rules, read_table, rule_arrays, table_tensors
from ctp_core.evidence.together import Together
from ctp_core.kb.knowledge_base import FactIds, FactsKB, KnowledgeBase
from ctp_core.rules import Template

TABLE_CELLS = 3e7  # logits of all pairs of entities for all predicates: 120 MB
CELLS_AT_ONCE = 2e5  # counts computed together: a small KB is asked for all its predicates in a few calls


class ProofsModel(EvidenceModel):
    """The answering side of the engine: crisp entities, attention over predicates and their inverses, mined rules.

    At least one of `head` and `table` is there.
    """

    def __init__(
        self,
        config: ProofsConfig,
        kb: FactsKB,
        head: AttentionHead | None,
        offsets: Float[np.ndarray, " predicate"] | None = None,
        table: RuleTable | None = None,
        *,
        at_home: bool = True,
    ) -> None:
        """`offsets` set the level of each predicate's logits, which a loss that only ranks leaves open."""
        self.config: ProofsConfig = config
        super().__init__(kb)
        self.head, self.table, self._at_home = head, table, at_home
        self.offsets = np.zeros(len(kb.predicates)) if offsets is None else offsets
        self._tables: dict[int, NDArray[np.float32]] = {}

    @property
    def arrays(self) -> Arrays:
        return self._arrays

    @cached_property
    def _arrays(self) -> Arrays:
        if self.attention is None or self.mined is None:
            found = self.attention or self.mined
            assert found is not None
            return found
        return Together(self.attention, self.mined)

    @cached_property
    def attention(self) -> AttentionArrays | None:
        return None if self.head is None else AttentionArrays(self.head)

    @cached_property
    def mined(self) -> RuleArrays | None:
        if self.table is None:
            return None
        return rule_arrays(self.table, self.kb_view, long=self.config.constant_atoms > 1, at_home=self._at_home)

    def on(self, kb: KnowledgeBase) -> "ProofsModel":
        """Its rules on other facts: those whose predicates it knows, about whatever entities."""
        other = facts_about(kb, self.kb.predicates)
        model = ProofsModel(self.config, other, self.head, self.offsets, self.table, at_home=False)
        return model.calibrated_by(self.calibration)

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        offsets = self.offsets[None] if goals.place is Place.PREDICATE else self.offsets[goals.predicates][:, None]
        total = np.asarray(offsets)
        if self.attention is not None:
            by_table = self._by_table and not view.extended
            total = total + (self._looked_up(goals) if by_table else logits_by(self.attention, view, goals))
        if self.mined is not None:
            total = total + logits_by_rules(self.mined, view, goals)
        return np.asarray(total)

    @cached_property
    def _by_table(self) -> bool:
        """Whether tables of all pairs of entities are small: elsewhere each question is walked on its own."""
        return len(self.kb.predicates) * len(self.kb.entities) ** 2 <= TABLE_CELLS

    def biases(self, facts: FactIds) -> Float[np.ndarray, " fact"]:
        return np.asarray(super().biases(facts) + self.offsets[facts[:, 1]])

    def counts(self, predicate: int, template: Template, body: tuple[int, ...]) -> tuple[int, int]:
        if template.constant and self.mined is not None and self.mined.constants is not None:
            return self.mined.constants.support(predicate, body)
        return super().counts(predicate, template, body)

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
        assert self.head is not None
        device = self.head.bias.device
        return atom_tables(self.kb.splits["train"], len(self.kb.entities), len(self.kb.predicates), device)

    def _compute_tables(self, predicates: Int[np.ndarray, " predicate"]) -> None:
        """Computes the logits of all pairs of entities for predicates not asked for before; no fact proves itself.

        Takes a few predicates at a time to save memory.
        """
        assert self.head is not None
        missing = [predicate for predicate in np.unique(predicates).tolist() if predicate not in self._tables]
        cells = max(self.head.templates.values()) * len(self.kb.entities) ** 2
        at_once = max(1, int(CELLS_AT_ONCE / max(1, cells)))
        for start in range(0, len(missing), at_once):
            goals = torch.tensor(missing[start : start + at_once], device=self.head.bias.device)
            goal, subject, object_ = self._atom_tables[goals].nonzero().unbind(1)
            with torch.no_grad():
                logits = self.head.logits(self._atom_tables, goals, AskedFacts(goal, goals[goal], subject, object_))
            self._tables.update(zip(goals.tolist(), logits.cpu().numpy(), strict=True))

    def to_artifact(self) -> Artifact:
        tensors = {} if self.table is None else table_tensors(self.table)
        if self.head is not None:
            tensors |= {f"head.{name}": tensor for name, tensor in self.head.state_dict().items()}
        return self._base_artifact(tensors, offsets=self.offsets.tolist())

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "ProofsModel":
        """Has attention, mined rules or both, as the tensors tell; raises ArtifactError on neither."""
        config, kb = read_config(artifact, ProofsConfig), read_kb(artifact)
        table = read_table(artifact, len(kb.predicates)) if "rules.head" in artifact.tensors else None
        head = None
        if table is None or "head.bias" in artifact.tensors:
            widths = {template: config.members * width for template, width in config.widths.items()}
            sizes, how = (len(kb.predicates), widths), (config.saturation, config.counting)
            head = AttentionHead(*sizes, torch.Generator(), device, config.initial_scale, *how)
            load_state(head, "head", artifact)
        model = cls(config, kb, head, _offsets(artifact, len(kb.predicates)), table)
        return model.calibrated_by(read_probabilities(artifact)).with_counts_of(artifact)


def _offsets(artifact: Artifact, size: int) -> Float[np.ndarray, " predicate"]:
    """The stored offsets; zeros for artifacts of earlier versions, which had none."""
    try:
        offsets = np.array(artifact.manifest.get("offsets", [0.0] * size), dtype=np.float64).reshape(size)
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"the artifact of a model of proofs has offsets that are not numbers: {error}") from None
    check_magnitude("the offsets", *offsets.tolist())
    return offsets
