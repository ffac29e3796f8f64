"""Facts in groups of one entity and one predicate, by which a search leaves many out at once."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class FactGroups:
    """The groups of an entity lie side by side, and so do the facts of a group."""

    facts: Ids
    place: Ids  # of each fact among `facts`, and at the end -1: that of no fact
    others: Ids  # of each place the entity at the fact's other end
    first_fact: Ids  # of each group, and the end of the last one
    predicates: Ids  # of each group
    first_group: Ids  # of each entity, and the end of the last one
    group: Int[np.ndarray, "entity predicate"]
    absent: Float[np.ndarray, "entity predicate"]  # ∞ where there is no such group, else 0

    @classmethod
    def of(cls, entities: Ids, predicates: Ids, others: Ids, shape: tuple[int, int]) -> "FactGroups":
        """`shape` is how many entities and predicates there are."""
        order = np.lexsort((predicates, entities))
        key = np.ravel_multi_index((entities[order], predicates[order]), shape)
        known, first = np.unique(key, return_index=True)
        owners, of_groups = np.unravel_index(known, shape)
        place = np.append(np.argsort(order), -1)
        group, absent = np.zeros(shape, dtype=np.int64), np.full(shape, np.inf, dtype=np.float32)
        group[owners, of_groups], absent[owners, of_groups] = np.arange(len(known)), 0
        starts = np.append(first, len(order)), np.searchsorted(owners, np.arange(shape[0] + 1))
        return cls(order, place, others[order], starts[0], of_groups, starts[1], group, absent)


def members(starts: Ids, groups: Ids) -> tuple[Ids, Ids]:
    """(index into `groups`, member) of every member of some groups, where those of group g begin at starts[g]."""
    first = starts[groups]
    sizes = starts[groups + 1] - first
    index = np.arange(len(groups)).repeat(sizes)
    return index, np.arange(len(index)) + (first - sizes.cumsum() + sizes)[index]
