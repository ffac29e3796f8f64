"""Hubs: entities with so much said about them that rules are looked for with only some of their features."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.base.edges import slices
from ctp_core.evidence.rules_features import EntityFeatures

Ids = NDArray[np.int64]
NO_IDS = np.zeros(0, dtype=np.int64)
AT_ONCE = 2e6  # facts about entities with some features, looked at together: 100 MB
MAX_LOOKED_AT = 5e6  # the same for one entity and one predicate, a twentieth of a second; one that has more is a hub


class Hubs(NamedTuple):
    """Entities, in rising order, that rules of a predicate are looked for with only some features, for want of time.

    Looked at are the features that make less work than `limits` says.
    """

    entities: Ids
    limits: Float[np.ndarray, " hub"]


def hubs_among(
    entities: Ids, features: EntityFeatures, work_of: Callable[[Ids], Float[np.ndarray, " feature"]]
) -> Hubs:
    """Those of the entities, in rising order, that are hubs, some at a time: they may have all features of a KB.

    The limit of a hub is the work of its lightest feature that is too much, after all lighter ones.
    """
    table, found = features.of_entity, [Hubs(NO_IDS, np.zeros(0))]
    starts, ends = table.indptr[entities], table.indptr[entities + 1]
    for some in np.split(np.arange(len(entities)), changes(np.cumsum(ends - starts) // AT_ONCE)):
        which, entry = slices(starts[some], ends[some])
        work = work_of(table.indices[entry])
        order = np.lexsort((work, which))
        which, work = which[order], work[order]
        total = np.cumsum(work)
        before = np.concatenate([np.zeros(1), total])[np.searchsorted(which, np.arange(len(some)))]
        over = np.flatnonzero(total - before[which] > MAX_LOOKED_AT)
        hubs, first = np.unique(which[over], return_index=True)
        found.append(Hubs(entities[some[hubs]], work[over[first]]))
    return Hubs(*(np.concatenate(column) for column in zip(*found, strict=True)))


def changes(numbers: NDArray[np.number]) -> Ids:
    """Where a list differs from one place to the next."""
    return np.flatnonzero(np.diff(numbers)) + 1
