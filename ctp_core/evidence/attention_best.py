"""The best proofs by attention where all of them are too many to walk: billions, by long bodies on a dense KB."""

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from ctp_core.base.edges import EdgeList
from ctp_core.evidence.merging import least_shares
from ctp_core.evidence.proofs import WeighedPaths, own_paths
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import Template

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
BEST_ATOMS = (6, 12)  # of each place, along which the best proofs are looked for; the second where one cannot be sure
FEWER_ATOMS = (3, 2, 1)  # the same where the walks along so many are too many
BEST_WALKS = 1e4  # from either end by one template, and paths that they join to: a hundredth of a second
ROUNDED = 1 + 1e-9  # a share may be above its bound by what is lost in computing either


class Attended(Protocol):
    """What a search reads of `AttentionArrays`."""

    attention: dict[Template, Floats]  # [predicate, reformulator, place, atom]
    heaviest: dict[Template, Floats]  # [predicate, reformulator]: the largest product of the attentions of a path
    strength: dict[Template, Floats]  # [predicate, reformulator]

    def ratios(self, template: Template, edges: EdgeList, facts: FactIds) -> Float[np.ndarray, "fact reformulator"]:
        """h(c) / c of each fact."""

    def factors(
        self, template: Template, goal: Int[np.ndarray, " path"], atoms: Int[np.ndarray, "path place"]
    ) -> list[Floats]:
        """For each place, what the reformulators of a goal attend to the atom of each path."""


class Known:
    """The proofs that are known of some facts, of each of which so many are wanted."""

    def __init__(self, weighed: Sequence[WeighedPaths], num_facts: int, wanted: int) -> None:
        self.wanted = wanted
        self.templates = {paths.template for paths in weighed if len(paths.fact)}
        self.least = least_shares(weighed, num_facts, wanted)  # the share of the last proof wanted of each fact


def best_proofs(
    arrays: Attended, template: Template, edges: EdgeList, facts: FactIds, known: Known
) -> list[WeighedPaths]:
    """The best proofs of each fact, along atoms that are attended to enough; none of a predicate of whose facts no
    proof by this template can be among the best."""
    weights = arrays.strength[template][facts[:, 1]] * arrays.ratios(template, edges, facts)
    needed = _may_be_best(arrays, template, facts, weights, known)
    predicates = np.unique(facts[needed, 1]).tolist()
    rows = [np.flatnonzero(facts[:, 1] == predicate) for predicate in predicates]
    found = [_best_of(arrays, template, edges, facts, mine, weights, known.wanted) for mine in rows]
    return found or [_nothing(template, weights)]


def _may_be_best(
    arrays: Attended, template: Template, facts: FactIds, weights: Floats, known: Known
) -> NDArray[np.bool_]:
    """Tells which facts may have a proof by this template among the wanted ones.

    No share is above that of a path along the atoms with the most attention. A proof that mined rules know as well may
    have more: while any is known, all facts are looked at.
    """
    if template in known.templates:
        return np.ones(len(facts), dtype=bool)
    most = (weights * arrays.heaviest[template][facts[:, 1]]).sum(1)
    return np.asarray(most * ROUNDED >= known.least)


def _nothing(template: Template, weights: Floats) -> WeighedPaths:
    """No path, of facts whose paths were not walked."""
    atoms, stations = (np.zeros((0, template.length + more), dtype=np.int64) for more in (0, 1))
    factors = [np.zeros((0, weights.shape[1]))] * template.length
    return WeighedPaths(template, np.zeros(0, dtype=np.int64), atoms, stations, np.zeros(0), factors, weights, 0)


def _best_of(
    arrays: Attended, template: Template, edges: EdgeList, facts: FactIds, rows: Ids, weights: Floats, wanted: int
) -> WeighedPaths:
    """The best proofs of the facts in these rows, which all have the same predicate.

    Looks along the atoms with the most attention first, then along more of them unless the best are certain: if
    no reformulator attends to an atom by more than `most`, a proof along it has a share of up to most · Σ weights.
    """
    attended = arrays.attention[template][facts[rows[0], 1]].max(0)  # [place, atom]
    for allowed in _affordable_atoms(attended, edges, facts[rows]):
        most = float(np.where(allowed, 0, attended).max())
        paths = edges.paths(facts[rows, 0], facts[rows, 2], template, allowed)
        paths = paths._replace(pair=rows[paths.pair])
        factors = arrays.factors(template, facts[paths.pair, 1], paths.atoms)
        masses = math.prod(factors[1:], start=factors[0])
        masses[own_paths(edges, facts, paths)] = 0
        shares = np.einsum("pg,pg->p", masses, weights[paths.pair])
        if _surely_best(paths.pair, shares, rows, most * weights.sum(1), wanted):
            break
    return WeighedPaths(template, paths.pair, paths.atoms, paths.stations, shares, factors, weights, 0)


def _surely_best(fact: Ids, shares: Floats, rows: Ids, most: Floats, wanted: int) -> bool:
    """Whether each fact has as many proofs as are wanted, all with larger shares than any that was left out."""
    better = shares >= most[fact]
    return bool((np.bincount(fact[better], minlength=rows.max() + 1)[rows] >= wanted).all())


def _affordable_atoms(attended: Floats, edges: EdgeList, facts: FactIds) -> Iterator[NDArray[np.bool_]]:
    """[place, atom]: along which atoms the best proofs are looked for, first along few; at least one choice.

    None of them leads along more than BEST_WALKS: long bodies join a dense KB in billions of ways.
    """
    ranked = np.sort(attended, axis=1)[:, ::-1]

    def among(kept: int) -> NDArray[np.bool_]:
        return np.asarray(attended >= ranked[:, min(kept, ranked.shape[1]) - 1, None])

    def fits(allowed: NDArray[np.bool_]) -> bool:
        return edges.paths_along_fit(facts[:, 0], facts[:, 2], allowed, BEST_WALKS)

    few, more = map(among, BEST_ATOMS)
    if not fits(few):
        yield next(filter(fits, map(among, FEWER_ATOMS)), np.zeros(attended.shape, dtype=bool))
        return
    yield few
    if fits(more):
        yield more
