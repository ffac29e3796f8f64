"""Settings of the model that adds an embedding score to its proofs, and its presets."""

from typing import Literal

from pydantic import Field

from ctp_core.base.config import BaseConfig
from ctp_core.embeddings.config import ComplexConfig, DistMultConfig, complex_preset
from ctp_core.evidence.config import ProofsConfig, RulesConfig, proofs_preset
from ctp_core.kb.profile import DENSE, Profile


class HybridConfig(BaseConfig):
    """Settings of both parts, which are trained separately; `seed` applies to both."""

    method: Literal["hybrid"] = "hybrid"
    epochs: int = Field(
        default=10_000,
        ge=1,
        le=10_000,
        description="Maximum number of epochs of each part, 1 to 10,000; a part's own `epochs` may be fewer.",
    )
    proofs: ProofsConfig | RulesConfig = Field(
        default=ProofsConfig(),
        discriminator="method",
        description="Settings of the part that proves, which gives the explanations: those of method `proofs` or "
        "`rules`.",
    )
    embedding: ComplexConfig | DistMultConfig = Field(
        default=ComplexConfig(),
        discriminator="method",
        description="Settings of the part that compares vectors: those of method `complex` or `distmult`.",
    )
    weight: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="How much the embedding counts beside the proofs, 0 (not at all) to 100. null: chosen on "
        "validation facts.",
    )


def hybrid_preset(profile: Profile, preset: str) -> HybridConfig:
    """Both parts with their own presets. On a dense KB the weight comes from cross-validation, not from validation."""
    weight = 0.5 if not profile.small and profile.density > DENSE else None
    embedding = complex_preset(profile, preset)
    return HybridConfig(proofs=proofs_preset(profile, preset), embedding=embedding, weight=weight)
