"""How well models rank facts: filtered ranks in both directions, MRR, Hits@k, AUC-PR, and settings chosen by them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from ctp_core.base.edges import slices
from ctp_core.base.goals import GoalIds, Place, Score
from ctp_core.base.progress import OnPart, unheard
from ctp_core.kb.knowledge_base import SPLITS, FactIds, FactsKB

HITS = (1, 3, 10)
ASKED = (Place.OBJECT, Place.SUBJECT)  # every fact is asked for twice, in this order
BATCH = 256  # questions ranked at once
HEARD_CELLS = 1_000_000  # scores after which a listener hears how far it is, unless these are
FEWEST = 16  # questions or fewer
CELLS = 5_000_000  # and fewer of a KB with many entities: bounds memory at so many scores

ScoreEach = Callable[[GoalIds], Mapping[str, NDArray[np.floating]]]  # the scores by several models


class KnownFilter:
    """Finds the entities that complete a question (entity, predicate, ?) to a known fact."""

    def __init__(self, facts: Iterable[FactIds], num_entities: int, num_predicates: int, *, subjects: bool) -> None:
        rows = np.concatenate([*facts, np.zeros((0, 3), dtype=np.int64)])
        given, asked = (rows[:, 2], rows[:, 0]) if subjects else (rows[:, 0], rows[:, 2])
        keys = given * num_predicates + rows[:, 1]
        order = np.argsort(keys, kind="stable")
        self._keys, self._asked = keys[order], asked[order]
        self.num_entities, self._num_predicates = num_entities, num_predicates

    def mask(
        self, given: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> Bool[np.ndarray, "question entity"]:
        mask = np.zeros((len(given), self.num_entities), dtype=bool)
        mask[self.known(given, predicates)] = True
        return mask

    def known(
        self, given: Int[np.ndarray, " question"], predicates: Int[np.ndarray, " question"]
    ) -> tuple[Int[np.ndarray, " known"], Int[np.ndarray, " known"]]:
        """(question, entity) of every known answer."""
        keys = given * self._num_predicates + predicates
        starts, ends = np.searchsorted(self._keys, keys), np.searchsorted(self._keys, keys, side="right")
        question, known = slices(starts, ends)
        return question, self._asked[known]


def at_once(num_entities: int) -> int:
    """How many questions are ranked together: on a large KB few, so that a listener never waits for long."""
    size = max(1, num_entities)
    return max(1, min(BATCH, CELLS // size, max(FEWEST, HEARD_CELLS // size)))


def known_filters(kb: FactsKB, split: str) -> tuple[KnownFilter, KnownFilter]:
    """For objects and for subjects, over the facts of `split` and of those before it.

    Validation decides what is learnt, and test facts have no say in that: they filter only where they are ranked.
    """
    return filters_by(kb, SPLITS[: SPLITS.index(split) + 1])


def filters_by(kb: FactsKB, splits: Sequence[str]) -> tuple[KnownFilter, KnownFilter]:
    """For objects and for subjects, over the facts of these splits."""
    facts, sizes = [kb.splits[name] for name in splits if name in kb.splits], (len(kb.entities), len(kb.predicates))
    return KnownFilter(facts, *sizes, subjects=False), KnownFilter(facts, *sizes, subjects=True)


def realistic_ranks(
    scores: Float[np.ndarray, "question entity"],
    true: Int[np.ndarray, " question"],
    known: Bool[np.ndarray, "question entity"],
) -> Float[np.ndarray, " question"]:
    """1 + those above + half of the others at the same score; known facts other than the true one do not count.

    NaN ranks above everything, so that no model ranks well by having no scores.
    """
    questions = np.arange(len(true))
    target = scores[questions, true][:, None]
    others = ~known
    others[questions, true] = False
    above = (~(scores <= target) & others).sum(1)
    equal = ((scores == target) & others).sum(1)
    return np.asarray(1 + above + equal / 2)


def rank_facts(
    facts: FactIds, score: Score, filters: tuple[KnownFilter, KnownFilter], on_part: OnPart = unheard
) -> Float[np.ndarray, " question"]:
    """The ranks of all objects, then of all subjects. `filters` are for (objects, subjects)."""
    return rank_facts_by_each(facts, lambda goals: {"": score(goals)}, filters, on_part).get("", np.zeros(0))


def rank_facts_by_each(
    facts: FactIds, score: ScoreEach, filters: tuple[KnownFilter, KnownFilter], on_part: OnPart = unheard
) -> dict[str, Float[np.ndarray, " question"]]:
    """The ranks by each of several models that share their work; `on_part` hears how many questions are ranked."""
    order = np.argsort(facts[:, 1], kind="stable")  # a model may keep what it knows of a predicate for the next fact
    ranks: dict[str, NDArray[np.float64]] = {}
    batch = at_once(filters[0].num_entities)
    for way, place in enumerate(ASKED):
        for start in range(0, len(facts), batch):
            rows = order[start : start + batch]
            goals, true = GoalIds.hiding(facts[rows], place, for_ranking=True), facts[rows, place]
            known = filters[way].mask(goals.given, goals.predicates)
            for name, scores in score(goals).items():
                ranks.setdefault(name, np.zeros((2, len(facts))))[way, rows] = realistic_ranks(scores, true, known)
            on_part(way * len(facts) + start + len(rows), len(ASKED) * len(facts))
    return {name: each.ravel() for name, each in ranks.items()}


def ranking_metrics(ranks: Float[np.ndarray, " question"]) -> dict[str, float]:
    """MRR and Hits@1/3/10; empty without questions."""
    if not len(ranks):
        return {}
    return {"mrr": float((1 / ranks).mean()), **{f"hits@{k}": float((ranks <= k).mean()) for k in HITS}}


def auc_pr(scores: Float[np.ndarray, " example"], true: Bool[np.ndarray, " example"]) -> float:
    """Area under the precision-recall curve, as average precision; equal scores are one threshold.

    Σ (recall_i - recall_{i-1}) · precision_i over the distinct scores.
    """
    order = np.argsort(-scores, kind="stable")
    scores, true = scores[order], true[order]
    thresholds = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    found = np.cumsum(true)[thresholds]
    precision, recall = found / (thresholds + 1), found / true.sum()
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def as_good(ranks: Float[np.ndarray, " question"], best: Float[np.ndarray, " question"], errors: float = 1.0) -> bool:
    """Whether reciprocal ranks of the same questions are as good as the best, within so many standard errors."""
    lost = best - ranks
    return bool(lost.mean() <= errors * lost.std(ddof=min(1, len(lost) - 1)) / np.sqrt(len(lost)))
