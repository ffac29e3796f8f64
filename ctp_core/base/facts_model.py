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
from torch import nn

from ctp_core.artifact import Artifact, check_magnitude
from ctp_core.base.calibration import Calibration
from ctp_core.base.config import BaseConfig
from ctp_core.base.deadline import Expired, OutOfTime, never
from ctp_core.base.edges import EdgeList
from ctp_core.base.goals import OPEN, GoalIds, Place
from ctp_core.base.model import Answer, Answers, Budget, Model, Question
from ctp_core.base.training_state import under
from ctp_core.base.unknown_facts import ignore_unknown
from ctp_core.errors import ArtifactError, BadQuestion, CtpError
from ctp_core.kb.knowledge_base import SPLITS, FactIds, FactSet, FactsKB, Kind, KnowledgeBase, distinct_facts
from ctp_core.proofs import Proof
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
    def of(cls, kb: FactsKB, extra: Sequence[Fact] = (), expired: Expired = never) -> "FactsView":
        entities = kb.entities
        added = NO_FACTS
        if extra:
            entities = Vocabulary("entity", (*kb.entities, *(name for f in extra for name in (f.subject, f.object))))
            rows = [(entities.id(f.subject), kb.predicates.id(f.predicate), entities.id(f.object)) for f in extra]
            added = np.array(rows, dtype=np.int64)
        facts, stated = kb.splits.get("train", NO_FACTS), np.concatenate([NO_FACTS, *kb.splits.values(), added])
        if extra:  # a question may repeat itself, or the KB
            facts = distinct_facts(np.concatenate([facts, added]), len(entities), len(kb.predicates))
        return cls(entities, kb.predicates, facts, stated, bool(extra), expired)

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


class FactsModel(Model):
    """Answers by one logit for every fact, whichever place was asked for.

    `logits` and `explain` are what a family has learnt to rank by. Here a calibration makes them logits of
    probabilities: score = sigmoid(slope · logit + level), with the slope and the level of the predicate. Where the best
    proof is the score, `logits` are such scores, shown as they are.
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
        return np.asarray(slopes * self.to_calibrate(logits) + levels)

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
        question, warnings = ignore_unknown(question, self.kb.predicates)
        view = FactsView.of(self.kb, question.facts, lambda: budget.expired) if question.facts else self.kb_view
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
        explanations = self._explain_in_time(view, candidates, logits, question.proofs, budget)
        truncated = len(explanations) < len(candidates)
        explanations += [Explanation()] * (len(candidates) - len(explanations))
        scores, probabilities = self._scores(candidates, logits)
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
        best = self._in_order(candidates, logits, top_k)
        candidates, logits = candidates[best], self.settled(view, candidates[best], logits[best])
        best = self._in_order(candidates, logits, top_k)
        return candidates[best], logits[best]

    def _in_order(self, facts: FactIds, logits: Float[np.ndarray, " fact"], top_k: int) -> Int[np.ndarray, " answer"]:
        return _best(logits if self._shown_as_they_are else self._calibrated(logits, facts), top_k)

    def _scores(
        self, facts: FactIds, logits: Float[np.ndarray, " fact"]
    ) -> tuple[list[float], list[float] | list[None]]:
        """(scores, probabilities); a model that was never calibrated has none of the latter."""
        calibrated = [sigmoid(logit) for logit in self._calibrated(logits, facts).tolist()]
        scores = logits.tolist() if self._shown_as_they_are else calibrated
        return scores, [None] * len(facts) if self.calibration is None else calibrated

    def _explain_in_time(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int, budget: Budget
    ) -> list[Explanation]:
        """Explains the best facts first, as many as there is time for."""
        explained: list[Explanation] = []
        while len(explained) < len(facts) and not budget.expired:
            some = slice(len(explained), len(explained) + EXPLAINED_AT_ONCE)
            try:
                explained += self._explain(view, facts[some], logits[some], num_proofs)
            except OutOfTime:
                break
        return explained

    def _explain(
        self, view: FactsView, facts: FactIds, logits: Float[np.ndarray, " fact"], num_proofs: int
    ) -> list[Explanation]:
        found = self.explain(view, facts, logits, num_proofs)
        lines = zip(*(column.tolist() for column in self.lines(facts)), strict=True)
        return [why.calibrated(*line) for why, line in zip(found, lines, strict=True)]

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


def _best(logits: Float[np.ndarray, " fact"], top_k: int) -> Int[np.ndarray, " answer"]:
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
