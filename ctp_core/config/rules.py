"""Settings of the model of mined rules: evidence that adds up, on KBs too large for dense tables."""

from typing import Literal

from pydantic import Field

from ctp_core.config.base import BaseConfig


class RulesConfig(BaseConfig):
    """Rules are read off paths between the entities of facts; their weights are learnt, a predicate an epoch."""

    method: Literal["rules"] = "rules"
    epochs: int = Field(default=10_000, ge=1, le=10_000, description="Predicates learnt at most, largest first.")
    max_length: int = Field(default=5, ge=1, le=5, description="Body atoms at most.")
    sample: int = Field(default=1000, ge=1, description="Facts of a predicate that rules are mined from and fitted to.")
    rules: int = Field(default=100, ge=1, description="Rules of each template kept for a predicate.")
    min_support: int = Field(default=2, ge=1, description="Sampled facts that a rule must explain.")
    steps: int = Field(default=150, ge=1, description="Steps of the fit of one predicate.")
    learning_rate: float = Field(default=0.1, gt=0, le=10)
    sparsity: float = Field(default=0.02, ge=0, description="Weight of the sum of all rule weights in the loss.")
    constants: bool = Field(
        default=True,
        description="Also count rules with constants, p(X,c) :- q(X,d); their weight is chosen on validation facts.",
    )
    constant_atoms: int = Field(
        default=1, ge=1, le=2, description="Body atoms at most of rules with constants; two: p(X,c) :- q(X,Z), r(Z,d)."
    )
