"""The two kinds of knowledge base: one KB of facts, and many small graphs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ctp_core.errors import TooLarge
from ctp_core.symbols import Fact, Vocabulary

Kind = Literal["facts", "graphs"]
MAX_KEY = 2**63 - 1
SPLITS = ("train", "valid", "test")

FactIds = NDArray[np.int64]  # [fact, 3]: subject, predicate, object


def fact_keys(facts: FactIds, num_entities: int, num_predicates: int) -> NDArray[np.int64]:
    """Packs each fact into one number; numbers sort by subject, then predicate, then object.

    Raises TooLarge for so many symbols that the number of possible facts does not fit into 63 bits.
    """
    if num_entities**2 * num_predicates > MAX_KEY:
        most = MAX_KEY // num_entities**2
        raise TooLarge(
            f"a KB of {num_entities:,} entities may have at most {most:,} predicates, not {num_predicates:,}"
        )
    keys = facts[:, 0].astype(np.int64)
    keys *= num_predicates
    keys += facts[:, 1]
    keys *= num_entities
    keys += facts[:, 2]
    return keys


def distinct_facts(facts: FactIds, num_entities: int, num_predicates: int) -> FactIds:
    """Keeps the first occurrence of each fact. Called only where facts come in; later code relies on it."""
    keys = fact_keys(facts, num_entities, num_predicates)
    ordered = np.sort(keys)
    if not (ordered[1:] == ordered[:-1]).any():  # mostly, and without the memory of the order
        return facts
    del ordered
    return facts[np.sort(np.unique(keys, return_index=True)[1])]


def sorted_facts(facts: FactIds, num_entities: int, num_predicates: int) -> FactIds:
    """Sorts facts by subject, then predicate, then object."""
    return facts[np.argsort(fact_keys(facts, num_entities, num_predicates), kind="stable")]


class FactSet:
    """A set of facts that is asked about many facts at once."""

    def __init__(self, facts: FactIds, num_entities: int, num_predicates: int) -> None:
        self._sizes = (num_entities, num_predicates)
        self._keys = np.sort(fact_keys(facts, *self._sizes))

    def states(self, facts: FactIds) -> NDArray[np.bool_]:
        keys = fact_keys(facts, *self._sizes)
        if not len(self._keys):
            return np.zeros(len(keys), dtype=bool)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.asarray(self._keys[place] == keys)


@dataclass(frozen=True)
class FactsKB:
    """`kind: facts`. The facts of every split as ids, each once; proofs may use only those of `train`."""

    entities: Vocabulary
    predicates: Vocabulary
    splits: Mapping[str, FactIds]
    kind: Kind = "facts"

    @classmethod
    def from_facts(cls, splits: Mapping[str, Iterable[Fact]]) -> "FactsKB":
        """Numbers the symbols in the order of their first appearance, train first; drops duplicates in a split."""
        ordered = {name: [Fact(*fact) for fact in splits[name]] for name in SPLITS if name in splits}
        facts = [fact for split in ordered.values() for fact in split]
        entities = Vocabulary("entity", (name for fact in facts for name in (fact.subject, fact.object)))
        predicates = Vocabulary("predicate", (fact.predicate for fact in facts))

        def ids(split: list[Fact]) -> FactIds:
            rows = [(entities.id(f.subject), predicates.id(f.predicate), entities.id(f.object)) for f in split]
            return distinct_facts(np.array(rows, dtype=np.int64).reshape(-1, 3), len(entities), len(predicates))

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
