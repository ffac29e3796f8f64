"""Settings of the two models that walk along facts, NeuralLP and MINERVA, and their presets."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ctp_core.base.config import BaseConfig, Dim, Epochs, EvalEvery, LearningRate
from ctp_core.kb.profile import Profile
from ctp_core.presets import Preset

PredicatesBatch = Annotated[
    int,
    Field(
        ge=1,
        le=100_000,
        description="Predicates in one learning step, 1 to 100,000, each with its hidden facts. More need more memory.",
    ),
]
HiddenFacts = Annotated[
    float,
    Field(
        gt=0,
        lt=1,
        description="Share of a predicate's facts that a step hides and asks for, between 0 and 1. Hiding more gives "
        "more to learn from in a step, and fewer facts to walk along.",
    ),
]


class NeuralLpConfig(BaseConfig):
    """NeuralLP (Yang et al. 2017): every predicate attends to operators, one for each step of a walk."""

    explainable: ClassVar[bool] = False

    method: Literal["neurallp"] = "neurallp"
    epochs: Epochs = 60
    length: int = Field(
        default=3,
        ge=1,
        le=4,
        description="Maximum number of facts in a walk, 1 to 4. Longer walks reach further and take longer.",
    )
    rank: int = Field(
        default=3,
        ge=1,
        le=32,
        description="Kinds of walks learnt side by side for each predicate, 1 to 32. More can express more rules, "
        "and take longer.",
    )
    dim: Dim = 64
    learning_rate: LearningRate = 0.01
    batch_size: PredicatesBatch = 8
    hidden_facts: HiddenFacts = 0.25
    eval_every: EvalEvery = 4


class MinervaConfig(BaseConfig):
    """MINERVA (Das et al. 2018): a walker learns by reward where to go from the subject for a predicate."""

    explainable: ClassVar[bool] = False

    method: Literal["minerva"] = "minerva"
    epochs: Epochs = 24
    length: int = Field(
        default=2,
        ge=1,
        le=6,
        description="Steps of a walk, 1 to 6; a step may stay where it is. Longer walks reach further and take longer.",
    )
    dim: Dim = 64
    beam: int = Field(
        default=128,
        ge=1,
        le=1000,
        description="Sequences of predicates that are followed at once, 1 to 1000. More leave out fewer walks, and "
        "need more time and memory.",
    )
    entropy: float = Field(
        default=0.05,
        ge=0,
        le=100,
        description="Reward for trying different walks early in the training, 0 (none) to 100; it falls to 0 by the "
        "end. More finds rarer walks, and settles later on the best ones.",
    )
    learning_rate: LearningRate = 0.01
    batch_size: PredicatesBatch = 4
    hidden_facts: HiddenFacts = 0.25
    eval_every: EvalEvery = 4


WalkerConfig = NeuralLpConfig | MinervaConfig


def neurallp_preset(profile: Profile, preset: Preset) -> NeuralLpConfig:
    """As published, whatever the KB and the preset."""
    del profile, preset
    return NeuralLpConfig()


def minerva_preset(profile: Profile, preset: Preset) -> MinervaConfig:
    """As published, whatever the KB and the preset."""
    del profile, preset
    return MinervaConfig()
