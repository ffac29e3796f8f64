"""Features of entities: what the KB states about each, as the bodies of rules with constants need it."""

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.base.edges import EdgeList, small
from ctp_core.evidence.config import MAX_MIDDLE_DEGREE

BITS = 32
STRIDE = 1 << BITS  # of feature keys: more than any KB has entities
ANY = -1  # in place of the other entity
MIN_HOLDERS = 2  # a two-atom feature that only one entity has supports no rule
Ids = NDArray[np.int64]
Said = tuple[Ids, Ids, Ids]  # keys in rising order; entity and number of its key


def key_of(path: int, other: int) -> int:
    return path * STRIDE + (STRIDE - 1 if other == ANY else other)


def atoms_of(path: int, num_atoms: int) -> tuple[int, ...]:
    """The atoms of a body: a path is an atom, or two, numbered after all single ones."""
    return (path,) if path < num_atoms else divmod(path - num_atoms, num_atoms)


class EntityFeatures:
    """What is said of each entity: (path, other entity) and (atom, anything), numbered by their sorted keys.

    A path is an atom; in `long` features also two atoms by way of a third entity.
    """

    def __init__(self, edges: EdgeList, *, long: bool = False) -> None:
        self.num_atoms = 2 * edges.num_predicates
        self.keys, entity, feature = _by_one_atom(edges)
        if long:
            keys, about, numbers = _by_two_atoms(edges)
            entity, feature = np.concatenate([entity, about]), np.concatenate([feature, len(self.keys) + numbers])
            self.keys = np.concatenate([self.keys, keys])  # in order: two atoms are numbered after all single ones
        path, other = self.keys >> BITS, self.keys & (STRIDE - 1)
        self.long = path >= self.num_atoms
        # The atom that a body begins with, and the entity at its end.
        self.first = np.where(self.long, path // self.num_atoms - 1, path).astype(np.int32)
        self.other = np.where(other == STRIDE - 1, ANY, other).astype(np.int32)
        shape = (edges.num_entities, len(self.keys))
        self.of_entity = sparse.csr_array((np.ones(len(entity), dtype=np.float32), (entity, feature)), shape=shape)
        self.of_entity.sort_indices()
        self.with_feature = self.of_entity.T.tocsr()

    def of(self, entity: int) -> Ids:
        """Features in rising order."""
        table = self.of_entity
        return np.asarray(table.indices[table.indptr[entity] : table.indptr[entity + 1]], dtype=np.int64)

    def path(self, feature: int) -> int:
        return int(self.keys[feature] >> BITS)

    def shared(self, features: Ids, whole: "EntityFeatures") -> tuple[Ids, Ids]:
        """(which of these features `whole` has too, and their numbers there)."""
        if whole is self:
            return np.arange(len(features)), features
        wanted = self.keys[features]
        place = np.minimum(np.searchsorted(whole.keys, wanted), max(0, len(whole.keys) - 1))
        which = np.flatnonzero(whole.keys[place] == wanted) if len(whole.keys) else np.zeros(0, dtype=np.int64)
        return which, place[which]


# Kept for as long as their edge list is in use, because one question may need them many times.
_MADE: WeakKeyDictionary[EdgeList, dict[bool, EntityFeatures]] = WeakKeyDictionary()


def features_of(edges: EdgeList, *, long: bool = False) -> EntityFeatures:
    """The features of an edge list, computed on the first call."""
    made = _MADE.setdefault(edges, {})
    if long not in made:
        made[long] = EntityFeatures(edges, long=long)
    return made[long]


def _by_one_atom(edges: EdgeList) -> Said:
    """(atom, other entity) and (atom, anything).

    Edges are in order of (tail, head, atom): by atom alone they are in the order of features.
    """
    num_atoms = 2 * edges.num_predicates
    inverse = (edges.atom + edges.num_predicates) % num_atoms
    by_other, by_atom = (np.argsort(small(atom, num_atoms), kind="stable") for atom in (inverse, edges.atom))
    said = inverse[by_other] * STRIDE + edges.tail[by_other]  # what an inverse edge says of its head
    anything = edges.atom[by_atom] * STRIDE + edges.tail[by_atom]
    once = by_atom[np.diff(anything, prepend=-1) > 0]
    of_anything = edges.atom[once] * STRIDE + STRIDE - 1
    first, first_of_anything = (np.diff(one, prepend=-1) > 0 for one in (said, of_anything))
    keys = np.concatenate([said[first], of_anything[first_of_anything]])
    order = np.argsort(keys)
    number = np.empty(len(keys), dtype=np.int64)
    number[order] = np.arange(len(keys))
    which = np.concatenate([np.cumsum(first) - 1, first.sum() + np.cumsum(first_of_anything) - 1])
    return keys[order], np.concatenate([edges.head[by_other], edges.tail[once]]), number[which]


def _by_two_atoms(edges: EdgeList) -> Said:
    """Counts each entity and key once, whichever entity lies between."""
    num_atoms = 2 * edges.num_predicates
    through = np.flatnonzero((edges.degree(edges.head) <= MAX_MIDDLE_DEGREE) & (edges.head != edges.tail))
    which, second = edges.of_entities(edges.head[through])
    first = through[which]
    ends = edges.head[second]
    apart = (ends != edges.tail[first]) & (ends != edges.head[first])
    first, second = first[apart], second[apart]
    path = num_atoms + edges.atom[first] * num_atoms + edges.atom[second]
    # One number for path, end and entity: to sort that is far cheaper than np.unique, or to number the keys first.
    size = max(1, edges.num_entities)
    cells = np.sort((path * size + edges.head[second]) * size + edges.tail[first])
    body, entity = np.divmod(cells[np.diff(cells, prepend=-1) > 0], size)
    starts = np.flatnonzero(np.diff(body, prepend=-1))
    holders = np.diff(starts, append=len(body))
    kept = np.repeat(holders >= MIN_HOLDERS, holders)
    path, end = np.divmod(body[starts[holders >= MIN_HOLDERS]], size)
    holders = holders[holders >= MIN_HOLDERS]
    return path * STRIDE + end, entity[kept], np.repeat(np.arange(len(holders)), holders)


def middle(edges: EdgeList, start: int, path: tuple[int, ...], end: int) -> int:
    """The first entity that lies between the two atoms of a body."""
    there = edges.neighbours(start, path[0])
    back = edges.neighbours(end, (path[1] + edges.num_predicates) % (2 * edges.num_predicates))
    both = np.intersect1d(there, back)
    both = both[(both != start) & (both != end) & (edges.degree(both) <= MAX_MIDDLE_DEGREE)]
    return int(both[0])
