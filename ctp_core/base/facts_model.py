"""What all models on one KB of facts share: reading a question, ranking its candidates, the KB in the artifact."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.special import expit
from torch import nn

from ctp_core.artifact import Artifact, check_magnitude
from ctp_core.base.calibration import Calibration
from ctp_core.base.config import BaseConfig
from ctp_core.base.deadline import Expired, OutOfTime, never
from ctp_core.base.edges import EdgeList
from ctp_core.base.goals import OPEN, GoalIds, Place
from ctp_core.base.model import Answer, Answers, Budget, Model, Question
from ctp_core.base.training_state import under
from ctp_core.base.unknown_facts import usable_facts
from ctp_core.errors import ArtifactError, BadQuestion, CtpError
from ctp_core.kb.knowledge_base import SPLITS, FactIds, FactSet, FactsKB, Kind, KnowledgeBase, distinct_facts
from ctp_core.proofs import Proof
from ctp_core.rules import Rule
from ctp_core.symbols import Fact, Vocabulary

Config = TypeVar("Config", bound=BaseConfig)

EXPLAINED_AT_ONCE = 10  # answers explained between two looks at the clock
PROBABILITIES = "probabilities"  # in the manifest
NO_FACTS = np.zeros((0, 3), dtype=np.int64)


@dataclass(frozen=True)
class FactsView:
    """The facts a question is asked against: the KB's, or the KB's and the question's own with its new entities."""

    entities: Vocabulary
    predicates: Vocabulary
    facts: FactIds  # what a proof may stand on, each once
    stated: FactIds  # what the KB states in any split, or the question: all these are known
    extended: bool
    expired: Expired = never  # looked at by searches whose length depends on the question's own facts

    @classmethod
    def of(
        cls, kb: FactsKB, extra: Sequence[Fact] = (), expired: Expired = never, without: Sequence[Fact] = ()
    ) -> "FactsView":
        """`extra` facts hold beside those of the KB, those of `without` are left out, also where the KB states them."""
        entities = kb.entities
        added = NO_FACTS
        if extra:
            entities = Vocabulary("entity", (*kb.entities, *(name for f in extra for name in (f.subject, f.object))))
            rows = [(entities.id(f.subject), kb.predicates.id(f.predicate), entities.id(f.object)) for f in extra]
            added = np.array(rows, dtype=np.int64)
        facts, stated = kb.splits.get("train", NO_FACTS), np.concatenate([NO_FACTS, *kb.splits.values(), added])
        if extra:  # a question may repeat itself, or the KB
            facts = distinct_facts(np.concatenate([facts, added]), len(entities), len(kb.predicates))
        if without:
            removed = FactSet(known_ids(without, entities, kb.predicates), len(entities), len(kb.predicates))
            facts, stated = facts[~removed.states(facts)], stated[~removed.states(stated)]
        return cls(entities, kb.predicates, facts, stated, bool(extra or without), expired)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many entities and predicates there are."""
        return len(self.entities), len(self.predicates)

    @cached_property
    def edges(self) -> EdgeList:
        return EdgeList(self.facts, *self.sizes)

    @cached_property
    def _known(self) -> FactSet:
        return FactSet(self.stated, *self.sizes)

    def known(self, facts: FactIds) -> NDArray[np.bool_]:
        return self._known.states(facts)

    def fact(self, subject: int, predicate: int, object_: int) -> Fact:
        names = self.entities.names
        return Fact(names[subject], self.predicates.names[predicate], names[object_])


def known_ids(facts: Sequence[Fact], entities: Vocabulary, predicates: Vocabulary) -> FactIds:
    """The ids of those facts whose names are all known."""
    rows = [
        (entities.id(fact.subject), predicates.id(fact.predicate), entities.id(fact.object))
        for fact in facts
        if fact.subject in entities and fact.predicate in predicates and fact.object in entities
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


@dataclass(frozen=True)
class Explanation:
    """Why one answer has its score."""

    proofs: tuple[Proof, ...] = ()
    score_parts: dict[str, float | int | None] | None = None

    def calibrated(self, slope: float, level: float) -> "Explanation":
        """Folds a slope and a level into all parts, so that they still add up to the logit of the score."""
        if self.score_parts is None:
            return self
        parts = {
            name: value if value is None or name == "num_proofs" else slope * value + (level if name == "bias" else 0)
            for name, value in self.score_parts.items()
        }
        proofs = (proof._replace(share=None if proof.share is None else slope * proof.share) for proof in self.proofs)
        return Explanation(tuple(proofs), parts)

    @property
    def bias(self) -> float:
        """The part of the score that no proof has a share in."""
        return (self.score_parts or {}).get("bias") or 0.0

    def stretched(self, bias: float, factor: float) -> "Explanation":
        """The same parts from another bias on, all but the bias multiplied by a factor."""
        return self.calibrated(factor, bias - factor * self.bias)


class FactsModel(Model):
    """Answers by one logit for every fact, whichever place was asked for.

    `logits` and `explain` are what a family has learnt to rank by. Here a calibration makes them logits of
    probabilities: score = sigmoid(bend(slope · logit + level)), with the slope and the level of the predicate. Where
    the best proof is the score, `logits` are such scores, shown as they are.
    """

    kind: ClassVar[Kind] = "facts"
    kb: FactsKB
    calibration: Calibration | None = None  # None in artifacts of earlier versions: sigmoid(logit)

    @abstractmethod
    def logits(self, view: FactsView, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        """The logits of all that could stand in the open place: entities or predicates; of a whole fact, its own.

        Raises OutOfTime once the view has expired, in families that look.
        """

    def kb_logits(self, goals: GoalIds) -> Float[np.ndarray, "goal candidate"]:
        """`logits` against the KB alone, without facts of a question: what ranking and calibration need."""
        return self.logits(self.kb_view, goals)

    def settled(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"]
    ) -> Float[np.ndarray, " fact"]:
        """The logits of answers that are shown, where those by which they were found are not yet those of the facts.

        Raises OutOfTime once the view has expired, in families that look.
        """
        del view, facts
        return logits

    @abstractmethod
    def explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        """Proofs (at most `num_proofs`) and parts of the score of each fact."""

    def to_calibrate(self, logits: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """What the slope of the calibration applies to, on the scale of a logit."""
        return logits

    def calibrated_by(self, calibration: Calibration | None) -> Self:
        """This model with another calibration."""
        self.calibration = calibration
        return self

    @property
    def _shown_as_they_are(self) -> bool:
        return self.scoring == "best_proof"

    @property
    def own_metrics(self) -> dict[str, float]:
        ece = None if self.calibration is None else self.calibration.ece
        return {} if ece is None else {"ece": ece}

    def lines(self, facts: FactIds) -> tuple[Float[np.ndarray, " fact"], Float[np.ndarray, " fact"]]:
        """(slope, level) of each fact."""
        return lines_of(self.calibration, facts)

    def _calibrated(self, logits: Float[np.ndarray, " fact"], facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logits of the probabilities of facts."""
        slopes, levels = self.lines(facts)
        return self.bent(np.asarray(slopes * self.to_calibrate(logits) + levels), facts)

    def bent(self, straight: Float[np.ndarray, " fact"], facts: FactIds) -> Float[np.ndarray, " fact"]:
        """The logits of the probabilities of facts, from those that slope and level make."""
        assert len(straight) == len(facts)
        return straight if self.calibration is None else self.calibration.bend(straight)

    @cached_property
    def kb_view(self) -> FactsView:
        return FactsView.of(self.kb)

    def answer(self, questions: Sequence[Question], budget: Budget) -> list[Answers | CtpError]:
        return [self._answer_or_error(question, budget) for question in questions]

    def _answer_or_error(self, question: Question, budget: Budget) -> Answers | CtpError:
        if budget.expired:
            return Answers((), truncated=True)
        try:
            with torch.no_grad():
                return self._answer(question, budget)
        except CtpError as error:
            return error

    def _answer(self, question: Question, budget: Budget) -> Answers:
        view, warnings = self.view_of(question.facts, question.without, budget)
        goal = replace(_goal(question, view), new_only=question.exclude_known)
        try:
            candidates, logits = goal.candidates(*view.sizes), self.logits(view, goal)[0]
        except OutOfTime:
            return Answers((), truncated=True, warnings=warnings)
        if question.exclude_known:
            kept = ~view.known(candidates)
            candidates, logits = candidates[kept], logits[kept]
        try:
            candidates, logits = self._shown(view, candidates, logits, question.top_k)
        except OutOfTime:
            return Answers((), truncated=True, warnings=warnings)
        explanations = self.explain_in_time(view, candidates, logits, question.proofs, budget)
        truncated = len(explanations) < len(candidates)
        explanations += [Explanation()] * (len(candidates) - len(explanations))
        scores, probabilities = self.shown_scores(candidates, logits)
        known = view.known(candidates).tolist()
        rows = zip(candidates.tolist(), scores, known, explanations, probabilities, strict=True)
        return Answers(
            tuple(
                Answer(view.fact(*fact), score, stated, why.proofs, why.score_parts, probability)
                for fact, score, stated, why, probability in rows
            ),
            truncated,
            warnings,
        )

    def _shown(
        self, view: FactsView, candidates: FactIds, logits: Float[np.ndarray, " candidate"], top_k: int
    ) -> tuple[FactIds, Float[np.ndarray, " fact"]]:
        """The best candidates in order, with their logits."""
        best = best_first(self.ranked(logits, candidates), top_k)
        candidates, logits = candidates[best], self.settled(view, candidates[best], logits[best])
        best = best_first(self.ranked(logits, candidates), top_k)
        return candidates[best], logits[best]

    def view_of(
        self, facts: Sequence[Fact], without: Sequence[Fact], budget: Budget
    ) -> tuple[FactsView, tuple[str, ...]]:
        """The facts that a question is asked against, and warnings about those it brings that change nothing.

        Raises UnknownSymbol where it brings facts, but none that the model can use.
        """
        if not facts and not without:
            return self.kb_view, ()
        kept, warnings = usable_facts(facts, self.kb.predicates)
        view = FactsView.of(self.kb, kept, lambda: budget.expired, without)
        return view, (*warnings, *self._not_there(without))

    def _not_there(self, without: Sequence[Fact]) -> tuple[str, ...]:
        """One warning for the facts of `without` that the KB does not state."""
        known = known_ids(without, self.kb.entities, self.kb.predicates)
        stated = {self.kb_view.fact(*row) for row in known[self.kb_view.known(known)].tolist()}
        missing = [fact for fact in without if fact not in stated]
        if not missing:
            return ()
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return (f"`without`: the KB does not state {missing[0]}{more}, so that leaving it out changes nothing",)

    def ranked(self, logits: Float[np.ndarray, " fact"], facts: FactIds) -> Float[np.ndarray, " fact"]:
        """What answers are ordered by: their score, or the logit of their probability."""
        return logits if self._shown_as_they_are else self._calibrated(logits, facts)

    def least_ranked(self, score: float) -> float:
        """What `ranked` is of a fact with this score."""
        if self._shown_as_they_are:
            return score
        return math.log(score / (1 - score)) if 0 < score < 1 else math.copysign(math.inf, score - 0.5)

    def shown_scores(
        self, facts: FactIds, logits: Float[np.ndarray, " fact"]
    ) -> tuple[list[float], list[float] | list[None]]:
        """(scores, probabilities); a model that was never calibrated has none of the latter."""
        calibrated = [sigmoid(logit) for logit in self._calibrated(logits, facts).tolist()]
        scores = logits.tolist() if self._shown_as_they_are else calibrated
        return scores, [None] * len(facts) if self.calibration is None else calibrated

    def rules_of(self, predicate: int) -> list[Rule]:
        """The rules with this head, best first."""
        return [rule for rule in self.rules() if rule.predicate == self.kb.predicates.names[predicate]]

    def probabilities(self, facts: FactIds, logits: Float[np.ndarray, " fact"]) -> Float[np.ndarray, " fact"]:
        """The chance that each fact is true, given its logit; of a model that was never calibrated its score."""
        if self.calibration is None and self._shown_as_they_are:
            return np.asarray(np.clip(np.nan_to_num(logits), 0.0, 1.0))
        return np.asarray(np.nan_to_num(expit(self._calibrated(logits, facts))))

    def explain_in_time(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int, budget: Budget
    ) -> list[Explanation]:
        """Explains the best facts first, as many as there is time for."""
        explained: list[Explanation] = []
        while len(explained) < len(facts) and not budget.expired:
            some = slice(len(explained), len(explained) + EXPLAINED_AT_ONCE)
            try:
                explained += self.explained(view, facts[some], logits[some], num_proofs)
            except OutOfTime:
                break
        return explained

    def explained(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        """`explain`, on the scale of the calibrated scores."""
        found = self.explain(view, facts, logits, num_proofs)
        lines = zip(*(column.tolist() for column in self.lines(facts)), strict=True)
        straight = [why.calibrated(*line) for why, line in zip(found, lines, strict=True)]
        if self.calibration is None or self.calibration.bend.straight:
            return straight
        return self._bent(straight, facts, logits)

    def _bent(self, found: list[Explanation], facts: FactIds, logits: Float[np.ndarray, " fact"]) -> list[Explanation]:
        """The bias bent as the logit of an answer without proofs is; all else stretched so that it leads to the score.

        The factor of an answer lies between the least and the greatest slope of the bend.
        """
        slopes, levels = self.lines(facts)
        biases, ends = np.array([why.bias for why in found]), slopes * self.to_calibrate(logits) + levels
        starts, lengths = self.bent(biases, facts), ends - biases
        factors = np.where(lengths, (self.bent(ends, facts) - starts) / np.where(lengths, lengths, 1), 1)
        rows = zip(found, starts.tolist(), factors.tolist(), strict=True)
        return [why.stretched(start, factor) for why, start, factor in rows]

    def _base_artifact(self, tensors: dict[str, torch.Tensor], **manifest: Any) -> Artifact:
        facts = {f"facts.{name}": torch.from_numpy(ids) for name, ids in self.kb.splits.items()}
        symbols = {"entities": list(self.kb.entities), "predicates": list(self.kb.predicates)}
        config = self.config.model_dump(mode="json")
        # Always there, also where it is null: a part of a hybrid must not inherit that of the whole.
        manifest[PROBABILITIES] = None if self.calibration is None else self.calibration.values()
        return Artifact({"kind": "facts", "config": config, **symbols, **manifest}, {**facts, **tensors})


def lines_of(
    calibration: Calibration | None, facts: FactIds
) -> tuple[Float[np.ndarray, " fact"], Float[np.ndarray, " fact"]]:
    """(slope, level) of each fact by a calibration; without one, logits stay as they are."""
    if calibration is None:
        return np.ones(len(facts)), np.zeros(len(facts))
    return calibration.slopes[facts[:, 1]], calibration.levels[facts[:, 1]]


def sigmoid(logit: float) -> float:
    """1 / (1 + exp(-logit)), without overflow at either end and exact for small scores."""
    odds = math.exp(-abs(logit))
    return (1.0 if logit >= 0 else odds) / (1 + odds)


def best_first(logits: Float[np.ndarray, " fact"], top_k: int) -> Int[np.ndarray, " answer"]:
    """Indices of the highest logits, best first; ties in the order of the candidates."""
    if top_k < len(logits):
        threshold = np.partition(logits, len(logits) - top_k)[len(logits) - top_k]
        above = np.flatnonzero(logits >= threshold)
        return above[np.argsort(-logits[above], kind="stable")][:top_k]
    return np.argsort(-logits, kind="stable")


def _goal(question: Question, view: FactsView) -> GoalIds:
    """One goal; raises UnknownSymbol or BadQuestion."""
    if question.goal.count(None) > 1:
        raise BadQuestion("a goal has at most one open place: give two of subject, predicate and object")
    vocabularies = (view.entities, view.predicates, view.entities)
    named = zip(question.goal, vocabularies, strict=True)
    ids = [OPEN if name is None else vocabulary.id(name) for name, vocabulary in named]
    return GoalIds(np.array([ids]), Place(ids.index(OPEN)) if OPEN in ids else None)


def facts_about(kb: KnowledgeBase, predicates: Vocabulary) -> FactsKB:
    """The facts of a KB whose predicates are known, numbered as the model numbers them; raises BadQuestion on none."""
    if not isinstance(kb, FactsKB):
        raise BadQuestion("a model of facts cannot be applied to a KB of graphs")
    numbers = np.array([predicates.id(name) if name in predicates else -1 for name in kb.predicates], dtype=np.int64)
    splits = {}
    for split, ids in kb.splits.items():
        known = ids[numbers[ids[:, 1]] >= 0]
        splits[split] = np.column_stack([known[:, 0], numbers[known[:, 1]], known[:, 2]])
    if not any(map(len, splits.values())):
        raise BadQuestion("the other KB has no predicate that this model knows")
    return FactsKB(kb.entities, predicates, splits)


def read_kb(artifact: Artifact) -> FactsKB:
    """The KB that `_base_artifact` stored; raises ArtifactError."""
    try:
        entities = Vocabulary("entity", artifact.manifest["entities"])
        predicates = Vocabulary("predicate", artifact.manifest["predicates"])
        splits = {s: artifact.tensors[f"facts.{s}"].numpy() for s in SPLITS if f"facts.{s}" in artifact.tensors}
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"the artifact of a model of facts has no {error}") from None
    return FactsKB(entities, predicates, splits)


