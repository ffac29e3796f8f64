"""What the calls return. Fields that a newer service adds are kept and do no harm."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")
FINISHED = ("succeeded", "failed", "cancelled")


class Wire(BaseModel):
    """Frozen, and open for fields that this client does not know yet."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())


class Page(Wire, Generic[T]):
    """A piece of a list."""

    items: list[T]
    next_cursor: str | None = None


class Kb(Wire):
    """A knowledge base and what is in it."""

    id: str
    name: str
    kind: str
    num_facts: int
    num_entities: int
    num_predicates: int
    splits: dict[str, int]
    sha256: str
    warnings: list[str]
    sample: bool
    created_at: datetime


class Fact(Wire):
    """A predicate that holds between a subject and an object."""

    subject: str
    predicate: str
    object: str

    def __str__(self) -> str:
        return f"{self.predicate}({self.subject}, {self.object})"


class FactRow(Fact):
    """A fact of a KB and the split it is in."""

    split: str


class Symbol(Wire):
    """A name and the number of facts it occurs in."""

    name: str
    num_facts: int


class Format(Wire):
    """A format of files; a name that ends in one of `suffixes` is taken for it."""

    name: str
    title: str
    text: str
    kind: str
    suffixes: list[str]
    writable: bool


class Forecast(Wire):
    """What a training is expected to cost; `basis` says what the figures rest on."""

    cpu_seconds: float
    peak_bytes: int
    basis: str = ""

    def __str__(self) -> str:
        """In words: `about 40 s, 0.6 GB`."""
        return f"about {_duration(self.cpu_seconds)}, {self.peak_bytes / 1e9:.1f} GB"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(1, round(seconds, -1 if seconds >= 20 else 0)):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


class Preset(Wire):
    """A preset and the settings it means for a KB; `methods` can be trained on it. The texts are for people."""

    name: str
    text: str = ""
    default: bool = False
    config: dict[str, Any]
    forecast: Forecast | None = None
    methods: list[str] = []
    method_texts: dict[str, str] = {}
    setting_texts: dict[str, str] = {}


class Job(Wire):
    """A training, an evaluation or a prediction, and how far it is."""

    id: str
    type: str = "train"
    status: str
    model_id: str
    model: str = ""
    kb_id: str
    attempt: int
    forecast: Forecast | None = None
    progress: dict[str, Any]
    waiting_for: str | None = None
    error: dict[str, Any] | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def finished(self) -> bool:
        return self.status in FINISHED


class Group(Wire):
    """The figures of some of the questions of an evaluation."""

    name: str
    num_items: int
    metrics: dict[str, float]


class Bin(Wire):
    """Answers whose probabilities lie between two tenths, and the share of them that is true."""

    low: float
    high: float
    answers: float
    score: float
    true: float


class Reliability(Wire):
    """How far probabilities are from the share of answers that is true."""

    ece: float
    bins: list[Bin]


class Evaluation(Wire):
    """The figures of a model on a split; lists hold `metrics` alone, and all are empty until it has succeeded."""

    id: str
    status: str
    model_id: str
    model: str
    kb_id: str
    kb: str | None
    split: str
    limit: int | None
    metrics: dict[str, float]
    progress: dict[str, Any]
    error: dict[str, Any] | None
    num_items: int | None = None
    num_available: int | None = None
    num_left_out: int | None = None
    by_predicate: list[Group] = []
    by_direction: list[Group] = []
    by_length: list[Group] = []
    unseen: Group | None = None
    calibration: Reliability | None = None
    created_at: datetime
    finished_at: datetime | None

    @property
    def finished(self) -> bool:
        return self.status in FINISHED


class Prediction(Wire):
    """A prediction in bulk, whose rows can be downloaded when it has succeeded."""

    id: str
    status: str
    model_id: str
    model: str
    kb_id: str
    kb: str | None
    predicate: str
    num_subjects: int | None
    num_objects: int | None
    min_score: float
    top_k_per_question: int
    proofs: int
    exclude_known: bool
    format: str
    num_questions: int | None
    num_rows: int | None
    num_bytes: int | None
    truncated: bool | None
    stopped_by: str | None
    expires_at: datetime | None
    progress: dict[str, Any]
    error: dict[str, Any] | None
    created_at: datetime
    finished_at: datetime | None

    @property
    def finished(self) -> bool:
        return self.status in FINISHED


class ModelRef(Wire):
    """The version that a job will fill."""

    id: str
    name: str
    version: int
    status: str


class Training(Wire):
    """An accepted training: the job to follow, the version it will fill."""

    job: Job
    model: ModelRef


class Event(Wire):
    """One message of a job's event stream."""

    id: str
    event: str
    data: dict[str, Any]


class Lineage(Wire):
    """What a version was made from."""

    kb_id: str | None
    kb_name: str | None = None
    kb_sha256: str
    code_version: str
    seed: int | None = None
    job_id: str | None = None


