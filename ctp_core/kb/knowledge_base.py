"""The two kinds of knowledge base: one KB of facts, and many small graphs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ctp_core.symbols import Fact, Vocabulary

Kind = Literal["facts", "graphs"]
SPLITS = ("train", "valid", "test")

FactIds = NDArray[np.int64]  # [fact, 3]: subject, predicate, object


@dataclass(frozen=True)
class FactsKB:
    """`kind: facts`. The facts of every split as ids; proofs may use only those of `train`."""

    entities: Vocabulary
    predicates: Vocabulary
    splits: Mapping[str, FactIds]
    kind: Kind = "facts"

    @classmethod
    def from_facts(cls, splits: Mapping[str, Iterable[Fact]]) -> "FactsKB":
        """Numbers the symbols in the order of their first appearance, train first."""
        ordered = {name: [Fact(*fact) for fact in splits[name]] for name in SPLITS if name in splits}
        facts = [fact for split in ordered.values() for fact in split]
        entities = Vocabulary("entity", (name for fact in facts for name in (fact.subject, fact.object)))
        predicates = Vocabulary("predicate", (fact.predicate for fact in facts))

        def ids(split: list[Fact]) -> FactIds:
            rows = [(entities.id(f.subject), predicates.id(f.predicate), entities.id(f.object)) for f in split]
            return np.array(rows, dtype=np.int64).reshape(-1, 3)

        return cls(entities, predicates, {name: ids(split) for name, split in ordered.items()})

    def fact(self, ids: Iterable[int]) -> Fact:
        subject, predicate, object_ = ids
        return Fact(self.entities.names[subject], self.predicates.names[predicate], self.entities.names[object_])

    def facts(self, split: str) -> list[Fact]:
        return [self.fact(row) for row in self.splits.get(split, np.zeros((0, 3), dtype=np.int64)).tolist()]


@dataclass(frozen=True)
class Graph:
    """A small graph with a query pair; `label` is the predicate that holds for the pair, None where it is unknown."""

    facts: tuple[Fact, ...]
    subject: str
    object: str
    label: str | None


@dataclass(frozen=True)
class GraphsKB:
    """`kind: graphs`. Entities are local to a graph; predicates are shared. `targets` are those used as labels."""

    predicates: Vocabulary
    targets: tuple[str, ...]
    splits: Mapping[str, tuple[Graph, ...]]
    kind: Kind = "graphs"


KnowledgeBase = FactsKB | GraphsKB