def read_config(artifact: Artifact, config: type[Config]) -> Config:
    """The config of this class that a model stored; raises ArtifactError, also where it is of another method."""
    try:
        return config.stored(artifact.manifest["config"])
    except (KeyError, ValueError) as error:
        raise ArtifactError(f"the artifact holds no config of this version: {error}") from None


def load_state(module: nn.Module, name: str, artifact: Artifact) -> None:
    """Loads the tensors that were stored under `name`; raises ArtifactError where they do not fit."""
    try:
        module.load_state_dict(under(f"{name}.", artifact))
    except RuntimeError as error:
        raise ArtifactError(f"the tensors do not fit the config: {error}") from None


def read_probabilities(artifact: Artifact) -> Calibration | None:
    """What makes probabilities of the scores of this model; raises ArtifactError."""
    return Calibration.read(artifact.manifest.get(PROBABILITIES), len(artifact.manifest["predicates"]))


def read_calibration(artifact: Artifact) -> tuple[float, float]:
    """(scale, offset) of the logits of an embedding or a walker; raises ArtifactError."""
    try:
        calibration = artifact.manifest["calibration"]
        scale, offset = float(calibration["scale"]), float(calibration["offset"])
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"the artifact of a calibrated model has no {error}") from None
    check_magnitude("the scale and the offset", scale, offset)
    return scale, offset
