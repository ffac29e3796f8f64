"""Base of the models that walk: a fact is as likely as a walk for its predicate from subject to object."""

from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ctp_core.artifact import Artifact
from ctp_core.base.cost import check_question
from ctp_core.base.edges import atom_tables
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
from ctp_core.kb.knowledge_base import FactIds, FactsKB
from ctp_core.rules import Rule
from ctp_core.shapes import Float, Tensor
from ctp_core.walkers.config import WalkerConfig

FLOOR = 1e-9  # the likelihood of what is not reached
UNCALIBRATED = (1.0, 0.0)

Table = Float[np.ndarray, "entity entity"]


class ReachModel(FactsModel):
    """logit = scale · log(reach + FLOOR) + offset; 1 and 0 but in artifacts of earlier versions."""

    scoring: ClassVar[Scoring] = "no_proofs"
    config_class: ClassVar[type[WalkerConfig]]
    module_class: ClassVar[type[nn.Module]]  # made of the number of predicates and the config

    def __init__(
        self, config: WalkerConfig, kb: FactsKB, module: nn.Module, calibration: tuple[float, float] = UNCALIBRATED
    ) -> None:
        self.config, self.kb, self.module = config, kb, module
        self.scale, self.offset = calibration
        self._log_reach: dict[int, Table] = {}

    @abstractmethod
    def reach(
        self, view: FactsView, predicate: int, subjects: NDArray[np.int64]
    ) -> Float[np.ndarray, "subject entity"]:
        """How likely walks from each subject end at each entity, 0 or more."""

    @staticmethod
    def tables_of(
        facts: FactIds, num_entities: int, num_predicates: int, device: torch.device
    ) -> Float[Tensor, "atom entity entity"]:
        """The table of where each step of a walk leads: along a predicate or its inverse."""
        return atom_tables(facts, num_entities, num_predicates, device)

    def tables(self, view: FactsView) -> Float[Tensor, "atom entity entity"]:
        """The tables of a view. Those of the KB are kept, because every predicate needs them."""
        return self._made_tables(view) if view.extended else self._kb_tables

    @cached_property
    def _kb_tables(self) -> Float[Tensor, "atom entity entity"]:
        return self._made_tables(self.kb_view)

    def _made_tables(self, view: FactsView) -> Float[Tensor, "atom entity entity"]:
        return self.tables_of(view.edges.facts, *view.sizes, next(self.module.parameters()).device)

    def _table(self, predicate: int) -> Table:
        """log(reach + FLOOR) of all pairs of entities, on the KB without the facts that a question adds."""
        if predicate not in self._log_reach:
            everybody = np.arange(len(self.kb.entities))
            self._log_reach[predicate] = np.log(self.reach(self.kb_view, predicate, everybody) + FLOOR)
        return self._log_reach[predicate]

    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        if view.extended:
            found = goals.by_goal(self._extended(view, goals.candidates(*view.sizes)))
        else:
            found = self._looked_up(goals)
        return np.asarray(self.scale * found + self.offset, dtype=np.float64)

    def _looked_up(self, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        if not goals.asks_for_entities:
            facts = goals.candidates(len(self.kb.entities), len(self.kb.predicates)).tolist()
            found = [self._table(predicate)[subject, object_] for subject, predicate, object_ in facts]
            return goals.by_goal(np.array(found))
        rows = zip(goals.given.tolist(), map(self._table, goals.predicates.tolist()), strict=True)
        return np.stack([table[given] if goals.forward else table[:, given] for given, table in rows])

    @staticmethod
    def num_tables(config: Any, num_predicates: int) -> int:
        """The number of entity × entity tables in memory at the same time: one for each atom."""
        del config
        return 2 * num_predicates

    def _extended(self, view: FactsView, facts: FactIds) -> Float[np.ndarray, " fact"]:
        check_question(len(view.entities), self.num_tables(self.config, len(view.predicates)))
        subjects, rows = np.unique(facts[:, 0], return_inverse=True)
        found = np.empty(len(facts))
        for predicate in np.unique(facts[:, 1]).tolist():
            chosen = facts[:, 1] == predicate
            found[chosen] = self.reach(view, predicate, subjects)[rows[chosen], facts[chosen, 2]]
        return np.log(found + FLOOR)

    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        del view, logits, num_proofs
        return [Explanation() for _ in facts]

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        del on_part  # there is nothing to count
        return []

    def to_artifact(self) -> Artifact:
        tensors = {f"module.{name}": tensor for name, tensor in self.module.state_dict().items()}
        return self._base_artifact(tensors, calibration={"scale": self.scale, "offset": self.offset})

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> Self:
        config, kb = read_config(artifact, cls.config_class), read_kb(artifact)
        module = cls.module_class(len(kb.predicates), config).to(device)
        load_state(module, "module", artifact)
        model = cls(config, kb, module.requires_grad_(False), read_calibration(artifact))
        return model.calibrated_by(read_probabilities(artifact))