class Trial(Wire):
    """Settings that were tried on the KB before training: what they reached, what they cost, and whether they won."""

    settings: dict[str, Any]
    metric: str
    value: float
    cpu_seconds: float
    chosen: bool = False


class Model(ModelRef):
    """One version of a model."""

    kind: str
    method: str
    explainable: bool = True
    preset: str | None
    config: dict[str, Any]
    metrics: dict[str, Any]
    trials: list[Trial] = Field(default_factory=list)
    tags: dict[str, Any]
    aliases: list[str]
    lineage: Lineage
    created_at: datetime
    ready_at: datetime | None

    @property
    def reference(self) -> str:
        """The name that always means this version."""
        return f"{self.name}@{self.version}"

    @property
    def variant(self) -> str:
        """The method, with what tells `ntp` from `ctp` and one encoding from the other."""
        kinds = (self.config.get(setting) for setting in ("select", "encoding"))
        return " ".join((self.method, *(kind for kind in kinds if kind)))


class Epoch(Wire):
    """Loss and validation metrics of one epoch."""

    epoch: int
    loss: float | None
    metrics: dict[str, Any]


class Atom(Wire):
    """A predicate over two arguments: variables, or entities in quotes."""

    predicate: str
    subject: str
    object: str


class Rule(Wire):
    """A learnt rule: confidence, support and precision as counted over the KB, weight as the model has it."""

    id: str
    head: Atom
    body: list[Atom]
    text: str
    confidence: float
    template: str
    support: int | None
    precision: float | None
    approximate: bool = False
    weight: float | None = None
    prior: bool = False


class Goal(Wire):
    """A fact with at most one place open."""

    subject: str | None = None
    predicate: str | None = None
    object: str | None = None


class Unification(Wire):
    """Two names that met, and how well."""

    left: str
    right: str
    score: float
    approximate: bool = False


class Node(Wire):
    """One goal of a proof and how it was proved; `bindings` say what the variables of the rule stand for."""

    goal: Fact
    score: float
    by: str
    rule: dict[str, Any] | None = None
    bindings: dict[str, str] | None = None
    fact: Fact | None = None
    unifications: list[Unification] = Field(default_factory=list)
    children: list["Node"] = Field(default_factory=list)

    def nodes(self) -> Iterator["Node"]:
        yield self
        for child in self.children:
            yield from child.nodes()


class Proof(Wire):
    """Why an answer holds."""

    score: float
    text: str
    tree: Node
    share: float | None = None


class Answer(Fact):
    """A fact with its score, and the proofs it rests on. `probability` is None in models that were not calibrated."""

    score: float
    probability: float | None = None
    rank: int
    known: bool
    proofs: list[Proof]
    score_parts: dict[str, Any] | None = None


class ProvedAtom(Wire):
    """A fact that an answer rests on; where it is `negated`, the score is 1 minus its probability.

    `stated` facts are their own proof.
    """

    fact: Fact
    score: float
    negated: bool
    stated: bool
    proofs: list[Proof]


class LogicalAnswer(Wire):
    """What the variables stand for, and the atoms in the order of the question."""

    bindings: dict[str, str]
    score: float
    rank: int
    atoms: list[ProvedAtom]


class LogicalAnswers(Wire):
    """Best first. `exact` where no candidate was left out: then these are the best answers there are."""

    model_id: str
    elapsed_ms: float
    answers: list[LogicalAnswer]
    explainable: bool = True
    scoring: str = ""
    semiring: str | None = None
    truncated: bool = False
    exact: bool = True
    width: int = 0
    warnings: list[str] = []
    plan: list[dict[str, Any]] | None = None


class NearMiss(Wire):
    """A rule that lacks one fact, and the score if that fact were stated."""

    rule: dict[str, Any]
    stated: list[Fact]
    missing: Fact
    score_then: float


class Change(Wire):
    """Facts without which the score is below the threshold; none where `reason` says why there are none."""

    facts: list[Fact]
    score_then: float
    smallest: bool
    reason: str | None = None


class Explanation(Wire):
    """Why a fact has its score (None where time was over), which rules almost prove it, and what would change it."""

    model_id: str
    elapsed_ms: float
    threshold: float
    why: Answer | None
    why_not: list[NearMiss]
    what_would_change_it: Change
    explainable: bool = True
    scoring: str = ""
    semiring: str | None = None
    truncated: bool = False
    warnings: list[str] = []


class Answers(Wire):
    """Best first.

    `scoring` is `evidence` where the shares of all proofs add up, `best_proof` where the best one is the score, and
    `no_proofs` where there are none. `semiring` says how the steps of the best proof combine, and is None elsewhere.
    """

    model_id: str
    elapsed_ms: float
    answers: list[Answer]
    explainable: bool = True
    scoring: str = ""
    semiring: str | None = None
    truncated: bool = False
    warnings: list[str] = []
