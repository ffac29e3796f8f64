"""Rules with constants, p(X,c) :- q(X,d) and p(c,Y) :- q(Y,d), counted over a KB; d may be anything: p(X,c) :- q(X,Z).
Long ones have two atoms, p(X,c) :- q(X,Z), r(Z,d), where X, Z and d are three entities.

    confidence = confidence_of(support, entities that the body holds of)        evidence = -log(1 - confidence)

Only the strongest rule of each side speaks for a fact: bodies about one entity say nearly the same, and a sum over them
would count one reason many times.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse

from ctp_core.base.edges import EdgeList, slices
from ctp_core.confidence import confidence_of
from ctp_core.evidence import rules_hubs
from ctp_core.evidence.rules_features import ANY, EntityFeatures, features_of, key_of
from ctp_core.evidence.rules_hubs import Hubs, changes, hubs_among
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.rules import SIDES, Template

MIN_SUPPORT = 2
MIN_CONFIDENCE = 0.01
Ids = NDArray[np.int64]
AtomIds = tuple[int, ...]
Atoms = TypeVar("Atoms", int, Ids)
NO_IDS = np.zeros(0, dtype=np.int64)
RARE = 20  # with fewer than one id in 20 of all possible ones, sorting them is cheaper than counting in a table of all
SOME_FACTS = 64  # about one entity, whose rules are counted together
MOST_CELLS = 2e6  # of a table of constants and entities, or of those with some features
MAX_WORK = 1e7  # of a table that is kept
KEPT = 2e7  # rules in all tables that are kept: 240 MB


class Strongest(NamedTuple):
    """The best rule of each fact on one side: its feature, -1 where there is none, and its evidence."""

    feature: Int[np.ndarray, " fact"]
    evidence: Float[np.ndarray, " fact"]


Counted = tuple[Ids, Ids, Float[np.ndarray, " rule"]]  # feature, constant and evidence of each rule
# For each rule, the row of its fact, the feature of that fact's entity, and the facts with its constant it explains.
Supported = tuple[Ids, Ids, Ids]


class ConstantRules:
    """All rules with constants of a KB. They are counted when a predicate is asked for, and never stored."""

    def __init__(self, edges: EdgeList, *, long: bool = False) -> None:
        self.edges, self._long = edges, long
        self.features = self.features_in(edges)
        self.body_counts = np.diff(self.features.with_feature.indptr)
        self._tables: OrderedDict[tuple[int, Template], sparse.csr_array] = OrderedDict()  # the least used first
        self._found_hubs: WeakKeyDictionary[EntityFeatures, dict[tuple[int, Template], Hubs]] = WeakKeyDictionary()

    def features_in(self, view: EdgeList) -> EntityFeatures:
        """The bodies that hold in a KB, or in it and a question."""
        return features_of(view, long=self._long)

    def evidence(self, support: NDArray[np.floating] | Ids, features: Ids) -> Float[np.ndarray, " rule"]:
        """-log(1 - confidence) of each rule; 0 for rules that are not worth keeping."""
        confidence = confidence_of(np.asarray(support, dtype=np.float64), self.body_counts[features])
        kept = (support >= MIN_SUPPORT) & (confidence >= MIN_CONFIDENCE)
        return np.asarray(np.where(kept, -np.log1p(-confidence), 0.0))

    def keep_table(self, predicate: int, side: Template) -> None:
        """Counts all rules of a predicate for the questions that follow, if there is room to keep them."""
        if (predicate, side) not in self._tables and self._work(predicate, side, self._having).sum() <= MAX_WORK:
            self._tables[predicate, side] = self._table(predicate, side)
        while sum(table.nnz for table in self._tables.values()) > KEPT and len(self._tables) > 1:
            self._tables.popitem(last=False)

    def _table(self, predicate: int, side: Template) -> sparse.csr_array:
        """[feature, constant]: the evidence of every rule of a predicate."""
        none = (NO_IDS, NO_IDS, np.zeros(0))
        parts = zip(none, *self.rules_of(predicate, side), strict=True)
        features, constants, evidence = (np.concatenate(column) for column in parts)
        shape = (len(self.features.keys), self.edges.num_entities)
        return sparse.csr_array((evidence, (features, constants)), shape=shape)

    @property
    def _having(self) -> sparse.csr_array:
        """[feature, entity]: which entities have each feature."""
        return self.features.with_feature

    def _work(self, predicate: int, side: Template, having: sparse.csr_array) -> Float[np.ndarray, " feature"]:
        """How many facts of the predicate there are about the entities that have each feature."""
        return np.asarray(having @ np.diff(self.edges.tables[self._towards(predicate, side)].indptr))

    def rules_of(self, predicate: int, side: Template, features: Ids | None = None) -> Iterator[Counted]:
        """All rules with these features, or with any, some at a time: those of a hub would fill the memory."""
        having = self._having if features is None else self._having[features]
        features = np.arange(having.shape[0]) if features is None else features
        work = self._work(predicate, side, having)
        rows = np.flatnonzero(work >= MIN_SUPPORT)
        heads = self.edges.tables[self._towards(predicate, side)].astype(np.float32)
        for some in np.split(rows, changes(np.cumsum(work[rows]) // rules_hubs.AT_ONCE)):
            found = (having[some] @ heads).tocoo()
            yield self._kept(predicate, side, features[some[found.row]], found.col, found.data)

    def _kept(
        self, predicate: int, side: Template, features: Ids, constants: Ids, supports: NDArray[np.floating] | Ids
    ) -> Counted:
        """Those of the rules that are worth keeping."""
        often = np.flatnonzero(supports >= MIN_SUPPORT)  # most of them hold once, and are not worth a logarithm
        features, constants = features[often].astype(np.int64), constants[often]
        evidence = self.evidence(supports[often], features)
        kept = np.flatnonzero((evidence > 0) & ~self.circular(predicate, side, features, constants))
        return features[kept], constants[kept], evidence[kept]

    def _towards(self, predicate: Atoms, side: Template) -> Atoms:
        """The atom that leads from the entity the body is about to the constant."""
        return predicate if side.about_subject else predicate + self.edges.num_predicates

    def circular(self, predicate: Atoms, side: Template, features: Ids, constants: Ids | int) -> NDArray[np.bool_]:
        """p(X,c) :- p(X,c); p(X,c) :- p(c,X), which needs no constant; p(X,c) :- p(X,Z), a mere base rate; and
        p(X,c) :- p(X,Z), r(Z,d), which is true of every X of whom p(X,c) is, if r(c,d)."""
        first, other = self.features.first[features], self.features.other[features]
        along = self.features.long[features]
        same = (first % self.edges.num_predicates == predicate) & ((other == constants) | (other == ANY))
        return np.asarray(np.where(along, first == self._towards(predicate, side), same))

    def row(self, view: EntityFeatures, predicate: int, start: int, *, forward: bool) -> Float[np.ndarray, " entity"]:
        """Evidence for every answer to (start, p, ?), or to (?, p, start). A known fact counts for itself here."""
        about_start, about_answer = SIDES if forward else SIDES[::-1]
        total = np.zeros(view.of_entity.shape[0])
        for constants, evidence in self._of_features(
            predicate, about_start, self._considered(view, predicate, about_start, start)
        ):
            np.maximum.at(total, constants, evidence)
        if start >= self.edges.num_entities:
            return total
        features, evidence = self._of_constant(predicate, about_answer, start)
        which, theirs = self.features.shared(features, view)
        place, entry = slices(view.with_feature.indptr[theirs], view.with_feature.indptr[theirs + 1])
        rule, about = which[place], view.with_feature.indices[entry]
        here = self._looked_at(view, predicate, about_answer, about, features[rule])
        other = np.zeros(len(total))
        np.maximum.at(other, about[here], evidence[rule[here]])
        return total + other

    def _considered(self, view: EntityFeatures, predicate: int, side: Template, entity: int) -> Ids:
        """The features of an entity that rules are looked for with; of a hub, which has many, those of least work."""
        _, features = view.shared(view.of(entity), self.features)
        return features[self._looked_at(view, predicate, side, np.full(len(features), entity), features)]

    def _looked_at(
        self, view: EntityFeatures, predicate: int, side: Template, entities: Ids, features: Ids
    ) -> Ids | slice:
        """Tells with which of these features of entities rules are looked for, whichever place is asked for."""
        hubs = self._hubs(view, predicate, side)
        if not len(hubs.entities):
            return slice(None)
        place = np.minimum(np.searchsorted(hubs.entities, entities), len(hubs.entities) - 1)
        of_hub = np.flatnonzero(hubs.entities[place] == entities)
        distinct, number = np.unique(features[of_hub], return_inverse=True)
        work = self._work(predicate, side, self._having[distinct])[number]
        return np.delete(np.arange(len(entities)), of_hub[work >= hubs.limits[place[of_hub]]])

    def _hubs(self, view: EntityFeatures, predicate: int, side: Template) -> Hubs:
        """The hubs of a KB, or of it and a question, as rules of a predicate see them."""
        found = self._found_hubs.setdefault(view, {})
        if (predicate, side) not in found:
            find = self._hubs_of_kb if view is self.features else partial(self._hubs_with, view)
            found[predicate, side] = find(predicate, side)
        return found[predicate, side]

    def _hubs_of_kb(self, predicate: int, side: Template) -> Hubs:
        most_facts = self.edges.degrees_by(self._towards(predicate, side)).max(initial=0)
        if self._shared.max(initial=0) * most_facts <= rules_hubs.MAX_LOOKED_AT:
            return Hubs(NO_IDS, np.zeros(0))
        work = self._work(predicate, side, self._having)
        busy = np.flatnonzero(self.features.of_entity @ work > rules_hubs.MAX_LOOKED_AT)
        return hubs_among(busy, self.features, work.__getitem__)

    @cached_property
    def _shared(self) -> Float[np.ndarray, " entity"]:
        """How many entities share the features of each entity, summed over its features."""
        return np.asarray(self.features.of_entity @ self.body_counts.astype(np.float64))

    def _hubs_with(self, view: EntityFeatures, predicate: int, side: Template) -> Hubs:
        """Those of the KB; entities of which a question says something are looked at anew."""
        lengths, known = (np.diff(features.of_entity.indptr) for features in (view, self.features))
        touched = np.flatnonzero(lengths != np.pad(known, (0, len(lengths) - len(known))))

        def work_of(features: Ids) -> Float[np.ndarray, " feature"]:
            distinct, number = np.unique(features, return_inverse=True)
            which, ours = view.shared(distinct, self.features)
            work = np.zeros(len(distinct))
            work[which] = self._work(predicate, side, self._having[ours])
            return np.asarray(work[number])

        before, now = self._hubs(self.features, predicate, side), hubs_among(touched, view, work_of)
        kept = ~np.isin(before.entities, touched)
        entities = np.concatenate([before.entities[kept], now.entities])
        order = np.argsort(entities)
        return Hubs(entities[order], np.concatenate([before.limits[kept], now.limits])[order])

    def _of_features(
        self, predicate: int, side: Template, features: Ids
    ) -> Iterator[tuple[Ids, Float[np.ndarray, " rule"]]]:
        """The constants of all rules with these features, and their evidence; from the table of rules if it is kept."""
        if (predicate, side) in self._tables:
            self._tables.move_to_end((predicate, side))
            table = self._tables[predicate, side]
            _, entry = slices(table.indptr[features], table.indptr[features + 1])
            yield table.indices[entry], table.data[entry]
        else:
            yield from (found[1:] for found in self.rules_of(predicate, side, features))

    def _of_constant(self, predicate: int, side: Template, constant: int) -> tuple[Ids, Float[np.ndarray, " rule"]]:
        """The features of all rules with this constant, and their evidence."""
        features, supports = self._supports(predicate, side, constant)
        features, _, evidence = self._kept(predicate, side, features, np.full(len(features), constant), supports)
        return features, evidence

    def _supports(self, predicate: int, side: Template, constant: int) -> tuple[Ids, Ids]:
        """(feature, how many facts with this constant it explains), features in rising order."""
        about, table = self.stated_of(predicate, side, constant), self.features.of_entity
        _, entry = slices(table.indptr[about], table.indptr[about + 1])
        return _counted(table.indices[entry], len(self.features.keys))

    def stated_of(self, predicate: int, side: Template, constant: int) -> Ids:
        """The entities of which, with this constant, the predicate is stated."""
        return self.edges.neighbours(constant, self._back(predicate, side))

    def _back(self, predicate: int, side: Template) -> int:
        """The atom that leads from the constant to the entity the body is about."""
        return (self._towards(predicate, side) + self.edges.num_predicates) % (2 * self.edges.num_predicates)

    def strongest(self, view: EntityFeatures, facts: FactIds, known: NDArray[np.bool_], side: Template) -> Strongest:
        """The best rule of each fact; a known fact does not support the rules that prove it."""
        found = Strongest(np.full(len(facts), -1), np.zeros(len(facts)))
        about, constant = (0, 2) if side.about_subject else (2, 0)
        asked = np.flatnonzero(facts[:, constant] < self.edges.num_entities)
        alike, supports = min(
            ((_alike(facts, asked, about), self._by_entity), (_alike(facts, asked, constant), self._by_constant)),
            key=lambda way: len(way[0]),
        )
        # What facts have in common is counted once.
        for part in _gathered(one for rows in alike for one in supports(view, facts, rows, side)):
            self._note(found, view, facts, known, side, part)
        return found

    def _note(
        self,
        found: Strongest,
        view: EntityFeatures,
        facts: FactIds,
        known: NDArray[np.bool_],
        side: Template,
        part: Supported,
    ) -> None:
        """Notes the best rule of each fact that `part` has rules of; of equal ones that with the lowest feature."""
        row, features, supports = part
        about, constant = (0, 2) if side.about_subject else (2, 0)
        # A known fact was counted where the KB, not only the question, says the body of its entity.
        itself = np.flatnonzero(known[row])
        supports = supports.copy()
        supports[itself] -= self._in_kb(view, features[itself], facts[row[itself], about])
        often = np.flatnonzero(supports >= MIN_SUPPORT)
        row, features = row[often], features[often]
        evidence = self.evidence(supports[often], features)
        circular = self.circular(facts[row, 1], side, features, facts[row, constant])
        order = np.lexsort((features, -np.where(circular, 0, evidence), row))
        best = order[np.diff(row[order], prepend=-1) > 0]
        best = best[(evidence[best] > 0) & ~circular[best]]
        found.feature[row[best]], found.evidence[row[best]] = features[best], evidence[best]

    def _by_entity(self, view: EntityFeatures, facts: FactIds, rows: Ids, side: Template) -> Iterator[Supported]:
        """Facts with the predicate and the entity that bodies are about in common."""
        about, constant = (0, 2) if side.about_subject else (2, 0)
        ours = self._considered(view, int(facts[rows[0], 1]), side, int(facts[rows[0], about]))
        back = self._back(int(facts[rows[0], 1]), side)
        for some in np.split(rows, range(SOME_FACTS, len(rows), SOME_FACTS)):
            number, feature, supports = self._supports_with(ours, back, facts[some, constant])
            yield some[number], ours[feature], supports

    def _supports_with(self, features: Ids, back: int, constants: Ids) -> tuple[Ids, Ids, Ids]:
        """(number of the constant, number of the feature, how many facts they explain), where any; in whichever way
        there is less to look at: the features of the entities that a constant is stated with, or the entities that
        have a feature."""
        stated, table = self.edges.tables[back], self.features.of_entity
        number, entry = slices(stated.indptr[constants], stated.indptr[constants + 1])
        about = stated.indices[entry]
        starts, ends = table.indptr[about], table.indptr[about + 1]
        if (ends - starts).sum() > self.body_counts[features].sum():
            return self._supports_among(features, stated, constants, (number, about))
        which, entry = slices(starts, ends)
        here, place = _numbers_among(features, table.indices[entry], len(self.features.keys))
        size = max(1, len(features))
        cells, supports = _counted(number[which[here]] * size + place, len(constants) * size)
        return *np.divmod(cells, size), supports

    def _supports_among(
        self, features: Ids, stated: sparse.csr_array, constants: Ids, pairs: tuple[Ids, Ids]
    ) -> tuple[Ids, Ids, Ids]:
        """The same, from the entities that have each feature; `pairs` are constants by number and what is stated."""
        having = self._having
        _, entry = slices(having.indptr[features], having.indptr[features + 1])
        if len(constants) * max(having.shape[1], len(entry)) > MOST_CELLS:
            counts = (having[features] @ stated[constants].T.tocsr().astype(np.float32)).tocoo()
            return counts.col, counts.row, counts.data.astype(np.int64)
        is_stated = np.zeros((len(constants), having.shape[1]), dtype=bool)
        is_stated[pairs] = True
        bounds = np.cumsum(self.body_counts[features]) - self.body_counts[features]
        table = np.add.reduceat(is_stated[:, having.indices[entry]], bounds, axis=1, dtype=np.int64)
        number, feature = np.nonzero(table)
        return number, feature, table[number, feature]

    def _by_constant(self, view: EntityFeatures, facts: FactIds, rows: Ids, side: Template) -> Iterator[Supported]:
        """Facts with the predicate and the constant in common."""
        about, constant = (0, 2) if side.about_subject else (2, 0)
        features, supports = self._supports(int(facts[rows[0], 1]), side, int(facts[rows[0], constant]))
        if not len(features):
            return
        starts, ends = (view.of_entity.indptr[facts[rows, about] + after] for after in (0, 1))
        for some in np.split(np.arange(len(rows)), changes(np.cumsum(ends - starts) // rules_hubs.AT_ONCE)):
            which, entry = slices(starts[some], ends[some])
            shared, ours = view.shared(view.of_entity.indices[entry], self.features)
            place = np.minimum(np.searchsorted(features, ours), len(features) - 1)
            here = np.flatnonzero(features[place] == ours)
            row = rows[some[which[shared[here]]]]
            kept = self._looked_at(view, int(facts[rows[0], 1]), side, facts[row, about], ours[here])
            yield row[kept], ours[here][kept], supports[place[here]][kept]

    def _in_kb(self, view: EntityFeatures, features: Ids, entities: Ids) -> Ids:
        """1 for each feature that the KB states of its entity, else 0."""
        if view is self.features or not len(features):
            return np.ones(len(features), dtype=np.int64)
        return np.asarray(self.features.of_entity[entities, features]).ravel().astype(np.int64)

    def counted(self, facts: FactIds) -> NDArray[np.bool_]:
        """Tells which facts support rules: those of the KB, not those that only a question states."""
        inside = facts[:, [0, 2]].max(axis=1, initial=0) < self.edges.num_entities
        counted = np.zeros(len(facts), dtype=bool)
        counted[inside] = self.edges.states(facts[inside])
        return counted

    def support(self, predicate: int, body: AtomIds) -> tuple[int, int]:
        """(facts that a rule explains, entities that its body holds of)."""
        side, feature, constant = self.parts(body)
        features, supports = self._supports(predicate, side, constant)
        return int(supports[features == feature].sum()), int(self.body_counts[feature])

    def evidence_of(self, predicate: int, body: AtomIds) -> float:
        support, _ = self.support(predicate, body)
        return float(self.evidence(np.array([support]), np.array([self.parts(body)[1]]))[0])

    def body(self, side: Template, feature: int, constant: int) -> AtomIds:
        """The numbers that name a rule: (side, path, d or ANY, c)."""
        return SIDES.index(side), self.features.path(feature), int(self.features.other[feature]), constant

    def parts(self, body: AtomIds) -> tuple[Template, int, int]:
        """What `body` made the numbers of: (side, feature, constant)."""
        side, path, other, constant = body
        return SIDES[side], int(np.searchsorted(self.features.keys, key_of(path, other))), constant


def _alike(facts: FactIds, rows: Ids, place: int) -> list[Ids]:
    """The rows in groups of equal predicate and equal entity at this place."""
    rows = rows[np.lexsort((facts[rows, place], facts[rows, 1]))]
    changes = np.flatnonzero((np.diff(facts[rows][:, [1, place]], axis=0) != 0).any(axis=1)) + 1
    return np.split(rows, changes) if len(rows) else []


def _gathered(parts: Iterable[Supported]) -> Iterator[Supported]:
    """Joins small parts into larger ones of about AT_ONCE rows."""
    held: list[Supported] = []
    for part in parts:
        held.append(part)
        if sum(len(row) for row, _, _ in held) > rules_hubs.AT_ONCE:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(parts: Iterable[Supported]) -> Supported:
    row, features, supports = (np.concatenate(column) for column in zip(*parts, strict=True))
    return row, features, supports


def _numbers_among(among: Ids, ids: NDArray[np.integer], size: int) -> tuple[Ids, Ids]:
    """(which of the ids below `size` are among some, which are in rising order; and their numbers there)."""
    if len(ids) * RARE < size:
        place = np.minimum(np.searchsorted(among, ids), max(0, len(among) - 1))
        here = np.flatnonzero(among[place] == ids) if len(among) else NO_IDS
        return here, place[here]
    numbers = np.full(size, -1, dtype=np.int32)
    numbers[among] = np.arange(len(among))
    place = numbers[ids]
    here = np.flatnonzero(place >= 0)
    return here, place[here].astype(np.int64)


def _counted(ids: NDArray[np.integer], size: int) -> tuple[Ids, Ids]:
    """The distinct ids below `size` in rising order, and how often each is there."""
    if len(ids) * RARE < size:
        return np.unique(ids.astype(np.int64), return_counts=True)
    counts = np.bincount(ids, minlength=size)
    distinct = np.flatnonzero(counts)
    return distinct, counts[distinct]
