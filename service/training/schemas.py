"""Requests and answers about training."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ctp_core.base.config import MAX_SEED
from ctp_core.kb.holdout import Holdout
from ctp_core.methods import method_texts
from ctp_core.presets import DEFAULT_PRESET, PRESETS
from service.http.timestamps import Timestamp
from service.models.schemas import Tags
from service.queue import PRIORITIES

MAX_SEEDS = 32
MAX_SETTINGS = 200  # more than any method has


def _distinct(seeds: list[int] | None) -> list[int] | None:
    if seeds is not None and len(set(seeds)) < len(seeds):
        raise ValueError("the seeds must be distinct")
    return seeds


Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class TrainRequest(BaseModel):
    """What to train: a preset, settings that override it, or neither: then the default preset."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"kb": "family", "name": "family", "preset": DEFAULT_PRESET, "config": {}, "seeds": [0]}
        },
    )

    kb: str = Field(min_length=1, max_length=64, description="Id or name of the KB.")
    name: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="Name of the model; default: the name of the KB. Each training makes a new version.",
    )
    preset: str | None = Field(
        None, max_length=32, description=f"Named set of settings: {', '.join(PRESETS)}; default: {DEFAULT_PRESET}."
    )
    config: dict[str, Any] = Field(
        default_factory=dict, max_length=MAX_SETTINGS, description="Settings that override those of the preset."
    )
    seeds: Annotated[list[Seed] | None, AfterValidator(_distinct)] = Field(
        None,
        min_length=1,
        max_length=MAX_SEEDS,
        description="Seeds to train with, at most 32; the best one on validation becomes the model.",
    )
    priority: int = Field(0, ge=0, lt=PRIORITIES, description="Jobs with a larger number start sooner; 0 to 9.")
    tags: Tags = Field(default_factory=dict)
    holdout: Holdout | None = Field(
        None, description="Shares of the KB to hold out of this training, if it came as one file."
    )


class ForecastOut(BaseModel):
    """What a training is expected to cost."""

    cpu_seconds: float = Field(description="Seconds of one core; real ones are within a factor of three.")
    peak_bytes: int = Field(description="Most memory at any time, the loaded program included; within a factor of two.")
    basis: str = Field(description="What the figures rest on, in one sentence.")


WAITING = Field(
    None, description="Part that a running job is waiting for: `storage` if model files cannot be read or written."
)


PROGRESS = Field(
    description="How far the job is: `phase` and the same in words as `text`, `done` from 0 to 1, `eta_seconds` once "
    "there is something to base it on, `epoch` and `step`, `loss`, validation `metrics`, and the `trials` so far."
)
FORECAST = Field(None, description="Expected cost; null for jobs that an older version has submitted.")


class ChildOut(BaseModel):
    """The training with one of several seeds."""

    id: str
    seed: int | None
    status: str
    attempt: int
    forecast: ForecastOut | None = FORECAST
    progress: dict[str, Any] = PROGRESS
    waiting_for: str | None = WAITING
    error: dict[str, Any] | None


class JobOut(BaseModel):
    """A job and its progress; a training with several seeds has one child per seed."""

    id: str
    type: str = Field(
        "train",
        description="`train`, `evaluate` (also at `/evaluations/{id}`) or `predict` (also at `/predictions/{id}`).",
    )
    status: str
    model_id: str
    model: str = Field(description="Name and version of the model that the job trains or asks, as `name@3`.")
    kb_id: str
    seed: int | None
    attempt: int
    priority: int
    parent_id: str | None
    children: list[ChildOut] = Field(default_factory=list)
    forecast: ForecastOut | None = FORECAST
    progress: dict[str, Any] = PROGRESS
    waiting_for: str | None = WAITING
    error: dict[str, Any] | None
    created_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None


class ModelRef(BaseModel):
    """The model version that a job will create."""

    id: str
    name: str
    version: int
    status: str


class TrainResponse(BaseModel):
    """The job to follow, and the model that will be ready when it succeeds."""

    job: JobOut
    model: ModelRef


class PresetOut(BaseModel):
    """A preset and its settings for a KB."""

    name: str
    text: str = Field(description="What the preset is for, in one sentence.")
    default: bool = Field(description="Whether this preset is used where none is named.")
    config: dict[str, Any]
    forecast: ForecastOut = Field(description="What a training with these settings is expected to cost.")
    methods: list[str] = Field(description="What `config.method` may say on this KB.")
    method_texts: dict[str, str] = Field(description="What each of these methods is, in one sentence.")
    setting_texts: dict[str, str] = Field(
        description="What each setting of `config` means; those of a hybrid's parts are named `part.setting`."
    )


EXAMPLE_FORECAST: dict[str, Any] = {
    "cpu_seconds": 4.2,
    "peak_bytes": 420_000_000,
    "basis": "60 epochs over tables of all pairs of 34 entities",
}
EXAMPLE_JOB: dict[str, Any] = {
    "id": "job_0c9a7be844215d1f",
    "type": "train",
    "status": "running",
    "model_id": "model_7be844215d1f0c9a",
    "model": "family@1",
    "kb_id": "kb_5d1f0c9a7be84421",
    "seed": 0,
    "attempt": 1,
    "priority": 0,
    "parent_id": None,
    "children": [],
    "forecast": EXAMPLE_FORECAST,
    "progress": {
        "epoch": 12,
        "epochs": 60,
        "step": 1,
        "steps": 1,
        "loss": 0.2,
        "metrics": {},
        "phase": "fitting",
        "done": 0.18,
        "text": "fitting, epoch 13 of 60",
        "elapsed_seconds": 0.4,
        "eta_seconds": 1.5,
    },
    "waiting_for": None,
    "error": None,
    "created_at": "2026-01-01T12:00:00Z",
    "started_at": "2026-01-01T12:00:01Z",
    "finished_at": None,
}
EXAMPLE_TRAIN: dict[str, Any] = {
    "job": EXAMPLE_JOB | {"status": "queued", "attempt": 0, "progress": {}, "started_at": None},
    "model": {"id": "model_7be844215d1f0c9a", "name": "family", "version": 1, "status": "pending"},
}
EXAMPLE_PRESET: dict[str, Any] = {
    "name": DEFAULT_PRESET,
    "text": PRESETS[DEFAULT_PRESET].text,
    "default": True,
    "config": {"method": "proofs", "seed": 0},
    "forecast": EXAMPLE_FORECAST,
    "methods": list(method_texts("facts")),
    "method_texts": method_texts("facts"),
    "setting_texts": {"seed": "Number that all random choices follow from."},
}
EXAMPLE_EVENT = """id: running.1.12
event: epoch
data: {"epoch": 12, "loss": 0.2, "metrics": {"mrr": 0.93}, "created_at": "2026-01-01T12:00:03Z", "seed": 0}

"""
