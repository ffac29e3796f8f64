"""Goals as numbers: what is given and which place is open, in LibKGE's words `sp_`, `_po`, `s_o` and `spo`."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ctp_core.kb.knowledge_base import FactIds

OPEN = -1  # stands where a goal asks


class Place(IntEnum):
    """The places of a fact; each is its column in FactIds."""

    SUBJECT = 0
    PREDICATE = 1
    OBJECT = 2


@dataclass(frozen=True)
class GoalIds:
    """Goals that all leave the same place open: facts with OPEN in that place.

    Place.OBJECT is (s, p, ?), Place.SUBJECT (?, p, o), Place.PREDICATE (s, ?, o); None leaves no place open, and asks
    for the score of whole facts.
    """

    facts: FactIds
    place: Place | None
    # Only the order of answers that are not yet known is wanted: a model may round, and may let known facts prove
    # themselves. Never set where a score is shown to anybody.
    for_ranking: bool = False
    # Answers that are stated are left out of what is shown: a model need not look at them closely.
    new_only: bool = False

    @classmethod
    def hiding(cls, facts: FactIds, place: Place | None, *, for_ranking: bool = False) -> "GoalIds":
        """Asks for what stands in one place of each fact."""
        if place is None:
            return cls(facts, None, for_ranking)
        goals = facts.copy()
        goals[:, place] = OPEN
        return cls(goals, place, for_ranking)

    @classmethod
    def for_objects(
        cls, subjects: Int[np.ndarray, " goal"], predicates: Int[np.ndarray, " goal"], *, for_ranking: bool = False
    ) -> "GoalIds":
        """(s, p, ?) of each pair."""
        open_ = np.full_like(subjects, OPEN)
        return cls(np.stack([subjects, predicates, open_], axis=1), Place.OBJECT, for_ranking)

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def subjects(self) -> NDArray[np.int64]:
        return self.facts[:, Place.SUBJECT]

    @property
    def predicates(self) -> NDArray[np.int64]:
        return self.facts[:, Place.PREDICATE]

    @property
    def objects(self) -> NDArray[np.int64]:
        return self.facts[:, Place.OBJECT]

    @property
    def given(self) -> NDArray[np.int64]:
        """The entity at the other end of the one that is asked for."""
        assert self.asks_for_entities
        return self.subjects if self.forward else self.objects

    @property
    def asks_for_entities(self) -> bool:
        return self.place in (Place.SUBJECT, Place.OBJECT)

    @property
    def forward(self) -> bool:
        """From subject to object: the object is asked for."""
        return self.place is Place.OBJECT

    def candidates(self, num_entities: int, num_predicates: int) -> FactIds:
        """Every fact that could be an answer, goal by goal: [goal · candidate, 3]."""
        if self.place is None:
            return self.facts
        size = num_predicates if self.place is Place.PREDICATE else num_entities
        facts = np.repeat(self.facts, size, axis=0)
        facts[:, self.place] = np.tile(np.arange(size), len(self))
        return facts

    def by_goal(self, values: Float[np.ndarray, " candidates"]) -> Float[np.ndarray, "goal candidate"]:
        """What was found of all `candidates`, one row for each goal."""
        return values.reshape(len(self), len(values) // max(1, len(self)) if self.place is not None else 1)


# The scores of all candidates of each goal: entities, predicates, or of a whole fact itself.
Score = Callable[[GoalIds], Float[np.ndarray, "goal candidate"]]
