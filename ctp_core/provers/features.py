"""What is said of each entity, as the bodies of rules with constants need it."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from ctp_core.provers.edge_list import EdgeList

STRIDE = 2**32  # of feature keys: more than any KB has entities
ANY = -1  # in place of the other entity
Ids = NDArray[np.int64]


def key_of(atom: int, other: int) -> int:
    return atom * STRIDE + (STRIDE - 1 if other == ANY else other)


class EntityFeatures:
    """What is said of each entity: (atom, other entity) and (atom, anything), numbered by their sorted keys."""

    def __init__(self, edges: "EdgeList") -> None:
        anything = np.unique(edges.tail * 2 * edges.num_predicates + edges.atom)
        tail, atom = anything // (2 * edges.num_predicates), anything % (2 * edges.num_predicates)
        entity = np.concatenate([edges.tail, tail])
        key = np.concatenate([edges.atom * STRIDE + edges.head, atom * STRIDE + STRIDE - 1])
        self.keys, feature = np.unique(key, return_inverse=True)
        shape = (edges.num_entities, len(self.keys))
        self.of_entity = sparse.csr_array((np.ones(len(entity), dtype=np.float32), (entity, feature)), shape=shape)
        self.of_entity.sort_indices()
        self.with_feature = self.of_entity.T.tocsr()

    def of(self, entity: int) -> Ids:
        """Features in rising order."""
        table = self.of_entity
        return np.asarray(table.indices[table.indptr[entity] : table.indptr[entity + 1]], dtype=np.int64)

    def atom(self, features: Ids) -> Ids:
        return np.asarray(self.keys[features] // STRIDE)

    def other(self, features: Ids) -> Ids:
        """The other entity, or ANY."""
        other = self.keys[features] % STRIDE
        return np.where(other == STRIDE - 1, ANY, other)

    def shared(self, features: Ids, whole: "EntityFeatures") -> tuple[Ids, Ids]:
        """(which of these features `whole` has too, and their numbers there)."""
        if whole is self:
            return np.arange(len(features)), features
        wanted = self.keys[features]
        place = np.minimum(np.searchsorted(whole.keys, wanted), max(0, len(whole.keys) - 1))
        which = np.flatnonzero(whole.keys[place] == wanted) if len(whole.keys) else np.zeros(0, dtype=np.int64)
        return which, place[which]
