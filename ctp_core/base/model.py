"""What every model can do: answer questions, list its rules, be saved and loaded."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch

from ctp_core.artifact import Artifact
from ctp_core.base.config import BaseConfig
from ctp_core.base.progress import OnPart, unheard
from ctp_core.errors import BadQuestion, CtpError
from ctp_core.kb.knowledge_base import Kind, KnowledgeBase
from ctp_core.proofs import Proof
from ctp_core.rules import Rule
from ctp_core.symbols import Fact, Goal

# Where a score comes from: the shares of all proofs, added up; the best proof alone; or a model that has no proofs.
Scoring = Literal["evidence", "best_proof", "no_proofs"]


@dataclass(frozen=True)
class Question:
    """A goal with at most one open place. `facts` hold for this question only and may name new entities.

    Facts of `without` are left out, as if nobody had stated them.
    """

    goal: Goal
    facts: tuple[Fact, ...] = ()
    top_k: int = 10
    proofs: int = 3
    depth: int | None = None
    exclude_known: bool = False
    without: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Answer:
    """A fact with its score in [0, 1]; `score_parts` only in models that add evidence (logit scale).

    `probability`: the chance that the fact is true. The score itself in models that add evidence; beside the score in
    models whose score is that of their best proof; None where the model was never calibrated.
    """

    fact: Fact
    score: float
    known: bool
    proofs: tuple[Proof, ...] = ()
    score_parts: dict[str, float | int | None] | None = None
    probability: float | None = None


@dataclass(frozen=True)
class Answers:
    """Best first. `truncated` says that the budget ended before the search did.

    `warnings` say what of the question was ignored.
    """

    items: tuple[Answer, ...]
    truncated: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Budget:
    """Wall time that a batch of questions may take; searches look at it and return what they have."""

    seconds: float = float("inf")
    started: float = field(default_factory=time.monotonic)

    @property
    def expired(self) -> bool:
        return time.monotonic() - self.started > self.seconds

    def used(self, share: float) -> bool:
        """Whether this share of the time is over: what must come later needs the rest."""
        return self.expired or time.monotonic() - self.started > share * self.seconds


class Model(ABC):
    """A trained model with the facts it stands on: all that is needed to answer, anywhere."""

    kind: ClassVar[Kind]
    scoring: ClassVar[Scoring]
    config: BaseConfig

    @property
    def explainable(self) -> bool:
        """Whether its answers have proofs."""
        return self.config.explainable

    @property
    def semiring(self) -> str | None:
        """What ⊗ and ⊕ are where the best proof is the score; None in other models, which have no semiring."""
        return None

    @abstractmethod
    def answer(self, questions: Sequence[Question], budget: Budget) -> list[Answers | CtpError]:
        """One entry per question, in order; a question that cannot be asked gets its error instead of an answer."""

    @property
    def own_metrics(self) -> dict[str, float]:
        """Validation figures that belong to the finished model rather than to an epoch of its training."""
        return {}

    def on(self, kb: KnowledgeBase) -> "Model":
        """The same model, applied to the facts of another KB; raises BadQuestion where it cannot be."""
        raise BadQuestion(
            f"a model of method {self.config.method!r} answers only on the KB it was trained on, not on a {kb.kind} KB"
        )

    @abstractmethod
    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        """Decoded rules, best first, with support and precision over the KB; `on_part` hears how many are counted."""

    @abstractmethod
    def to_artifact(self) -> Artifact:
        """Everything: config, symbols, facts and tensors."""

    @classmethod
    @abstractmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "Model":
        """The same model again; raises ArtifactError where the artifact does not fit."""
