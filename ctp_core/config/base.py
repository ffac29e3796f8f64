"""What all configs share."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

MAX_SEED = 2**31 - 1


class BaseConfig(BaseModel):
    """Frozen and strict: an unknown key is an error, so that a typo never trains the wrong model."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    explainable: ClassVar[bool] = True  # whether answers of this method have proofs

    method: str
    seed: int = Field(default=0, ge=0, le=MAX_SEED, description="Same seed, same KB: the same model.")
    epochs: int = Field(default=50, ge=1, le=10_000, description="Passes over the training data at most.")
