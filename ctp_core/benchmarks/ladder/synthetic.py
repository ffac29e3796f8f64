"""Generates typed KBs with hubs, planted rules, exceptions and noise, from a seed; numpy only.

A world of true facts is made first, theme by theme (see `themes`): facts that nothing explains, whose entities are
drawn by Zipf's law, and conclusions of the planted rules. Each rule has its own share of exceptions, and each head some
facts that no rule concludes. The KB states most of what is true; some facts of the heads are for validation and test.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ctp_core.benchmarks.ladder.themes import ENDS, Theme, themes
from ctp_core.errors import ConfigError
from ctp_core.kb.knowledge_base import FactIds, FactsKB, distinct_facts
from ctp_core.rules import Body, Rule, Step
from ctp_core.symbols import Vocabulary

Ids = NDArray[np.int64]
Pairs = NDArray[np.int64]  # [pair, 2]: from, to

FACTS_PER_ENTITY = {"sparse": 2.0, "dense": 10.0}  # a third of a sparse KB's entities remain without facts
TYPE_SHARES = (0.5, 0.22, 0.08, 0.2)  # of the entities of a theme, for its types A to D
UNSTATED = 0.02  # share of what is true that the KB does not state
HELD_OUT = 0.05  # share of the stated facts of heads in validation, and as many in test,
MIN_HELD_OUT, MAX_HELD_OUT = 100, 0.1  # at least so many facts, but never more than this share
MAX_VALID, MAX_TEST = 5_000, 1_000  # facts; more take long to rank and say nothing new
NOISE = 0.05  # share of a head's facts that no rule concludes
RELIABLE = (0.75, 0.98)  # the least and the greatest share of a rule's conclusions that are true
EACH = {"second": 1.4, "last": 1.3}  # facts of each entity of the pool that a chain goes on from
DRAWN = {"first": 1.6, "up": 0.9, "plain": 1.2}  # facts, as a multiple of a predicate's share of the theme
HUBS, BUSY = 0.9, 0.4  # exponents of Zipf's law for objects and for subjects
PLANTED_FROM = 150  # facts of a theme; with fewer, rules would have too few examples to be found
PREDICATES_SKEW = {True: 1.0, False: 0.3}  # exponent of Zipf's law for the sizes of themes: with many themes, or few
MANY_THEMES = 10
FITS = 0.01  # how near the number of true facts comes to what was asked for
MAX_TRIES = 12


@dataclass(frozen=True)
class Shape:
    """What to generate. `density` is `sparse` or `dense`; `num_entities`, where given, is used instead."""

    facts: int
    predicates: int = 25
    density: str = "dense"
    num_entities: int | None = None
    seed: int = 0

    @property
    def entities(self) -> int:
        return self.num_entities or round(self.facts / FACTS_PER_ENTITY[self.density])


@dataclass(frozen=True)
class SyntheticKB:
    """A KB and what holds in its world. `truth` has every true fact, stated or not, with the KB's ids.

    The confidence of a planted rule is the share of its conclusions that were made true.
    """

    kb: FactsKB
    rules: tuple[Rule, ...]
    truth: FactIds

    @property
    def heads(self) -> dict[str, list[Rule]]:
        """Predicate -> its planted rules."""
        found: dict[str, list[Rule]] = {}
        for rule in self.rules:
            found.setdefault(rule.predicate, []).append(rule)
        return found


def generate(shape: Shape) -> SyntheticKB:
    """The same KB for the same shape; raises ConfigError where the shape cannot be met."""
    if shape.density not in FACTS_PER_ENTITY:
        raise ConfigError(f"density {shape.density!r} is unknown; choose from {', '.join(FACTS_PER_ENTITY)}")
    if shape.facts < 100 or shape.predicates < 3 or shape.entities < 40:
        raise ConfigError("a generated KB has at least 100 facts, 3 predicates and 40 entities")
    wanted, scale = shape.facts * (1 + UNSTATED), 1.0
    world = _World(shape, scale)
    for _ in range(MAX_TRIES):
        if abs(len(world.facts) / wanted - 1) <= FITS:
            break
        scale *= (wanted / len(world.facts)) ** 0.8  # conclusions grow faster than what they stand on
        world = _World(shape, scale)
    return _stated(world, shape)


class _World:
    """All true facts and the rules; entities are numbered type by type, predicates theme by theme."""

    def __init__(self, shape: Shape, scale: float) -> None:
        self.rng = np.random.default_rng(shape.seed)
        chosen = themes(shape.predicates)
        self.types = _types(chosen, shape.entities)
        self.predicates = [name for theme in chosen for name in theme.predicates.values()]
        self.rules: list[Rule] = []
        self.heads: set[int] = set()
        sizes = 1 / np.arange(1, len(chosen) + 1) ** PREDICATES_SKEW[len(chosen) > MANY_THEMES]
        quotas = scale * shape.facts * sizes / sizes.sum()
        rows: list[FactIds] = []
        for theme, quota in zip(chosen, quotas.tolist(), strict=True):
            base = len(rows)
            rows += _ThemeFacts(self, theme, quota, base).rows()
        self.facts = np.concatenate(rows)

    def name(self, entity: int) -> str:
        for kind, members in self.types.items():
            if members.start <= entity < members.stop:
                return f"{kind}_{entity - members.start + 1}"
        raise IndexError(entity)

    def names(self) -> Iterable[str]:
        return (f"{kind}_{number}" for kind, members in self.types.items() for number in range(1, len(members) + 1))

    @property
    def num_entities(self) -> int:
        return max(members.stop for members in self.types.values())


def _types(chosen: list[Theme], num_entities: int) -> dict[str, range]:
    """Type -> the numbers of its entities."""
    shares: dict[str, float] = {}
    for theme in chosen:
        shares.update(dict(zip(theme.types, TYPE_SHARES, strict=True)))
    ends = np.round(np.cumsum(list(shares.values())) / sum(shares.values()) * num_entities).astype(int)
    return {kind: range(start, end) for kind, (start, end) in zip(shares, pairwise([0, *ends.tolist()]), strict=True)}


class _ThemeFacts:
    """The facts and rules of one theme, about `quota` facts in all."""

    def __init__(self, world: _World, theme: Theme, quota: float, base: int) -> None:
        self.world, self.theme, self.base, self.rng = world, theme, base, world.rng
        self.planted = quota >= PLANTED_FROM
        count = quota / len(theme.predicates)
        a, b, c, d = (world.types[kind] for kind in theme.types)
        # Steps of a chain share small pools of entities, so that what one reaches the next goes on from.
        self.pools = {
            "A": self._pool(a, 1.3 * count),
            "B": self._pool(b, 0.3 * count),
            "C": self._pool(c, 0.2 * count),
            "D": self._pool(d, 0.5 * count),
        }
        self.pairs: dict[str, Pairs] = {}
        for role in theme.predicates:
            self.pairs[role] = self._pairs(role, count)

    def rows(self) -> list[FactIds]:
        return [self._facts(role, number) for number, role in enumerate(self.theme.predicates)]

    def _pool(self, members: range, wanted: float) -> Ids:
        """Some entities of a type, the most popular first."""
        size = min(len(members), max(4, round(wanted)))
        return self.rng.permutation(np.arange(members.start, members.stop))[:size]

    def _pairs(self, role: str, count: float) -> Pairs:
        if self.planted and role in EACH:
            left, right = ENDS[role]
            return self._each(self.pools[left], self.pools[right], EACH[role])
        if self.planted and role not in DRAWN:
            return self._head(role, count)
        return self._drawn(*ENDS[role], DRAWN.get(role, 1.0) * count)

    def _head(self, role: str, count: float) -> Pairs:
        """The true facts of a head: conclusions without exceptions, then facts that no rule concludes."""
        self.world.heads.add(self.base + list(self.theme.predicates).index(role))
        found = self._conclusions(role, count)
        noise = self._drawn(*ENDS[role], NOISE * len(found))
        return distinct_pairs(np.concatenate([found, noise]))

    def _conclusions(self, role: str, count: float) -> Pairs:
        if role == "through":
            chain = self._true(role, self._chain("first", "second"), ("first", "second"))
            return np.concatenate([chain, self._by_constants(chain)])
        if role == "far":
            return self._true(role, self._chain("up", "first", "last"), ("up", "first", "last"))
        if role == "back":
            return self._true(role, self.pairs["up"][:, ::-1], ("up",), against=True)
        if role == "same":
            return self._true(role, self.pairs["plain"], ("plain",))
        half = self._drawn("A", "A", 0.7 * count)
        return np.concatenate([half, self._true(role, half[:, ::-1], ("mutual",), against=True)])

    def _true(self, head: str, conclusions: Pairs, body: tuple[str, ...], *, against: bool = False) -> Pairs:
        """The conclusions of a rule without its exceptions; plants the rule."""
        reliable = self.rng.uniform(*RELIABLE)
        steps = tuple(Step(self.theme.predicates[role], (role in self.theme.backwards) != against) for role in body)
        rule = Rule(self.theme.predicates[head], Body(steps), round(reliable, 3))
        self.world.rules.append(rule)
        return conclusions[self.rng.random(len(conclusions)) < reliable]

    def _by_constants(self, chain: Pairs) -> Pairs:
        """What a rule with constants concludes: all that lead to one entity of B have one entity of C as well."""
        first, pool = self.pairs["first"], self.pools["C"]
        hub = int(np.bincount(first[:, 1]).argmax())
        members = np.unique(first[first[:, 1] == hub, 0])
        taken = np.bincount(chain[np.isin(chain[:, 0], members), 1], minlength=self.world.num_entities)
        end = int(pool[taken[pool].argmin()])  # the entity that the chain concludes least
        reliable = self.rng.uniform(*RELIABLE)
        step = Step(self.theme.predicates["first"], "first" in self.theme.backwards)
        body = Body((step,), about="X", end=self.world.name(hub))
        self.world.rules.append(
            Rule(self.theme.predicates["through"], body, round(reliable, 3), constant=self.world.name(end))
        )
        true = members[self.rng.random(len(members)) < reliable]
        return np.column_stack([true, np.full(len(true), end)])

    def _chain(self, *roles: str) -> Pairs:
        found = self.pairs[roles[0]]
        for role in roles[1:]:
            found = join(found, self.pairs[role])
        return distinct_pairs(found)

    def _drawn(self, left: str, right: str, count: float) -> Pairs:
        """Pairs of entities by Zipf's law."""
        size = int(count + self.rng.random())
        lefts = _zipf(self.rng, self.pools[left], size, BUSY)
        rights = _zipf(self.rng, self.pools[right], size, HUBS)
        pairs = np.column_stack([lefts, rights])
        return distinct_pairs(pairs[lefts != rights] if len(self.pools[right]) > 1 else pairs)

    def _each(self, lefts: Ids, rights: Ids, average: float) -> Pairs:
        """One to a few partners for each on the left, so that chains go on from all of them."""
        counts = 1 + self.rng.poisson(average - 1, len(lefts))
        from_ = np.repeat(lefts, counts)
        return distinct_pairs(np.column_stack([from_, _zipf(self.rng, rights, len(from_), HUBS)]))

    def _facts(self, role: str, number: int) -> FactIds:
        pairs = self.pairs[role]
        if role in self.theme.backwards:
            pairs = pairs[:, ::-1]
        return np.column_stack([pairs[:, 0], np.full(len(pairs), self.base + number), pairs[:, 1]])


