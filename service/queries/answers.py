"""What `POST /query` answers, as its document describes it: the answer itself is bytes that a worker has written."""

from typing import Literal

from pydantic import BaseModel, Field

from service.http.codes import Problem
from service.queries.schemas import GoalIn


class FactPlaces(BaseModel):
    """A fact."""

    subject: str
    predicate: str
    object: str


class UnificationOut(BaseModel):
    """Two names that met, and how well."""

    left: str
    right: str
    score: float
    approximate: bool = Field(description="Whether `left` is the name nearest to a generated vector.")


class UsedRule(BaseModel):
    """The rule of a step of a proof."""

    id: str
    text: str
    confidence: float


class NodeOut(BaseModel):
    """A goal and how it was proved: by a fact, or by a rule whose body its children prove."""

    goal: FactPlaces
    score: float
    by: Literal["fact", "rule"]
    rule: UsedRule | None
    bindings: dict[str, str] | None = Field(description="What the variables of the rule stand for.")
    fact: FactPlaces | None
    unifications: list[UnificationOut]
    children: list["NodeOut"]


class ProofOut(BaseModel):
    """A proof of an answer."""

    score: float
    share: float | None = Field(description="Its part of the logit, in models that add evidence.")
    text: str
    tree: NodeOut


class AnswerOut(FactPlaces):
    """A fact that answers a goal."""

    score: float
    probability: float | None = Field(description="null for a model that was never calibrated.")
    rank: int
    known: bool = Field(description="Whether the KB states it.")
    score_parts: dict[str, float | None] | None = Field(description="What adds up to the logit of the score.")
    proofs: list[ProofOut]


class AnswersOut(BaseModel):
    """The answers to a goal, best first; of a goal that cannot be asked nothing but its problem."""

    explainable: bool | None = Field(None, description="Whether the model has proofs.")
    scoring: str | None = Field(None, description="`evidence`, `best_proof` or `no_proofs`.")
    semiring: str | None = None
    truncated: bool | None = Field(None, description="Whether the time was over before the search.")
    warnings: list[str] | None = Field(None, description="What of the question was ignored.")
    answers: list[AnswerOut] | None = None


class ResultOut(AnswersOut):
    """What became of one of many goals."""

    goal: GoalIn
    problem: Problem | None = Field(None, description="Why this goal has no answers; the others may have.")


class ProvedAtomOut(BaseModel):
    """A fact that an answer to `where` rests on."""

    fact: FactPlaces
    score: float = Field(description="Its probability; 1 minus that where it is negated, 1 where it is stated.")
    negated: bool
    stated: bool = Field(description="Whether the KB or the question states it: then it is its own proof.")
    proofs: list[ProofOut]


class LogicalAnswerOut(BaseModel):
    """An answer to `where`."""

    bindings: dict[str, str] = Field(description="What the selected variables stand for.")
    score: float
    rank: int
    atoms: list[ProvedAtomOut] = Field(description="In the order of the question.")


class StepOut(BaseModel):
    """A step of the plan of a logical question."""

    variable: str
    checks: list[str] = Field(description="The formulas all of whose variables are bound from then on.")
    candidates: float = Field(description="How many entities the KB states for the variable, as estimated.")
    partial_answers: float


class NearMissOut(BaseModel):
    """A rule that lacks one fact."""

    rule: UsedRule
    stated: list[FactPlaces]
    missing: FactPlaces
    score_then: float = Field(description="The score if the missing fact were stated.")


class ChangeOut(BaseModel):
    """Facts without which the score is below the threshold."""

    facts: list[FactPlaces]
    score_then: float
    smallest: bool = Field(description="Whether no smaller set of facts does it.")
    reason: Literal["below_threshold", "rests_on_no_facts", "rests_on_more", "out_of_time"] | None


class ExplanationOut(BaseModel):
    """Why a fact has its score, which rules almost prove it, and what would change it."""

    model_id: str
    elapsed_ms: float
    explainable: bool
    scoring: str
    semiring: str | None
    truncated: bool
    warnings: list[str]
    threshold: float
    why: AnswerOut | None = Field(description="null where time was over.")
    why_not: list[NearMissOut]
    what_would_change_it: ChangeOut


class QueryOut(AnswersOut):
    """`answers` to the `goal` or to `where`, or `results`, one for each of the `goals`."""

    model_id: str
    answers: list[AnswerOut] | list[LogicalAnswerOut] | None = None  # type: ignore[assignment]  # a union of both
    exact: bool | None = Field(None, description="Of `where`: whether no candidate was left out.")
    width: int | None = Field(None, description="Of `where`: how many candidates of a variable were tried at most.")
    plan: list[StepOut] | None = Field(None, description="Of `where` with `explain`: in which order it was answered.")
    elapsed_ms: float
    results: list[ResultOut] | None = Field(None, description="In the order of the goals.")
