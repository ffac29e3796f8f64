"""Rules worth weighing: the paths that join the entities of known facts, and what is said of either."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ctp_core.base.edges import EdgeList, slices
from ctp_core.evidence.body_tree import AtomIds
from ctp_core.evidence.config import MAX_MINED_DEGREE, MAX_MINED_WALKS, RulesConfig
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import Template

UNARY_RULES = 20  # atoms that say what kind of thing X or Y is
PATHS_AT_ONCE = 64  # facts; bounds the memory of their paths
MIN_WALKS, MIN_MINED = 10_000, 32  # walks of some facts, and facts, that are looked at in any case
KEY_BITS = 56  # a body is sorted as one integer, together with its fact among PATHS_AT_ONCE
Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Mined:
    """A rule without a weight; `share` is that of the sampled facts that it explains."""

    template: Template
    body: AtomIds
    share: float = field(default=1.0, compare=False)


@dataclass(frozen=True)
class _FactWalks:
    """Walks from one entity of each fact; `body` is what they walked along, from subject to object, as a number."""

    fact: Ids
    entity: Ids
    body: Ids


def longest(edges: EdgeList, config: RulesConfig) -> int:
    """The longest body to mine: as configured, or shorter where that many atoms do not fit into one integer."""
    return min(config.max_length, max(1, int(KEY_BITS / np.log2(max(2, 2 * edges.num_predicates)))))


def mine_chains(edges: EdgeList, facts: FactIds, length: int, config: RulesConfig, most: float = np.inf) -> list[Mined]:
    """The bodies of this length that join the entities of most facts; of so many facts as `most` walks are enough for.

    Their order is random, so that the first ones stand for all.
    """
    facts = _walkable(edges, facts, length, most)
    batches = range(0, len(facts), PATHS_AT_ONCE)
    at_once = int(min(MAX_MINED_WALKS, max(MIN_WALKS, most / len(batches))))
    found = [_joining(edges, facts[at : at + PATHS_AT_ONCE], length, at_once) for at in batches]
    bodies, support = np.unique(np.concatenate(found), return_counts=True)
    kept = np.argsort(-support, kind="stable")[: config.rules_per_template]
    kept = kept[support[kept] >= config.min_support]
    named = zip(bodies[kept].tolist(), (support[kept] / len(facts)).tolist(), strict=True)
    return [Mined(Template(length), _atoms(body, length, 2 * edges.num_predicates), share) for body, share in named]


def _walkable(edges: EdgeList, facts: FactIds, length: int, most: float) -> FactIds:
    """As many of the first facts as can be walked from both ends, and some in any case."""
    back = length // 2
    walks = edges.num_walks(length - back)[facts[:, 0]]
    if back:
        walks = walks + edges.num_walks(back)[facts[:, 2]]
    return facts[: max(MIN_MINED, int(np.searchsorted(np.cumsum(walks), most)))]


def _joining(edges: EdgeList, facts: FactIds, length: int, at_once: int) -> Ids:
    """The bodies that join the entities of each fact, once for each fact; half of a body is walked from either end."""
    back = length // 2
    left = _walk(edges, facts, length - back, at_once, back=False)
    right = _walk(edges, facts, back, at_once, back=True)
    keys, met = (walks.fact * edges.num_entities + walks.entity for walks in (left, right))
    order = np.argsort(met, kind="stable")
    first, last = (np.searchsorted(met[order], keys, side=side) for side in ("left", "right"))
    some = _fewer(np.flatnonzero(last > first), int((last - first).sum()), at_once)
    which, entry = slices(first[some], last[some])
    which = some[which]
    bodies = left.body[which] * (2 * edges.num_predicates) ** back + right.body[order[entry]]
    return np.asarray(np.unique(bodies * PATHS_AT_ONCE + left.fact[which]) // PATHS_AT_ONCE)


def _fewer(beginnings: Ids, walks: int, at_most: int) -> Ids:
    """Samples the beginnings at random so that they lead to about `at_most` of `walks` walks."""
    if walks <= at_most:
        return beginnings
    kept = max(1, len(beginnings) * at_most // walks)
    return np.sort(np.random.default_rng(0).choice(beginnings, kept, replace=False))


def _walk(edges: EdgeList, facts: FactIds, steps: int, at_once: int, *, back: bool) -> _FactWalks:
    """All walks from the subjects, or back from the objects, that do not use the fact itself."""
    atoms, num_predicates = 2 * edges.num_predicates, edges.num_predicates
    walks = _FactWalks(np.arange(len(facts)), facts[:, 2 if back else 0], np.zeros(len(facts), dtype=np.int64))
    for step in range(steps):
        through = np.flatnonzero((edges.degree(walks.entity) <= MAX_MINED_DEGREE) | (step == 0))
        through = _fewer(through, int(edges.degree(walks.entity[through]).sum()), at_once)
        which, edge = edges.of_entities(walks.entity[through])
        which = through[which]
        fact, tail, head, atom = walks.fact[which], walks.entity[which], edges.head[edge], edges.atom[edge]
        subject, predicate, object_ = facts[fact].T
        own = (atom == predicate) & (tail == subject) & (head == object_)
        own |= (atom == predicate + num_predicates) & (tail == object_) & (head == subject)
        inverse = (atom + num_predicates) % atoms
        body = walks.body[which] + inverse * atoms**step if back else walks.body[which] * atoms + atom
        walks = _FactWalks(fact[~own], head[~own], body[~own])
    return walks


def _atoms(key: int, length: int, atoms: int) -> AtomIds:
    body = []
    for _ in range(length):
        key, atom = divmod(key, atoms)
        body.append(atom)
    return tuple(reversed(body))


def mine_unary(edges: EdgeList, facts: FactIds, template: Template) -> list[Mined]:
    """The atoms that are stated about these entities far more often than about others."""
    column, own = (0, facts[0, 1]) if template.about_subject else (2, facts[0, 1] + edges.num_predicates)
    which, edge = edges.of_entities(facts[:, column])
    said, times = np.unique(which * (2 * edges.num_predicates) + edges.atom[edge], return_counts=True)
    atom = said % (2 * edges.num_predicates)
    atom = atom[times > (atom == own)]  # the fact itself says nothing
    share = np.bincount(atom, minlength=2 * edges.num_predicates) / len(facts)
    stated = np.flatnonzero(share)
    everywhere = np.maximum(edges.subjects_by[stated] / edges.num_entities, 1e-9)
    lift = share[stated] * np.log(share[stated] / everywhere)
    best = np.lexsort((stated, -lift))[:UNARY_RULES]
    return [Mined(template, (int(stated[one]),), float(share[stated[one]])) for one in best if lift[one] > 0]