def _zipf(rng: np.random.Generator, pool: Ids, size: int, exponent: float) -> Ids:
    """Draws from a pool whose first entities are the most popular."""
    weights = np.cumsum(1 / np.arange(1, len(pool) + 1) ** exponent)
    return np.asarray(pool[np.searchsorted(weights, rng.random(size) * weights[-1])])


def distinct_pairs(pairs: Pairs) -> Pairs:
    if not len(pairs):
        return pairs
    width = int(pairs.max()) + 1
    keys = np.unique(pairs[:, 0] * width + pairs[:, 1])
    return np.column_stack([keys // width, keys % width])


def join(left: Pairs, right: Pairs) -> Pairs:
    """(x, y) for each (x, z) on the left and (z, y) on the right."""
    right = right[np.argsort(right[:, 0], kind="stable")]
    starts = np.searchsorted(right[:, 0], left[:, 1], side="left")
    lengths = np.searchsorted(right[:, 0], left[:, 1], side="right") - starts
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
    return np.column_stack([np.repeat(left[:, 0], lengths), right[places, 1]])


def _stated(world: _World, shape: Shape) -> SyntheticKB:
    """What the KB states of a world, in splits; entities without facts are left out."""
    rng = np.random.default_rng([shape.seed, 1])
    truth = distinct_facts(world.facts, world.num_entities, len(world.predicates))
    order = rng.permutation(len(truth))[: shape.facts]
    head = np.isin(truth[order, 1], sorted(world.heads))
    asked = order[head]
    count = round(min(max(HELD_OUT * len(asked), MIN_HELD_OUT), MAX_HELD_OUT * len(asked)))
    parts = {"valid": asked[: min(count, MAX_VALID)], "test": asked[count : count + min(count, MAX_TEST)]}
    held_out = np.concatenate(list(parts.values()))
    parts = {"train": np.setdiff1d(order, held_out)} | parts
    names = np.array(list(world.names()), dtype=object)
    entities, facts = _renumbered(truth, (0, 2), parts)
    predicates, facts = _renumbered(facts, (1,), parts)
    kb = FactsKB(
        Vocabulary("entity", names[entities]),
        Vocabulary("predicate", (world.predicates[number] for number in predicates.tolist())),
        {split: facts[rows] for split, rows in parts.items()},
    )
    known = set(kb.predicates)
    rules = tuple(rule for rule in world.rules if {rule.predicate, *rule.body.predicates} <= known)
    return SyntheticKB(kb, rules, facts[(facts >= 0).all(1)])


def _renumbered(facts: FactIds, columns: tuple[int, ...], parts: dict[str, Ids]) -> tuple[Ids, FactIds]:
    """(the numbers that are stated, the facts with these numbered anew; -1 where a number is not stated)."""
    stated = facts[np.concatenate(list(parts.values()))][:, columns]
    kept = np.unique(stated)
    anew = np.full(int(facts[:, columns].max()) + 1, -1)
    anew[kept] = np.arange(len(kept))
    renumbered = facts.copy()
    renumbered[:, columns] = anew[facts[:, columns]]
    return kept, renumbered
