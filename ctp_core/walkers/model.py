"""Base of the models that walk: a fact is as likely as a walk for its predicate from subject to object."""

from abc import abstractmethod

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import nn

from ctp_core.artifact import Artifact
from ctp_core.base.config import BaseConfig
from ctp_core.base.cost import check_question
from ctp_core.base.facts_model import Explanation, FactsModel, FactsView
from ctp_core.base.goals import GoalIds
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
            self._tables[predicate] = np.log(self.reach(self.kb_view, predicate, everybody) + FLOOR)
        return self._tables[predicate]

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
