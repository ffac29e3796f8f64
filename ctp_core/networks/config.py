"""Settings of the networks that label graphs without proofs; the presets are those of the paper's appendix."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ctp_core.base.config import (
    Dim,
    Distinct,
    EnoughSteps,
    Epochs,
    EvalEvery,
    GraphsBatch,
    GraphsConfig,
    LearningRate,
    Optimiser,
    WeightPower,
)
from ctp_core.presets import Preset

Encoding = Literal["joint", "apart"]


class NetworkConfig(GraphsConfig):
    """What all networks share: how a graph becomes numbers, and how they are trained (cross-entropy over targets)."""

    explainable: ClassVar[bool] = False

    encoding: Encoding = Field(
        default="joint",
        description="Read the question together with the facts (`joint`), or read the facts by themselves and the "
        "question beside them (`apart`).",
    )
    dim: Dim = 50
    names: int = Field(
        default=32,
        ge=2,
        le=10_000,
        description="Different entities that the network can tell apart, 2 to 10,000; each graph draws its own at "
        "random. Entities of a graph with more than this share names; more names take longer to "
        "learn.",
    )
    few_names: bool = Field(
        default=False,
        description="Draw only from as many names as the graph has entities, as the paper did. Graphs larger than all "
        "training graphs then use names that never learnt anything.",
    )
    optimiser: Optimiser = "adam"
    learning_rate: LearningRate = 0.001
    batch_size: GraphsBatch = 32
    epochs: Epochs = 400
    steps: EnoughSteps = 1000
    distinct: Distinct = True
    weight_power: WeightPower = 0.5
    eval_every: EvalEvery = 5


State = Annotated[
    int,
    Field(
        ge=1,
        le=4096,
        description="Length of the state with which the network reads in each direction, 1 to 4096. Longer can "
        "remember more, and costs more time and memory.",
    ),
]
AttentionHeads = Annotated[
    int,
    Field(
        ge=1,
        le=64,
        description="Ways of attending that work side by side, 1 to 64. More can look for more different things, and "
        "cost more.",
    ),
]


class RecurrentConfig(NetworkConfig):
    """A bidirectional recurrent network over the facts, read as one sequence of symbols."""

    method: Literal["lstm", "gru", "rnn"]
    hidden: State = 64


class CnnConfig(NetworkConfig):
    """Convolutions over one to five symbols, the largest value of each filter, and a linear layer."""

    method: Literal["cnn"] = "cnn"
    filters: int = Field(
        default=8,
        ge=1,
        le=1024,
        description="Patterns looked for at each width of one to five symbols, 1 to 1024. More can tell more apart, "
        "and cost more.",
    )


class CnnHighwayConfig(NetworkConfig):
    """Convolutions over one to five symbols, with highway layers on top."""

    method: Literal["cnnh"] = "cnnh"
    dim: Dim = 200
    highway: int = Field(
        default=2,
        ge=0,
        le=32,
        description="Highway layers on top of the convolutions, 0 to 32. More can combine more, and train more slowly.",
    )


class MhaConfig(NetworkConfig):
    """Multi-head self-attention over the symbols, added to them, and a bidirectional LSTM on top."""

    method: Literal["mha"] = "mha"
    dim: Dim = 500
    heads: AttentionHeads = 10
    hidden: State = 128

    @model_validator(mode="after")
    def _divides(self) -> "MhaConfig":
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} must be a multiple of heads {self.heads}")
        return self


class MessageConfig(NetworkConfig):
    """Messages along the facts, from subject to object; what predicate a fact has travels with its message."""

    encoding: Encoding = Field(
        default="apart",
        description="Add the question to the graph as one more edge (`joint`), or let it only say which two entities "
        "to compare (`apart`).",
    )
    edge_dim: int = Field(
        default=200,
        ge=1,
        le=4096,
        description="Length of the vectors that stand for predicates, 1 to 4096. Longer vectors can tell more apart, "
        "and cost more.",
    )
    rounds: int = Field(
        default=3,
        ge=1,
        le=32,
        description="How often messages are passed along the facts, 1 to 32. Each round reaches two facts further and "
        "takes as long again.",
    )
    dropout: float = Field(
        default=0.6,
        ge=0,
        lt=1,
        description="Share of numbers blanked out at random in training, from 0 to below 1. More keeps the network "
        "from learning graphs by heart, and slows learning down.",
    )


class GatConfig(MessageConfig):
    """Graph attention network (Veličković et al. 2018)."""

    method: Literal["gat"] = "gat"
    heads: AttentionHeads = 10


class GcnConfig(MessageConfig):
    """Graph convolutional network (Kipf & Welling 2017)."""

    method: Literal["gcn"] = "gcn"


# The appendix of the paper: tuned on graphs of three edges, and on graphs of nine. It gives no size for the LSTM on top
# of the attention for three edges (we use the other one) and no encoding for GAT and GCN.
SHORT: dict[str, dict[str, Any]] = {
    "gat": {"heads": 10, "dim": 50, "edge_dim": 200},
    "gcn": {"dim": 50, "edge_dim": 500},
    "cnn": {"dim": 50, "filters": 8, "encoding": "joint"},
    "rnn": {"dim": 50, "hidden": 64, "encoding": "joint"},
    "lstm": {"dim": 50, "hidden": 64, "encoding": "joint"},
    "gru": {"dim": 50, "hidden": 64, "encoding": "joint"},
    "cnnh": {"dim": 200, "highway": 2, "encoding": "joint"},
    "mha": {"dim": 500, "heads": 10, "hidden": 128, "encoding": "joint"},
}
LONG: dict[str, dict[str, Any]] = {
    "gat": {"heads": 10, "dim": 50, "edge_dim": 500},
    "gcn": {"dim": 50, "edge_dim": 50},
    "cnn": {"dim": 200, "filters": 4, "encoding": "joint"},
    "rnn": {"dim": 500, "hidden": 512, "encoding": "joint"},
    "lstm": {"dim": 100, "hidden": 512, "encoding": "apart"},
    "gru": {"dim": 200, "hidden": 512, "encoding": "joint"},
    "cnnh": {"dim": 200, "highway": 1, "encoding": "joint"},
    "mha": {"dim": 500, "heads": 10, "hidden": 128, "encoding": "joint"},
}


CONFIGS: dict[str, type[NetworkConfig]] = {
    **dict.fromkeys(("lstm", "gru", "rnn"), RecurrentConfig),
    "cnn": CnnConfig,
    "cnnh": CnnHighwayConfig,
    "mha": MhaConfig,
    "gat": GatConfig,
    "gcn": GcnConfig,
}
NETWORKS = tuple(CONFIGS)


def read_network_config(values: dict[str, Any]) -> NetworkConfig:
    """A config that a model stored; raises KeyError or pydantic's ValidationError where it is not of a network."""
    return CONFIGS[values["method"]].stored(values)


def network_preset(method: str, preset: Preset) -> NetworkConfig:
    """`paper` is the short tuning and `paper-long` the long one; `fast` and `best` are these with all names learnt."""
    tuned = (LONG if preset.longer else SHORT)[method]
    return CONFIGS[method](**{"method": method, **tuned, "few_names": preset.published})
