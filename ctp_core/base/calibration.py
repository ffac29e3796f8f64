"""Turns ranking scores into probabilities: of answers scored about .8, about 80 % are true.

    score = sigmoid(bend(slope_p · x + level_p))

x is the logit that a model was trained to rank by. The slope is positive and the bend rises, so that the answers to a
question keep their order. All three are fitted to facts that the model has not learnt from, against all other
candidates of the same questions: what people see when they ask, in the ratio in which they see it. A predicate with few
such facts has nearly the slope and the level that all predicates have in common, and all share one bend.

No KB states all that is true, and nobody may look at its test facts: among the candidates these would count as false.
There are taken to be MISSING of them for each fact that is held out, or fewer where the surest candidates leave no room
for so many; where they are, `calibration_fit` says.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from ctp_core.artifact import check_magnitude
from ctp_core.base.bend import Bend
from ctp_core.base.calibration_fit import Candidates, Truth, fit
from ctp_core.base.evaluation import ASKED, BATCH, KnownFilter, at_once
from ctp_core.base.goals import GoalIds, Score
from ctp_core.base.reliability import expected_calibration_error, looked_at
from ctp_core.errors import ArtifactError
from ctp_core.kb.knowledge_base import SPLITS, FactsKB
from ctp_core.kb.splits import FactsSplit

FACTS = 1000  # held-out facts that calibrate, each asked for in both directions
LEAST_FACTS = 100  # of them, however many entities there are
KEPT = 100  # candidates of a question: those behind them are never WORTH_SHOWING
MAX_CELLS = 2e7  # logits in memory at the same time
MAX_ASKED_CELLS = 5e7  # facts times entities: fewer facts calibrate where there are more than 50,000 entities
FOLDS = 5  # of the cross-validation where a KB has no validation facts
MISSING = 1.2  # true facts that a KB lacks, for each that is held out, where it does not tell
SEED = 0
HALVINGS = 40


@dataclass(frozen=True)
class Calibration:
    """A slope and a level for each predicate, a bend for all. `ece` is the error on facts that did not fit them."""

    slopes: Float[np.ndarray, " predicate"]
    levels: Float[np.ndarray, " predicate"]
    ece: float | None = None
    bend: Bend = field(default_factory=Bend.none)

    def logits(
        self, ranked: Float[np.ndarray, "*shape"], predicates: Int[np.ndarray, "*shape"]
    ) -> Float[np.ndarray, "*shape"]:
        """The logits of probabilities."""
        return self.bend(np.asarray(self.slopes[predicates] * ranked + self.levels[predicates]))

    def values(self) -> dict[str, Any]:
        """What an artifact stores; `read` is its inverse."""
        lines = {"slopes": self.slopes.tolist(), "levels": self.levels.tolist()}
        return {**lines, "ece": self.ece, "bend": self.bend.slopes.tolist()}

    @classmethod
    def read(cls, values: Any, num_predicates: int) -> Self | None:
        """The calibration that an artifact stores, None for earlier versions; raises ArtifactError."""
        if values is None:
            return None
        try:
            slopes, levels = (
                np.array(values[name], dtype=np.float64).reshape(num_predicates) for name in ("slopes", "levels")
            )
            ece = None if values["ece"] is None else float(values["ece"])
            bend = Bend.read(values.get("bend"))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"the artifact has a calibration that cannot be read: {error}") from None
        check_magnitude("the slopes and levels", *slopes.tolist(), *levels.tolist(), *bend.slopes.tolist())
        if not (slopes > 0).all() or not (bend.slopes > 0).all():
            raise ArtifactError("the artifact has a calibration whose slopes are not positive")
        return cls(slopes, levels, ece, bend)


def calibrate(
    parts: Iterable[tuple[Score, FactsSplit]], kb: FactsKB, missing: float = MISSING, most: int = FACTS
) -> Calibration | None:
    """Fits a calibration to the held-out facts of each part, scored by a model that sees the others.

    `missing` is how many true facts the KB lacks for each held-out one, `most` how many facts of a part are asked for.
    None where no question has a candidate.
    """
    found = [one for score, split in parts for one in _candidates(score, kb, split, most)]
    if not found:
        return None
    candidates = Candidates.together(found)
    if not len(candidates.logits):
        return None
    sizes = (len(kb.predicates), missing)
    fitted = fit(candidates, *sizes)
    return Calibration(fitted.slopes, fitted.levels, _cross_fitted_error(candidates, *sizes), fitted.bend)


def calibrate_on_unseen(
    score_on: Callable[[FactsKB], Score], kb: FactsKB, split: FactsSplit, most: int = FACTS
) -> Calibration | None:
    """Calibrates a model that proves from the facts of a KB, where no fact may prove itself.

    Uses validation facts where there are enough; else scores each training fact by the KB without its fold. A fold is
    far more than a KB lacks.
    """
    parts, missing = ([split], MISSING) if split.measurable else (_folds(split), 0.0)
    return calibrate(((score_on(part.visible(kb)), part) for part in parts), kb, missing, most)


def answers_of(
    score: Score, calibration: Calibration, kb: FactsKB, split: str, most: int | None = None
) -> tuple[Float[np.ndarray, " answer"], Bool[np.ndarray, " answer"]]:
    """(scores, truth) of the unknown answers that people see when they ask for the facts of a split.

    Each question is asked once; `most` asks for so many of the facts, always the same ones. An answer is unknown where
    no earlier split states it, and true where this split does.
    """
    earlier = [kb.splits[name] for name in SPLITS[: SPLITS.index(split)] if name in kb.splits]
    facts = kb.splits[split]
    asked = FactsSplit(np.concatenate([facts[:0], *earlier]), facts)
    seen = [np.zeros(0)], [np.zeros(0, dtype=bool)]
    for found in _candidates(score, kb, asked, len(facts) if most is None else most, measured=True):
        scores = expit(calibration.logits(found.logits, found.predicate))
        shown = looked_at(scores, found.rank)  # at once: all candidates of a large split would not fit into memory
        seen[0].append(scores[shown])
        seen[1].append(found.true[shown])
    return np.concatenate(seen[0]), np.concatenate(seen[1])


def _folds(split: FactsSplit) -> list[FactsSplit]:
    order = np.random.default_rng(SEED).permutation(len(split.train))
    folds = [order[start::FOLDS] for start in range(min(FOLDS, len(order)))]
    return [FactsSplit(np.delete(split.train, fold, axis=0), split.train[fold]) for fold in folds]


def _candidates(
    score: Score, kb: FactsKB, split: FactsSplit, most: int, *, measured: bool = False
) -> Iterable[Candidates]:
    """The candidates of both questions about each held-out fact, computed in batches to bound memory.

    A question that several facts answer is asked once, as people do.
    """
    sizes = (len(kb.entities), len(kb.predicates))
    # Answers that are measured, not calibrated by, are asked for all.
    facts = split.valid_sample(most if measured else min(most, max(LEAST_FACTS, int(MAX_ASKED_CELLS / sizes[0]))))
    order = np.argsort(facts[:, 1], kind="stable")  # a model may keep what it knows of a predicate for the next fact
    # Who measures has less memory than who trains.
    batch = at_once(sizes[0]) if measured else max(1, min(BATCH, int(MAX_CELLS / sizes[0])))
    for way, place in enumerate(ASKED):
        stated, held_out = (KnownFilter([some], *sizes, subjects=bool(way)) for some in (split.train, split.valid))
        first = np.unique(GoalIds.hiding(facts, place).facts, axis=0, return_index=True)[1]
        chosen = order[np.isin(order, first)]
        for start in range(0, len(chosen), batch):
            rows = chosen[start : start + batch]
            goals = GoalIds.hiding(facts[rows], place, for_ranking=True)
            known = stated.mask(goals.given, goals.predicates)
            logits = np.where(known, -np.inf, np.nan_to_num(score(goals), nan=-np.inf))
            yield _best(logits, held_out.mask(goals.given, goals.predicates), goals.predicates, rows)


def _best(
    logits: Float[np.ndarray, "question entity"],
    true: Bool[np.ndarray, "question entity"],
    predicates: Int[np.ndarray, " question"],
    facts: Int[np.ndarray, " question"],
) -> Candidates:
    """The KEPT best candidates of each question; -inf is not a candidate."""
    kept = min(KEPT, logits.shape[1])
    top = np.argpartition(-logits, kept - 1, axis=1)[:, :kept]
    rows = np.arange(len(logits))[:, None]
    top = top[rows, np.argsort(-logits[rows, top], axis=1, kind="stable")]  # [question, kept]
    ranks = np.broadcast_to(np.arange(kept), top.shape)
    found, several = true[rows, top], true.sum(1, keepdims=True) > 1
    columns = (logits[rows, top], predicates[:, None], ranks, found, found & several, facts[:, None])
    table = Candidates(*(np.broadcast_to(column, top.shape).ravel() for column in columns))
    return table.of(np.isfinite(table.logits))


def _cross_fitted_error(candidates: Candidates, num_predicates: int, missing: float) -> float | None:
    """The calibration error of each half of the facts under the calibration by the other half."""
    scored = []
    for half in (0, 1):
        fitting, other = (candidates.of(candidates.fact % 2 == side) for side in (half, 1 - half))
        if not len(fitting.logits) or not len(other.logits):
            return None
        scores = expit(fit(fitting, num_predicates, missing).logits(other))
        shown = looked_at(scores, other.rank)
        truth = Truth.of(other.of(shown), scores[shown], missing)
        scored.append((scores[shown], truth.true, truth.weights))
    return expected_calibration_error(*(np.concatenate(column) for column in zip(*scored, strict=True)))


def level(logits: Float[np.ndarray, " pair"], num_facts: int) -> float:
    """The offset at which `num_facts` of all pairs with these logits are expected to be facts; never none or all."""
    wanted = min(max(num_facts, 0.5), len(logits) - 0.5)
    rarest = float(np.log(wanted / (len(logits) - wanted)))
    low, high = rarest - float(logits.max()), rarest - float(logits.min())  # as if all had the same logit
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        expected = expit(logits + middle).sum()
        low, high = (low, middle) if expected > wanted else (middle, high)
    return (low + high) / 2
