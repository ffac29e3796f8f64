"""Predictions in bulk: every missing fact of a predicate that a model believes, with its best proof.

Questions are asked many at a time. The candidates of a batch are chosen by quick logits, which may be rounded, and
scored exactly after that, so that a fact has the score here that it has when it is asked for alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from ctp_core.base.facts_model import FactsModel, best_first
from ctp_core.base.goals import GoalIds, Place
from ctp_core.kb.knowledge_base import FactIds
from ctp_core.proofs import Proof
from ctp_core.symbols import Fact, Vocabulary

Asked = Literal["object", "subject", "fact"]  # the place that was open; of a pair, none
Logits = Float[np.ndarray, " fact"]
Ids = Int[np.ndarray, " entity"]

CELLS_AT_ONCE = 4_000_000  # logits in memory at the same time
ROWS_AT_ONCE = 20_000  # answers, likewise
MOST_AT_ONCE = 256  # questions of a batch, so that whoever listens hears often
ROUNDING = 1e-3  # by which quick logits may differ from exact ones, relative to their size
PROVED_AT_ONCE = 128  # facts
SPARE = 8  # candidates beyond those that are wanted, because rounding may have changed their order


@dataclass(frozen=True)
class Wanted:
    """What to predict.

    (s, p, ?) for the `subjects`, or for all entities that may be subjects of the predicate (`alike`); with `objects`
    alone (?, p, o); with both each pair, which is a question of its own.
    """

    predicate: str
    subjects: Sequence[str] | None = None
    objects: Sequence[str] | None = None
    min_score: float = 0.5
    top_k: int = 10
    proofs: int = 0  # 0 or 1
    exclude_known: bool = True

    @property
    def asked(self) -> Asked:
        if self.objects is None:
            return "object"
        return "subject" if self.subjects is None else "fact"


class Prediction(NamedTuple):
    """A fact that a model believes. `rank` is among the answers to the same question, from 1."""

    fact: Fact
    score: float
    probability: float | None
    rank: int
    known: bool
    asked: Asked
    proof: Proof | None


@dataclass(frozen=True)
class _Chosen:
    """Facts that survive a batch, question by question and best first, with what is shown of them."""

    facts: FactIds
    logits: Logits
    scores: list[float]
    probabilities: list[float | None]
    ranks: list[int]


class Predictor:
    """Answers the questions of `wanted` in a fixed order: by the number that the KB gives to the entity they name.

    A *step* is one subject or object that is given, and as many questions as it takes. Raises UnknownSymbol.
    """

    def __init__(self, model: FactsModel, wanted: Wanted) -> None:
        self.model, self.wanted, self.view = model, wanted, model.kb_view
        self.predicate = self.view.predicates.id(wanted.predicate)
        self.forward = wanted.asked != "subject"
        stated = self.view.stated[self.view.stated[:, 1] == self.predicate]
        self._known = _ByEntity(stated[:, 0 if self.forward else 2], stated[:, 2 if self.forward else 0])
        given = wanted.subjects if self.forward else wanted.objects
        self.given = alike(self.view.stated, self.predicate) if given is None else _numbers(self.view.entities, given)
        pairs = wanted.objects if wanted.asked == "fact" else None
        self._partners = None if pairs is None else _numbers(self.view.entities, pairs)

    @property
    def num_steps(self) -> int:
        return len(self.given)

    @property
    def questions_per_step(self) -> int:
        return 1 if self._partners is None else len(self._partners)

    @property
    def _most(self) -> int:
        """The answers that a step may have."""
        return max(1, self.wanted.top_k if self._partners is None else len(self._partners))

    def batches(self, first: int = 0) -> Iterator[tuple[int, list[Prediction]]]:
        """Yields how many steps are done, and the predictions of the last of them, from step `first` on."""
        size = max(1, min(MOST_AT_ONCE, CELLS_AT_ONCE // max(1, len(self.view.entities)), ROWS_AT_ONCE // self._most))
        for start in range(first, self.num_steps, size):
            given = self.given[start : start + size]
            with torch.no_grad():
                predictions = self._predictions(given)
            yield start + len(given), predictions

    def _predictions(self, given: Ids) -> list[Prediction]:
        chosen = self._chosen(given)
        known = self.view.known(chosen.facts).tolist()
        proofs = self._proofs(chosen)
        rows = zip(chosen.facts.tolist(), chosen.scores, chosen.probabilities, chosen.ranks, known, proofs, strict=True)
        asked = self.wanted.asked
        return [
            Prediction(self.view.fact(*fact), score, probability, rank, stated, asked, proof)
            for fact, score, probability, rank, stated, proof in rows
        ]

    def _proofs(self, chosen: _Chosen) -> Sequence[Proof | None]:
        if not (self.wanted.proofs and self.model.explainable):
            return [None] * len(chosen.facts)
        found: list[Proof | None] = []
        for start in range(0, len(chosen.facts), PROVED_AT_ONCE):
            some = slice(start, start + PROVED_AT_ONCE)
            found += self._proved(chosen.facts[some], chosen.logits[some])
        return found

    def _proved(self, facts: FactIds, logits: Logits) -> list[Proof | None]:
        """The best proof of each fact; where the paths of all together are too many to walk, each is proved alone."""
        whys = self.model.explained(self.view, facts, logits, 1)
        for at, why in enumerate(whys):
            if why.score_parts and why.score_parts.get("num_proofs", 0) is None and len(facts) > 1:
                (whys[at],) = self.model.explained(self.view, facts[at : at + 1], logits[at : at + 1], 1)
        return [why.proofs[0] if why.proofs else None for why in whys]

    def _chosen(self, given: Ids) -> _Chosen:
        facts, rows = self._candidates(given)
        logits = self.model.logits(self.view, GoalIds(facts, None))[:, 0] if len(facts) else np.zeros(0)
        order = np.lexsort((facts[:, 2 if self.forward else 0], -self.model.ranked(logits, facts), rows))
        facts, logits, rows = facts[order], logits[order], rows[order]
        scores, probabilities = self.model.shown_scores(facts, logits)
        ranks = _ranks(rows) if self._partners is None else np.ones(len(rows), dtype=np.int64)
        kept = (ranks <= self.wanted.top_k) & (np.array(scores) >= self.wanted.min_score)
        at = np.flatnonzero(kept).tolist()
        return _Chosen(
            facts[kept],
            logits[kept],
            [scores[i] for i in at],
            [probabilities[i] for i in at],
            ranks[kept].tolist(),
        )

    def _candidates(self, given: Ids) -> tuple[FactIds, Int[np.ndarray, " fact"]]:
        """(facts that may be wanted, the row of the question of each)."""
        logits = self._quick(given)
        found = [self._of_row(entity, row) for entity, row in zip(given.tolist(), logits, strict=True)]
        rows = np.repeat(np.arange(len(given)), [len(one) for one in found])
        facts = np.empty((len(rows), 3), dtype=np.int64)
        facts[:, 1] = self.predicate
        facts[:, 0 if self.forward else 2] = given[rows]
        facts[:, 2 if self.forward else 0] = np.concatenate([np.zeros(0, dtype=np.int64), *found])
        return facts, rows

    def _quick(self, given: Ids) -> Float[np.ndarray, "question entity"]:
        """Logits to choose by. Known facts may prove themselves in quick ones, which is right where they are left out;
        a logit that is missing means that the quick way has no answer."""
        predicates = np.full(len(given), self.predicate)
        facts = np.stack([given, predicates, given], axis=1)
        place = Place.OBJECT if self.forward else Place.SUBJECT
        quick = self.model.kb_logits(GoalIds.hiding(facts, place, for_ranking=self.wanted.exclude_known))
        return self.model.kb_logits(GoalIds.hiding(facts, place)) if np.isnan(quick).any() else quick

    def _of_row(self, given: int, logits: Float[np.ndarray, " entity"]) -> Ids:
        """The entities that may complete the fact, best first."""
        candidates = np.arange(len(logits)) if self._partners is None else self._partners
        if self.wanted.exclude_known:
            unknown = np.ones(len(logits), dtype=bool)
            unknown[self._known.of(given)] = False
            candidates = candidates[unknown[candidates]]
        facts = np.empty((len(candidates), 3), dtype=np.int64)
        facts[:, 0 if self.forward else 2], facts[:, 1] = given, self.predicate
        facts[:, 2 if self.forward else 0] = candidates
        ranked = self.model.ranked(logits[candidates], facts)
        least = self.model.least_ranked(self.wanted.min_score)
        kept = np.flatnonzero(ranked >= least - ROUNDING * max(1.0, abs(least))) if np.isfinite(least) else None
        if kept is not None:
            candidates, ranked = candidates[kept], ranked[kept]
        if self._partners is not None:
            return candidates
        best: Ids = candidates[best_first(ranked, self.wanted.top_k + SPARE)]
        return best


def alike(stated: FactIds, predicate: int) -> Ids:
    """The entities that may be subjects of a predicate: those that are, and those of their kind.

    Of their kind is who stands in the place of another predicate in which most of them stand: who was born somewhere
    may be a citizen, though no citizenship is stated. Where no place has half of them, there is no such kind.
    """
    subjects = np.unique(stated[stated[:, 1] == predicate, 0])
    size = int(stated[:, [0, 2]].max(initial=0)) + 1
    # One number for each entity in a place, because pairs take many times as long to sort.
    places = [(2 * stated[:, 1] + side) * size + stated[:, column] for side, column in enumerate((0, 2))]
    place, entity = np.divmod(np.unique(np.concatenate(places)), size)
    elsewhere = place != 2 * predicate
    place, entity = place[elsewhere], entity[elsewhere]
    shared = np.bincount(place[np.isin(entity, subjects)])
    if 2 * shared.max(initial=0) < max(1, len(subjects)):
        return subjects
    # Of places that as many of them share, the one with the fewest others tells most.
    sizes = np.bincount(place, minlength=len(shared))[: len(shared)]
    chosen = np.lexsort((sizes, -shared))[0]
    kind: Ids = np.union1d(subjects, entity[place == chosen])
    return kind


class _ByEntity:
    """For each entity those that it is known to stand with."""

    def __init__(self, entities: Ids, others: Ids) -> None:
        order = np.lexsort((others, entities))
        self.entities, self._starts = np.unique(entities[order], return_index=True)
        self._others = others[order]

    def of(self, entity: int) -> Ids:
        at = int(np.searchsorted(self.entities, entity))
        if at == len(self.entities) or self.entities[at] != entity:
            return self._others[:0]
        end = self._starts[at + 1] if at + 1 < len(self._starts) else None
        found: Ids = self._others[self._starts[at] : end]
        return found


def _numbers(entities: Vocabulary, names: Sequence[str]) -> Ids:
    """Distinct numbers in rising order: the order of the questions does not depend on that of the names."""
    return np.unique(np.array([entities.id(name) for name in names], dtype=np.int64))


def _ranks(rows: Int[np.ndarray, " fact"]) -> Int[np.ndarray, " fact"]:
    """Counts from 1 within each row; rows are in rising order."""
    ranks: Ids = np.arange(len(rows)) - np.searchsorted(rows, rows) + 1
    return ranks
