"""Several theories trained side by side from different starts, and one theory that answers for all of them.

A single training may find a rule that explains its graphs but is wrong elsewhere: a sub-goal that means something only
to this theory. Another start does not find the same one. So the weights of each rule are averaged over the members: a
rule that most of them found keeps its weight, and a lucky one loses it. The answer is still the score of one proof.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ctp_core.ctp_graphs.tabled import TabledRules, TabledTheory
from ctp_core.ctp_graphs.theory import Theory
from ctp_core.tnorm.base import TNorm

# Bodies read of one reformulator and head: an attention or a kernel leaves little to those beyond.
READ = 16
# Bodies kept for one head, times the reformulators of the template: the members agree on most of theirs.
KEPT = 2


class Members(nn.Module):
    """The theories of a model with several members; all have the same templates."""

    def __init__(self, theories: Iterable[Theory]) -> None:
        super().__init__()
        self.theories = nn.ModuleList(theories)


def theories_of(module: nn.Module) -> tuple[Theory, ...]:
    """The theories behind a module, which is either one of them or holds several."""
    found = tuple(module.theories) if isinstance(module, Members) else (module,)
    return tuple(theory for theory in found if isinstance(theory, Theory))


def merge(members: Sequence[TabledTheory], tnorm: TNorm) -> TabledTheory:
    """One closed theory with the mean weight of every rule; a single member stays as it is."""
    if len(members) == 1:
        return members[0]
    rules = [_merge_rules(alike, tnorm) for alike in zip(*(member.rules for member in members), strict=True)]
    goals = [member.goals for member in members if member.goals is not None]
    return TabledTheory(tuple(rules), torch.stack(goals).mean(dim=0) if goals else None, members[0].num_predicates)


class _Weighted(NamedTuple):
    """Rules as columns: the ids of head and body, and the weight."""

    heads: NDArray[np.int64]  # [rule]
    bodies: NDArray[np.int64]  # [rule, atom]
    weights: NDArray[np.float64]  # [rule]


def _merge_rules(alike: Sequence[TabledRules], tnorm: TNorm) -> TabledRules:
    first = alike[0].places[0]
    count = first.shape[0]
    found = _best_of_each(_mean([_read(rules, tnorm) for rules in alike]), KEPT * (first.shape[1] // count))
    ranks = _ranks(found.heads)
    width = int(ranks.max()) + 1 if len(ranks) else 1
    guard = first.new_zeros((width, count))
    rows, heads = torch.from_numpy(ranks).to(first.device), torch.from_numpy(found.heads).to(first.device)
    guard[rows, heads] = torch.from_numpy(found.weights).to(first)
    places = []
    for atom in torch.from_numpy(found.bodies).to(first.device).unbind(dim=1):
        place = first.new_zeros((count, width * count))
        place[atom, rows * count + heads] = 1.0
        places.append(place)
    return TabledRules(alike[0].template, tuple(places), guard)


def _read(rules: TabledRules, tnorm: TNorm) -> _Weighted:
    """The best bodies of each reformulator and head, built place by place, the best of equal rules only."""
    count = rules.places[0].shape[0]
    places = [place.double().cpu().numpy().reshape(count, -1, count).transpose(1, 2, 0) for place in rules.places]
    reformulators = places[0].shape[0]
    totals = np.ones((reformulators, count, 1))
    if rules.guard is not None:
        totals = rules.guard.double().cpu().numpy()[:, :, None]
    bodies = np.zeros((reformulators, count, 1, 0), dtype=np.int64)
    for place in places:  # [reformulator, head, predicate]
        longer = tnorm.arrays(totals[..., :, None], place[:, :, None, :]).reshape(reformulators, count, -1)
        best = np.argpartition(-longer, min(READ, longer.shape[2]) - 1, axis=2)[:, :, :READ]
        before = np.take_along_axis(bodies, (best // count)[..., None], axis=2)
        bodies = np.concatenate([before, (best % count)[..., None]], axis=3)
        totals = np.take_along_axis(longer, best, axis=2)
    heads = np.broadcast_to(np.arange(count)[None, :, None], totals.shape)
    flat = _Weighted(heads.reshape(-1), bodies.reshape(-1, len(places)), totals.reshape(-1))
    return _best_of_equals(flat)


def _order(rules: _Weighted) -> NDArray[np.int64]:
    """By head and body, the lightest of equal rules first."""
    return np.lexsort((rules.weights, *rules.bodies.T, rules.heads))


def _begins(rules: _Weighted) -> NDArray[np.int64]:
    """Where a new rule begins among sorted ones."""
    keys = np.column_stack([rules.heads, rules.bodies])
    return np.flatnonzero(np.concatenate([[True], (keys[1:] != keys[:-1]).any(axis=1)]))


def _at(rules: _Weighted, rows: NDArray[np.int64]) -> _Weighted:
    return _Weighted(rules.heads[rows], rules.bodies[rows], rules.weights[rows])


def _best_of_equals(rules: _Weighted) -> _Weighted:
    ordered = _at(rules, _order(rules))
    begins = _begins(ordered)
    return _at(ordered, np.append(begins[1:], len(ordered.heads)) - 1)


def _mean(members: Sequence[_Weighted]) -> _Weighted:
    """The mean weight of every rule; a member that has not found it gives it 0."""
    every = _Weighted(*(np.concatenate(columns) for columns in zip(*members, strict=True)))
    ordered = _at(every, _order(every))
    begins = _begins(ordered)
    return _at(ordered, begins)._replace(weights=np.add.reduceat(ordered.weights, begins) / len(members))


def _best_of_each(rules: _Weighted, width: int) -> _Weighted:
    """The `width` heaviest rules of every head, heaviest first; none of weight 0."""
    ordered = _at(rules, np.lexsort((*rules.bodies.T, -rules.weights, rules.heads)))
    return _at(ordered, np.flatnonzero((_ranks(ordered.heads) < width) & (ordered.weights > 0)))


def _ranks(heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each row among those of its head; rows of one head stand together."""
    firsts = np.searchsorted(heads, heads, side="left")
    return np.arange(len(heads)) - firsts
