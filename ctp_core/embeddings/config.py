"""Settings of the embedding models."""

from typing import ClassVar, Literal

from pydantic import Field

from ctp_core.base.config import BaseConfig


class EmbeddingConfig(BaseConfig):
    """Factorisation trained on all objects of (s, p, ?), all subjects of (?, p, o) and all predicates of (s, ?, o).

    The predicates as an auxiliary task: Chen et al. 2021; the nuclear 3-norm: Lacroix et al. 2018.
    """

    explainable: ClassVar[bool] = False

    epochs: int = Field(default=80, ge=1, le=10_000, description="Passes over the training data at most.")
    rank: int = Field(default=200, ge=1, le=4096, description="Length of a vector (complex numbers in ComplEx).")
    n3: float = Field(default=0.01, ge=0, description="Weight of the cubed norms of the vectors of a batch.")
    learning_rate: float = Field(default=0.1, gt=0, le=10, description="Of Adagrad.")
    decay: float = Field(
        default=0.0, ge=0, le=1, description="Share of all steps, at the end, in which the rate falls to nothing."
    )
    batch_size: int = Field(default=100, ge=1, description="Questions in one step.")
    grouped: bool = Field(
        default=False,
        description="Score a question once for all its answers: for large KBs. Steps are fewer then, and less noisy.",
    )
    negatives: int | None = Field(
        default=None,
        ge=1,
        description="Random entities to rank against in a step, beside those of its batch; null: all.",
    )
    weigh_negatives: bool = Field(
        default=False,
        description="For `negatives`: count a rival 1 / its chance of being sampled, so that the sum over rivals is on "
        "average that over all.",
    )
    predicate_weight: float = Field(
        default=0.5,
        ge=0,
        description="Weight of a third kind of question, the predicate of (s, ?, o) among all predicates.",
    )
    reciprocal: bool = Field(
        default=True,
        description="Learn p and its inverse apart, and average the two scores of a fact before ranking.",
    )
    eval_every: int = Field(default=10, ge=1, description="Epochs between two validations.")


class ComplexConfig(EmbeddingConfig):
    """ComplEx (Trouillon et al. 2016) with N3 (Lacroix et al. 2018): φ = Re⟨e_s, r_p, conj(e_o)⟩."""

    method: Literal["complex"] = "complex"


class DistMultConfig(EmbeddingConfig):
    """DistMult (Yang et al. 2015): φ = ⟨e_s, r_p, e_o⟩, the same for p(s, o) and p(o, s)."""

    method: Literal["distmult"] = "distmult"
