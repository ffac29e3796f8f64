"""Facts in groups of one entity and one predicate, by which a search leaves many out at once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class FactGroups:
    """The groups of an entity lie side by side, and so do the facts of a group."""

    facts: Ids
    others: Ids  # of each fact the entity at its other end
    first_fact: Ids  # of each group, and the end of the last one
    predicates: Ids  # of each group
    owners: Ids  # of each group its entity
    first_group: Ids  # of each entity, and the end of the last one

    @classmethod
    def of(cls, entities: Ids, predicates: Ids, others: Ids) -> "FactGroups":
        order = np.lexsort((predicates, entities))
        sorted_ = np.stack([entities, predicates])[:, order]
        first = np.flatnonzero(np.diff(sorted_, axis=1, prepend=-1).any(0))
        owners, of_group = sorted_[:, first]
        first_group = np.searchsorted(owners, np.arange(entities.max(initial=-1) + 2))
        return cls(order, others[order], np.append(first, len(order)), of_group, owners, first_group)

    def least(
        self, costs: Float[np.ndarray, "row predicate"], num_entities: int
    ) -> tuple[Float[np.ndarray, "row entity"], NDArray[np.int64]]:
        """What the cheapest predicate of each entity costs, and the group it has: ∞ for one without facts."""
        least = np.full((len(costs), num_entities), np.inf, dtype=costs.dtype)
        group = np.zeros(least.shape, dtype=np.int64)
        if len(self.facts):
            of_group = costs.take(self.predicates, axis=1)
            known, first = np.unique(self.owners, return_index=True)
            least[:, known] = np.minimum.reduceat(of_group, first, axis=1)
            row, cheapest = np.divmod(np.flatnonzero(of_group == least.take(self.owners, axis=1)), len(self.owners))
            group[row, self.owners[cheapest]] = cheapest
        return least, group


def members(starts: Ids, groups: Ids) -> tuple[Ids, Ids]:
    """(index into `groups`, member) of every member of some groups, where those of group g begin at starts[g]."""
    first = starts[groups]
    sizes = starts[groups + 1] - first
    index = np.repeat(np.arange(len(groups)), sizes)
    return index, np.arange(len(index)) + (first - np.cumsum(sizes) + sizes)[index]


def smallest_at(values: NDArray[Any], place: Ids, shape: tuple[int, ...]) -> NDArray[Any]:
    """The smallest value at each place of a new table, ∞ where there is none."""
    table = np.full(shape, np.inf, dtype=values.dtype)
    np.minimum.at(table.reshape(-1), place, values)
    return table
