"""Fits a calibration: slopes, levels and the bend, from candidates of questions about held-out facts.

Among the candidates of a question there are true facts that are not held out either: those that the KB lacks, test
facts among them. Where they stand follows from held-out facts that answer the same question, since all are drawn from
the same truth. How many held-out answers does a question have that is not asked for the sake of one? It is enough to
count those of questions that have several, n > 1: with n by Poisson, E[n where n > 1, else 0 | n > 0] = E[n].
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from ctp_core.base.bend import KNOTS, Bend, lengths
from ctp_core.base.reliability import BEST, looked_at

ROUNDS, BENT = 6, 3  # of fitting to the answers that the round before found worth showing; the last ones with a bend
# Standard deviations of the normal priors, on the logit scale: of the common slope around 1 standard deviation of the
# logits, of a predicate's own slope and level around the common ones, and of each piece of the bend around 1.
COMMON_SLOPE, OWN_SLOPE, OWN_LEVEL, PIECE = 1.5, 0.3, 0.5, 0.3
COMMON_LEVEL = -2.0  # to begin with: about one true answer among ten
MOST_LOG, MOST_LEVEL = 4.0, 40.0  # bounds of logarithms of slopes and of levels: a step too far overflows
LEVEL_BINS = 10  # in which true facts that a KB lacks are counted
PRIOR_OTHERS = 20.0  # held-out facts that the assumed number of missing ones counts for
LEAST_SPREAD = 1e-4  # logits that differ by less do not differ; keeps slopes and levels far below MAX_MAGNITUDE
Floats = Float[np.ndarray, " candidate"]


@dataclass(frozen=True)
class Candidates:
    """The best candidates of questions about held-out facts that are not stated among the visible ones."""

    logits: Floats
    predicate: Int[np.ndarray, " candidate"]
    rank: Int[np.ndarray, " candidate"]  # among the candidates of its question, from 0
    true: Bool[np.ndarray, " candidate"]  # held out
    other: Bool[np.ndarray, " candidate"]  # held out, and not alone among the answers of its question
    fact: Int[np.ndarray, " candidate"]  # the number of the fact for whose sake the question is asked

    def of(self, chosen: Bool[np.ndarray, " candidate"]) -> "Candidates":
        return Candidates(*(column[chosen] for column in vars(self).values()))

    @classmethod
    def together(cls, parts: "list[Candidates]") -> "Candidates":
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))


@dataclass(frozen=True)
class Truth:
    """What is known of each candidate: how much it counts, and the chance that it is true."""

    weights: Floats
    true: Floats

    @classmethod
    def of(cls, candidates: Candidates, scores: Floats, missing: float) -> "Truth":
        """By score: others ÷ candidates that are not held out, times `missing`, is the share of these that is true.

        Here held-out facts stand for missing ones that somebody asks about; then these are not there a second time, and
        as many candidates as there are others do not count. What is missing beyond that counts as true.
        """
        if not missing:
            return cls(np.ones(len(scores)), candidates.true.astype(float))
        place, others, rest = _counts(candidates, scores)
        share = _rising(others / np.maximum(rest, 1), np.maximum(rest, 1e-9))
        held_out = np.minimum(share, 1.0)
        lacking = np.minimum(_most_missing(others, rest, missing) * share, 1.0)
        left = 1 - np.minimum(held_out, lacking)
        chance = np.where(left > 0, np.maximum(lacking - held_out, 0) / np.maximum(left, 1e-9), 0.0)
        return cls(np.where(candidates.true, 1.0, left[place]), np.where(candidates.true, 1.0, chance[place]))

    @property
    def smoothed(self) -> Floats:
        """The targets of Platt 1999, as if each label had been seen once more rightly and once wrongly.

        A few facts that are told from all others do not make certain what is as clear as they are.
        """
        num_true = float((self.weights * self.true).sum())
        num_false = float(self.weights.sum()) - num_true
        return np.asarray(self.true * (num_true + 1) / (num_true + 2) + (1 - self.true) / (num_false + 2))


def _counts(
    candidates: Candidates, scores: Floats
) -> tuple[Int[np.ndarray, " candidate"], Float[np.ndarray, " bin"], Float[np.ndarray, " bin"]]:
    """(bin of each candidate, others in each bin, candidates in each bin that are not held out)."""
    held_out = scores[candidates.true]
    edges = np.unique(np.quantile(held_out, np.linspace(0, 1, LEVEL_BINS + 1))) if len(held_out) else np.zeros(0)
    place, size = np.searchsorted(edges, scores), len(edges) + 1
    others, rest = (np.bincount(place, kind, minlength=size) for kind in (candidates.other, ~candidates.true))
    return place, others, rest


def _most_missing(others: Float[np.ndarray, " bin"], rest: Float[np.ndarray, " bin"], missing: float) -> float:
    """`missing`, or what the surest candidates leave room for: a KB cannot lack more of them than there are.

    Where nearly all of the surest answers are true, as in a KB with exact rules, this tells how many a KB lacks.
    """
    blocks = _rising(others / np.maximum(rest, 1), np.maximum(rest, 1e-9))
    surest = blocks >= blocks[-1]
    room = (rest[surest].sum() + PRIOR_OTHERS * missing) / (others[surest].sum() + PRIOR_OTHERS)
    return min(missing, float(room))


def _rising(values: Float[np.ndarray, " bin"], weights: Float[np.ndarray, " bin"]) -> Float[np.ndarray, " bin"]:
    """Isotonic regression: the nearest values that never fall, by pooling neighbours that do."""
    blocks: list[tuple[float, float, int]] = []  # value, weight, length
    for block in zip(values.tolist(), weights.tolist(), [1] * len(values), strict=True):
        value, weight, length = block
        while blocks and blocks[-1][0] >= value:
            before, heavy, long = blocks.pop()
            value = (before * heavy + value * weight) / (heavy + weight)
            weight, length = heavy + weight, long + length
        blocks.append((value, weight, length))
    return np.repeat([value for value, _, _ in blocks], [length for _, _, length in blocks])


@dataclass(frozen=True)
class Fitted:
    """The lines of predicates and the common bend."""

    slopes: Float[np.ndarray, " predicate"]
    levels: Float[np.ndarray, " predicate"]
    bend: Bend

    def logits(self, candidates: Candidates) -> Floats:
        straight = self.slopes[candidates.predicate] * candidates.logits + self.levels[candidates.predicate]
        return np.asarray(self.bend(straight))


def fit(candidates: Candidates, num_predicates: int, missing: float) -> Fitted:
    """Maximum a posteriori of slopes, levels and bend, on the answers that are worth showing under them."""
    first = candidates.logits[candidates.rank < BEST]
    middle, spread = float(np.median(first)), float(first.std())
    spread = spread if spread > LEAST_SPREAD else 1.0
    parameters = _Parameters.start(num_predicates)
    scores = np.zeros(len(candidates.logits))
    for number in range(ROUNDS):
        shown = looked_at(scores, candidates.rank)
        some = candidates.of(shown)
        truth = Truth.of(some, scores[shown], missing if number else 0.0)
        standard = (some.logits - middle) / spread
        parameters = parameters.fitted(standard, some.predicate, truth, bent=number >= ROUNDS - BENT)
        slopes = parameters.slopes / spread
        found = Fitted(slopes, parameters.levels - slopes * middle, parameters.bend)
        scores = expit(found.logits(candidates))
    return found


@dataclass(frozen=True)
class _Parameters:
    """[log of the common slope, common level, own part of each log slope, of each level, log of each piece's slope]."""

    values: Float[np.ndarray, " parameter"]
    num_predicates: int

    @classmethod
    def start(cls, num_predicates: int) -> "_Parameters":
        values = np.zeros(2 + 2 * num_predicates + len(KNOTS) + 1)
        values[1] = COMMON_LEVEL
        return cls(values, num_predicates)

    @property
    def slopes(self) -> Float[np.ndarray, " predicate"]:
        return np.asarray(np.exp(self.values[0] + self.values[2 : 2 + self.num_predicates]))

    @property
    def levels(self) -> Float[np.ndarray, " predicate"]:
        return np.asarray(self.values[1] + self.values[2 + self.num_predicates : 2 + 2 * self.num_predicates])

    @property
    def bend(self) -> Bend:
        return Bend(np.exp(self.values[2 + 2 * self.num_predicates :]))

    @property
    def _precisions(self) -> Float[np.ndarray, " parameter"]:
        spreads, size = [COMMON_SLOPE, np.inf, OWN_SLOPE, OWN_LEVEL, PIECE], self.num_predicates
        return np.repeat(np.array(spreads) ** -2.0, [1, 1, size, size, len(KNOTS) + 1])

    def fitted(
        self, logits: Floats, predicate: Int[np.ndarray, " candidate"], truth: Truth, *, bent: bool
    ) -> "_Parameters":
        # Most of the time that all of the models take to load, and needed only at the end of a training.
        from scipy.optimize import minimize  # noqa: PLC0415

        size, true, precisions = self.num_predicates, truth.smoothed, self._precisions

        def loss(values: Float[np.ndarray, " parameter"]) -> tuple[float, Float[np.ndarray, " parameter"]]:
            now = _Parameters(values, size)
            slopes, pieces = now.slopes, now.bend.slopes
            straight = slopes[predicate] * logits + now.levels[predicate]
            found = now.bend(straight)
            surprise = (truth.weights * (np.logaddexp(0, found) - true * found)).sum()
            wrong = truth.weights * (expit(found) - true)
            moved = wrong * pieces[np.searchsorted(KNOTS, straight)]
            by_level = np.bincount(predicate, moved, minlength=size)
            by_slope = np.bincount(predicate, moved * logits, minlength=size) * slopes
            by_piece = bent * (wrong @ lengths(straight)) * pieces
            gradient = np.concatenate([[by_slope.sum(), by_level.sum()], by_slope, by_level, by_piece])
            return float(surprise + 0.5 * (precisions * values**2).sum()), gradient + precisions * values

        most = np.repeat([MOST_LOG, MOST_LEVEL, MOST_LOG, MOST_LEVEL, MOST_LOG], [1, 1, size, size, len(KNOTS) + 1])
        bounds, steps = np.column_stack([-most, most]), {"maxiter": 200}
        found = minimize(loss, self.values, jac=True, method="L-BFGS-B", bounds=bounds, options=steps)
        return _Parameters(found.x, size)
