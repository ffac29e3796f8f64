"""Fits the weights of rules: each sampled fact against all entities, by sparse products and their exact gradient.

Most rivals of a question are alike: the same rules speak for them equally. Alike rivals are counted, not repeated, so
that a step costs what there is to tell apart, not how many entities a vague rule proposes.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit

from ctp_core.evidence.config import RulesConfig
from ctp_core.evidence.predicate_rules import evidence_of
from ctp_core.rules import Template

INITIAL_WEIGHT = 0.3
MAX_WEIGHT = 30.0  # one proof by a rule of this weight outweighs every KB; more says nothing
MIN_RIVALS = 1e-9  # a question without any rival is won
HIGHEST_LOGIT = 500.0  # exp of more is not a number
MIXERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)  # of splitmix64
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Cells = tuple[Ids, Ids, Ids, Floats]  # question, entity, rule, evidence
NO_CELLS: Cells = (*(np.zeros(0, dtype=np.int64) for _ in range(3)), np.zeros(0))  # type: ignore[assignment]


@dataclass(frozen=True)
class Questions:
    """One direction of the sampled facts. A cell is some entities, alike, for which some rule fires in a question.

    Entities are in groups: of those in one group the same is said, whoever asks.
    """

    features: sparse.csr_array  # [cell, rule]
    question: Int[np.ndarray, " cell"]
    group: Int[np.ndarray, " cell"]
    count: Float[np.ndarray, " cell"]  # of entities
    true: Float[np.ndarray, "question rule"]
    base: sparse.csr_array  # [group, rule]
    size: Float[np.ndarray, " group"]
    excluded: sparse.csr_array  # [question, group]: the number of true answers, which are not rivals

    def logits(self, weights: Floats) -> tuple[Float[np.ndarray, " question"], Float[np.ndarray, " question"]]:
        """(logit of the true answer, log Σ exp of all rivals)."""
        rivals, *_ = self._rivals(weights)
        return np.asarray(self.true @ weights), np.log(rivals)

    def _rivals(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """(Σ exp of the rivals, exp of the base of every group, exp of the evidence in every cell).

        Entities without evidence are counted, not visited.
        """
        base, evidence = _exp(self.base @ weights), _exp(self.features @ weights)
        rivals = self.size @ base - self.excluded @ base
        rivals += np.bincount(self.question, self.count * base[self.group] * (evidence - 1), len(rivals))
        return np.maximum(rivals, MIN_RIVALS), base, evidence

    @cached_property
    def _transposed(self) -> tuple[sparse.csc_array, sparse.csc_array, sparse.csc_array]:
        """`features`, `base` and `excluded`; to transpose a small table takes far longer than to multiply it."""
        return self.features.T, self.base.T, self.excluded.T

    def loss(self, weights: Floats) -> tuple[float, Float[np.ndarray, " rule"]]:
        """-log of the chance of the true answer, and its gradient."""
        rivals, base, evidence = self._rivals(weights)
        by_cell, by_group, excluded = self._transposed
        margin = np.log(rivals) - self.true @ weights
        lost = expit(margin) / len(margin)
        per_rival = lost / rivals
        of_cells = per_rival[self.question] * self.count
        of_base = per_rival.sum() * self.size - excluded @ per_rival
        of_base += np.bincount(self.group, of_cells * (evidence - 1), len(base))
        gradient = by_group @ (of_base * base) - self.true.T @ lost
        gradient += by_cell @ (of_cells * base[self.group] * evidence)
        return float(np.logaddexp(0, margin).mean()), np.asarray(gradient)


def _exp(logits: Floats) -> Floats:
    return np.exp(np.minimum(logits, HIGHEST_LOGIT))


def fit(directions: list[Questions], active: Floats, config: RulesConfig) -> tuple[Floats, float, float]:
    """(weights, bias, loss). Weights are not negative; the bias turns the chance of an answer into a sigmoid.

    The loss is convex: thirty steps of L-BFGS take it lower than hundreds of gradient steps.
    """
    # Takes longer to load than all models, and is needed only in training.
    from scipy.optimize import minimize  # noqa: PLC0415

    penalty = config.sparsity / max(1, len(directions[0].true))

    def objective(weights: Floats) -> tuple[float, Floats]:
        losses = [direction.loss(active * weights) for direction in directions]
        gradient = active * np.sum([one for _, one in losses], axis=0) + penalty
        return sum(loss for loss, _ in losses) + penalty * float(weights.sum()), gradient

    weights = np.full(len(active), INITIAL_WEIGHT)
    if len(active):
        bounds, most = [(0.0, MAX_WEIGHT)] * len(active), {"maxiter": config.steps}
        found = minimize(objective, weights, jac=True, method="L-BFGS-B", bounds=bounds, options=most)
        weights = active * found.x
    bias = -float(np.mean([direction.logits(weights)[1].mean() for direction in directions]))
    return weights, bias, sum(direction.loss(weights)[0] for direction in directions)


def cells_of(question: Ids, entity: Ids, counts: Ids, template: Template, rule: int) -> Cells:
    return question, entity, np.full(len(question), rule), evidence_of(counts, template)


def collect(cells: list[Cells], base: sparse.csr_array, true: Floats, known: sparse.csr_array) -> Questions:
    """Joins the cells of all rules, in any order, into one sparse table of features, without the `known` answers.

    `base` is [entity, rule], `known` [question, entity].
    """
    (num_questions, num_entities), num_rules = known.shape, true.shape[1]
    group, base, size = _grouped(base)
    question, entity, rule, value = (np.concatenate(column) for column in zip(*(cells or [NO_CELLS]), strict=True))
    keys = question.astype(np.int64) * num_entities + entity
    answers = known.tocoo()
    rival = ~_among(keys, np.sort(answers.row.astype(np.int64) * num_entities + answers.col))
    keys, rule, value = keys[rival], rule[rival], value[rival]
    order = np.argsort(keys, kind="stable")
    keys, rule, value = keys[order], rule[order], value[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    question, groups = keys[starts] // max(1, num_entities), group[keys[starts] % max(1, num_entities)]
    # Mixed once more, so that a question is never taken for a rule.
    alike = _sums(_hashes(rule, value), starts) + mixed(_hashes(question, groups.astype(np.float64)))
    _, first, count = np.unique(alike, return_index=True, return_counts=True)
    ends = np.append(starts, len(keys))
    lengths = ends[first + 1] - ends[first]
    entry = np.repeat(ends[first] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    rows = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    features = sparse.csr_array((value[entry], rule[entry], rows), shape=(len(first), num_rules))
    cell = (answers.row, group[answers.col])
    excluded = sparse.csr_array((np.ones(len(answers.row)), cell), shape=(num_questions, len(size)))
    return Questions(features, question[first], groups[first], count.astype(np.float64), true, base, size, excluded)


def _grouped(base: sparse.csr_array) -> tuple[Ids, sparse.csr_array, Floats]:
    """(the group of every entity, [group, rule], entities of each group); of the first group nothing is said."""
    base.sort_indices()
    spoken = np.flatnonzero(np.diff(base.indptr))
    alike = _sums(_hashes(base.indices, base.data), base.indptr[spoken])
    _, first, group = np.unique(alike, return_index=True, return_inverse=True)
    groups = np.zeros(base.shape[0], dtype=np.int64)
    groups[spoken] = 1 + group
    table = sparse.vstack([sparse.csr_array((1, base.shape[1])), base[spoken[first]]]).tocsr()
    return groups, table, np.bincount(groups, minlength=1 + len(first)).astype(np.float64)


def _among(keys: Ids, wanted: Ids) -> NDArray[np.bool_]:
    """Tells which keys are among the sorted ones that are wanted."""
    if not len(wanted):
        return np.zeros(len(keys), dtype=bool)
    return np.asarray(wanted[np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)] == keys)


def _hashes(numbers: NDArray[np.integer], values: Floats) -> Hashes:
    """64 random-looking bits of each (number, value): equal sums of them mean equal rows, but for one chance in 10⁵."""
    return mixed(values.view(np.uint64) ^ (numbers.astype(np.uint64) * MIXERS[0]))


def mixed(bits: Hashes) -> Hashes:
    """Spreads what distinguishes numbers over all of their bits."""
    bits = bits + MIXERS[0]
    bits = (bits ^ (bits >> np.uint64(30))) * MIXERS[1]
    bits = (bits ^ (bits >> np.uint64(27))) * MIXERS[2]
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def _sums(hashes: Hashes, starts: NDArray[np.integer]) -> Hashes:
    return np.add.reduceat(hashes, starts) if len(starts) else np.zeros(0, dtype=np.uint64)
