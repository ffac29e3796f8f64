"""Settings of the networks that label graphs without proofs; the presets are those of the paper's appendix."""

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from ctp_core.base.config import BaseConfig

Encoding = Literal["joint", "apart"]


class NetworkConfig(BaseConfig):
    """What all networks share: how a graph becomes numbers, and how they are trained (cross-entropy over targets)."""

    explainable: ClassVar[bool] = False

    encoding: Encoding = Field(
        default="joint",
        description="`joint`: goal and facts are read together, W·enc([G; KB]); `apart`: W·[enc(KB); enc(G)].",
    )
    dim: int = Field(default=50, ge=1, le=4096, description="Length of the vectors of entities and predicates.")
    names: int = Field(
        default=32,
        ge=2,
        le=10_000,
        description="Vectors that stand for entities; each graph draws its own.",
    )
    few_names: bool = Field(
        default=False,
        description="Draw among as many names as the graph has entities, as the paper did; then a graph larger than "
        "all training graphs meets vectors that never learnt anything.",
    )
    optimiser: Literal["adam", "adagrad"] = "adam"
    schedule: Literal["one-cycle", "constant"] = "constant"
    learning_rate: float = Field(default=0.001, gt=0, le=10)
    batch_size: int = Field(default=32, ge=1)
    epochs: int = Field(default=400, ge=1, le=10_000, description="Passes over the training data at most.")
    steps: int | None = Field(
        default=1000, ge=1, description="Gradient steps that are enough: with many graphs fewer epochs are made."
    )
    distinct: bool = Field(default=True, description="Train on distinct graphs with weights, not on every row.")
    weight_power: float = Field(default=0.5, ge=0, le=1, description="A graph seen n times weighs n to this power.")
    validation: float = Field(default=0.0, ge=0, le=0.5, description="Share held out where there is no valid split.")
    patience: int | None = Field(default=None, ge=1, description="Validations without improvement before stopping.")
    eval_every: int = Field(default=5, ge=1, description="Epochs between two validations.")


class RecurrentConfig(NetworkConfig):
    """A bidirectional recurrent network over the facts, read as one sequence of symbols."""

    method: Literal["lstm", "gru", "rnn"]
    hidden: int = Field(default=64, ge=1, le=4096, description="Length of the state in each direction.")


class CnnConfig(NetworkConfig):
    """Convolutions over one to five symbols, the largest value of each filter, and a linear layer."""

    method: Literal["cnn"] = "cnn"
    filters: int = Field(default=8, ge=1, le=1024, description="Filters of each width.")


class CnnHighwayConfig(NetworkConfig):
    """Convolutions over one to five symbols, with highway layers on top."""

    method: Literal["cnnh"] = "cnnh"
    dim: int = Field(default=200, ge=1, le=4096, description="Length of the vectors of entities and predicates.")
    highway: int = Field(default=2, ge=0, le=32, description="Highway layers.")


class AttentionConfig(NetworkConfig):
    """Multi-head self-attention over the symbols, added to them, and a bidirectional LSTM on top."""

    method: Literal["mha"] = "mha"
    dim: int = Field(default=500, ge=1, le=4096, description="Length of the vectors of entities and predicates.")
    heads: int = Field(default=10, ge=1, le=64)
    hidden: int = Field(default=128, ge=1, le=4096, description="Length of the LSTM's state in each direction.")

    @model_validator(mode="after")
    def _divides(self) -> "AttentionConfig":
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} must be a multiple of heads {self.heads}")
        return self


class MessageConfig(NetworkConfig):
    """Messages along the facts, from subject to object; what predicate a fact has travels with its message."""

    encoding: Encoding = Field(
        default="apart",
        description="`joint`: the goal is an edge of its own; `apart`: it only says which nodes to read.",
    )
    edge_dim: int = Field(default=200, ge=1, le=4096, description="Length of the vectors of predicates.")
    rounds: int = Field(default=3, ge=1, le=32, description="Times that both layers are applied.")
    dropout: float = Field(default=0.6, ge=0, lt=1)


class GatConfig(MessageConfig):
    """Graph attention network (Veličković et al. 2018)."""

    method: Literal["gat"] = "gat"
    heads: int = Field(default=10, ge=1, le=64)


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
    "mha": AttentionConfig,
    "gat": GatConfig,
    "gcn": GcnConfig,
}
NETWORKS = tuple(CONFIGS)


def network_config(method: str, preset: str) -> NetworkConfig:
    """`paper` is the short tuning and `paper-long` the long one; `fast` and `best` are these with all names learnt."""
    tuned = (LONG if preset in ("best", "paper-long") else SHORT)[method]
    return CONFIGS[method](**{"method": method, **tuned, "few_names": preset.startswith("paper")})
