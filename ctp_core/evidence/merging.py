"""Proofs that attention and mined rules both know are one proof; what both say of it adds up."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ctp_core.evidence.proofs import WeighedPaths
from ctp_core.evidence.rules_fit import mixed


def merged(
    attended: Sequence[WeighedPaths], mined: Sequence[WeighedPaths]
) -> tuple[list[WeighedPaths], list[WeighedPaths]]:
    """(the attended paths with what mined rules add to them, the mined paths that are not among them)."""
    together, rest = list(attended), list[WeighedPaths]()
    for left in mined:
        for index, paths in enumerate(together):
            if paths.template == left.template and len(left.fact):
                together[index], left = _merged(paths, left)  # noqa: PLW2901 - what is left goes on
        if len(left.fact):
            rest.append(left)
    return together, rest


def least_shares(weighed: Sequence[WeighedPaths], num_facts: int, wanted: int) -> Float[np.ndarray, " fact"]:
    """The share of the last proof wanted of each fact; 0 where there are fewer."""
    fact = np.concatenate([np.zeros(0, dtype=np.int64), *(paths.fact for paths in weighed)])
    shares = np.concatenate([np.zeros(0), *(paths.shares for paths in weighed)])
    order = np.lexsort((-shares, fact))
    bounds = np.searchsorted(fact[order], np.arange(num_facts + 1))
    last = bounds[:-1] + wanted - 1
    enough = last < bounds[1:]
    least = np.zeros(num_facts)
    least[enough] = shares[order[last[enough]]]
    return np.maximum(least, 0.0)


def _merged(attended: WeighedPaths, mined: WeighedPaths) -> tuple[WeighedPaths, WeighedPaths]:
    """(the attended paths with what mined rules add to them, the mined paths that are not among them)."""
    keys, wanted = _keys(attended), _keys(mined)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], wanted), max(0, len(keys) - 1))
    found = keys[order][place] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
    shares, rows = attended.shares.copy(), order[place[found]]
    exact = np.zeros(len(shares), dtype=bool)
    exact[rows] = mined.shares[found] > shares[rows]
    shares[rows] += mined.shares[found]
    return replace(attended, shares=shares, exact=exact), mined.of(np.flatnonzero(~found))


def _keys(paths: WeighedPaths) -> NDArray[np.uint64]:
    """64 random-looking bits that tell paths apart by fact, atoms and entities."""
    keys = paths.fact.astype(np.uint64)
    for column in (*paths.atoms.T, *paths.stations.T):
        keys = mixed(keys ^ mixed(column.astype(np.uint64)))
    return keys
