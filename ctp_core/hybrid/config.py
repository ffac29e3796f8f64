"""Settings of the model that adds an embedding score to its proofs."""

from typing import Literal

from pydantic import Field

from ctp_core.base.config import BaseConfig
from ctp_core.embeddings.config import ComplexConfig, DistMultConfig
from ctp_core.evidence.config import ProofsConfig, RulesConfig


class HybridConfig(BaseConfig):
    """Both parts are trained on their own; `seed` is of both."""

    method: Literal["hybrid"] = "hybrid"
    epochs: int = Field(default=10_000, ge=1, le=10_000, description="Passes of each part at most.")
    proofs: ProofsConfig | RulesConfig = Field(default=ProofsConfig(), discriminator="method")
    embedding: ComplexConfig | DistMultConfig = Field(default=ComplexConfig(), discriminator="method")
    weight: float | None = Field(
        default=None, ge=0, le=100, description="Of the embedding beside the proofs; null: learnt on validation facts."
    )
