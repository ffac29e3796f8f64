"""The properties of a KB from which costs are forecast and presets for graphs choose their settings."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from ctp_core.kb.graphs import templates_needed
from ctp_core.kb.knowledge_base import FactIds, GraphsKB, Kind, KnowledgeBase
from ctp_core.kb.splits import HOLD_OUT_FROM, LEAST_VALID

# What is counted once, at upload, and stored with the KB: everything below that its row does not say anyway.
COUNTED = ("valid_facts", "num_paths", "num_questions", "used_predicates", "num_graphs")


class Profile(BaseModel):
    """Counts of a KB. `max_length` is the number of facts in the largest training graph, 0 for kind `facts`.

    `templates` are those that the training graphs need besides chains. The counts after it are of training facts, or of
    training graphs; None where nobody has counted.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    num_facts: int
    num_entities: int
    num_predicates: int
    max_length: int = 0
    templates: tuple[str, ...] = ()
    # Kind `facts`. Paths of two atoms join two facts at an entity, each read in either direction. A question is
    # (s, p, ?) or (?, p, o), with all its answers.
    valid_facts: int | None = None
    num_paths: int | None = None
    num_questions: int | None = None
    used_predicates: int | None = None
    # Kind `graphs`.
    num_graphs: int | None = None

    @classmethod
    def of(cls, kb: KnowledgeBase) -> "Profile":
        if isinstance(kb, GraphsKB):
            train = kb.splits.get("train", ())
            sizes = [len(graph.facts) for graph in train]
            return cls(
                kind="graphs",
                num_facts=sum(sizes),
                num_entities=0,
                num_predicates=len(kb.predicates),
                max_length=max(sizes, default=0),
                templates=templates_needed(train),
                num_graphs=len(train),
            )
        facts = kb.splits.get("train", np.zeros((0, 3), np.int64))
        return cls(
            kind="facts",
            num_facts=len(facts),
            num_entities=len(kb.entities),
            num_predicates=len(kb.predicates),
            **_counts(facts, len(kb.predicates)),
            valid_facts=len(kb.splits.get("valid", ())),
        )

    @property
    def counted(self) -> dict[str, int | None]:
        """What is stored with a KB, so that its profile is known without reading it."""
        return {name: getattr(self, name) for name in COUNTED}

    @staticmethod
    def is_counted(stored: Mapping[str, Any] | None) -> bool:
        """Whether all counts of this version are among them; earlier ones stored more."""
        return stored is not None and set(COUNTED) <= set(stored)

    @property
    def paths(self) -> float:
        """Paths of two atoms; where they are not counted, as many as facts that are spread evenly would make."""
        return float(self.num_paths or (2 * self.num_facts) ** 2 / max(1, self.num_entities))

    @property
    def questions(self) -> float:
        return float(self.num_questions or 2 * self.num_facts)

    @property
    def measurable(self) -> bool:
        """Whether settings can be compared: on validation facts, or on training facts that can be spared."""
        return (self.valid_facts or 0) >= LEAST_VALID or self.num_facts >= HOLD_OUT_FROM


def _counts(facts: FactIds, num_predicates: int) -> dict[str, int]:
    """Counts what forecasts of work rest on; takes about a second for a million facts."""
    subject, predicate, object_ = facts.T
    degrees = np.bincount(facts[:, [0, 2]].ravel(), minlength=1)
    asked = (given * num_predicates + predicate for given in (subject, object_))
    return {
        "num_paths": int((degrees.astype(np.float64) ** 2).sum()),
        "num_questions": sum(len(np.unique(questions)) for questions in asked),
        "used_predicates": int(np.count_nonzero(np.bincount(predicate))),
    }
