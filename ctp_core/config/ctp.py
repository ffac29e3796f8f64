"""Settings of the Conditional Theorem Prover."""

from typing import Literal

from pydantic import Field

from ctp_core.config.base import BaseConfig

SelectName = Literal["linear", "attentive", "memory", "ntp", "gntp"]


class CtpConfig(BaseConfig):
    """The paper's model. Fields from `unification` on are read on a KB of facts only, where entities are soft."""

    method: Literal["ctp"] = "ctp"
    select: SelectName = "linear"
    templates: tuple[str, ...] = Field(
        default=("0", "2"), min_length=1, description="One entry per reformulator: 0, n or nR; `0` matches facts."
    )
    depth: int = Field(default=1, ge=1, le=1000)
    semiring: Literal["max-min", "max-product"] = "max-min"
    dim: int = Field(default=50, ge=1, le=4096, description="Length of the vectors of predicates and entities.")
    slope: float = Field(default=1.0, gt=0, description="Of the kernel exp(-slope · distance).")
    memory: int = Field(default=32, ge=1, description="Rules stored, for select `memory`.")
    top_k: int = Field(default=4, ge=1, description="Rules tried per goal, for select `gntp`.")
    learning_rate: float = Field(default=0.1, gt=0, le=10)
    batch_size: int = Field(default=16, ge=1)
    unification: Literal["concat", "per_symbol"] = Field(
        default="concat", description="One kernel over the three concatenated vectors, or the minimum of three."
    )
    negatives: int = Field(default=1, ge=1, description="Times subject, object and both are corrupted, per fact.")
    initial_range: float = Field(default=1.0, gt=0, description="Vectors start uniform in ±this.")
    eval_every: int = Field(default=10, ge=1, description="Epochs between two validations.")
