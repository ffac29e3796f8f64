"""Settings of the two models that walk along facts: NeuralLP and MINERVA."""

from typing import ClassVar, Literal

from pydantic import Field

from ctp_core.base.config import BaseConfig


class NeuralLpConfig(BaseConfig):
    """NeuralLP (Yang et al. 2017): every predicate attends to operators, one for each step of a walk."""

    explainable: ClassVar[bool] = False

    method: Literal["neurallp"] = "neurallp"
    epochs: int = Field(default=60, ge=1, le=10_000, description="Passes over the predicates at most.")
    length: int = Field(default=3, ge=1, le=4, description="Steps of a walk at most; memory lets it be shorter.")
    rank: int = Field(default=3, ge=1, le=32, description="Walks learnt side by side for each predicate.")
    dim: int = Field(default=64, ge=1, le=4096, description="Length of the vectors and of the controller's state.")
    learning_rate: float = Field(default=0.01, gt=0, le=10, description="Of Adam.")
    batch_size: int = Field(default=8, ge=1, description="Predicates in one step; each brings its hidden facts.")
    hidden_facts: float = Field(
        default=0.25,
        gt=0,
        lt=1,
        description="Share of a predicate's facts that is asked for in a step, and not walked.",
    )
    eval_every: int = Field(default=4, ge=1, description="Epochs between two validations.")


class MinervaConfig(BaseConfig):
    """MINERVA (Das et al. 2018): a walker learns by reward where to go from the subject for a predicate."""

    explainable: ClassVar[bool] = False

    method: Literal["minerva"] = "minerva"
    epochs: int = Field(default=24, ge=1, le=10_000, description="Passes over the predicates, both ways, at most.")
    length: int = Field(default=2, ge=1, le=6, description="Steps of a walk; it may stay where it is.")
    dim: int = Field(default=64, ge=1, le=4096, description="Length of the vectors and of the walker's memory.")
    beam: int = Field(
        default=128,
        ge=1,
        le=1000,
        description="Sequences of predicates that are followed; with no more than these, no walk is left out.",
    )
    entropy: float = Field(default=0.05, ge=0, description="Reward for keeping choices open, falling to 0 by the end.")
    learning_rate: float = Field(default=0.01, gt=0, le=10, description="Of Adam, falling to 0 by the end.")
    batch_size: int = Field(default=4, ge=1, description="Predicates in one step; each brings its hidden facts.")
    hidden_facts: float = Field(
        default=0.25,
        gt=0,
        lt=1,
        description="Share of a predicate's facts that is asked for in a step, and not walked.",
    )
    eval_every: int = Field(default=4, ge=1, description="Epochs between two validations.")
