"""Settings of the embedding models. Their presets are in `candidates.py`: what is tried depends on what it costs.

A new embedding is a class here with its place in AnyEmbedding, and a class in FACTORISATIONS of factorisations.py.
"""

from typing import ClassVar, Literal, get_args

from pydantic import Field

from ctp_core.base.config import Epochs, EvalEvery, LearningRate, SearchedConfig


class EmbeddingConfig(SearchedConfig):
    """Factorisation trained on all objects of (s, p, ?), all subjects of (?, p, o) and all predicates of (s, ?, o).

    The predicates as an auxiliary task: Chen et al. 2021; the nuclear 3-norm: Lacroix et al. 2018.
    """

    explainable: ClassVar[bool] = False
    text: ClassVar[str]  # a sentence for people
    numbers_each: ClassVar[int]  # real numbers for each component of a vector

    epochs: Epochs = 80
    rank: int = Field(
        default=200,
        ge=1,
        le=4096,
        description="Length of the vectors that stand for entities and predicates, 1 to 4096. Longer vectors can "
        "remember more, and cost more time and memory.",
    )
    n3: float = Field(
        default=0.01,
        ge=0,
        le=1000,
        description="Pressure towards short vectors, 0 (none) to 1,000. Higher values keep the model from learning the "
        "facts by heart.",
    )
    learning_rate: LearningRate = 0.1
    decay: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the training, at its end, in which the learning rate falls to nothing, 0 (never) to 1. A "
        "larger share settles more smoothly and learns less in the same number of epochs.",
    )
    batch_size: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="Questions in one learning step, 1 to 100,000. Larger batches make fewer and steadier steps and "
        "need more memory.",
    )
    grouped: bool = Field(
        default=False,
        description="Score a question once for all its answers, instead of once for each: faster on large KBs, with "
        "fewer and steadier steps.",
    )
    negatives: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Random entities that the answers of a step are ranked against, 1 to 100,000; fewer are faster and "
        "less exact. null: all entities.",
    )
    weigh_negatives: bool = Field(
        default=False,
        description="For `negatives`: give random entities also the weight of the entities that were not drawn, so "
        "that on average the loss is that against all entities.",
    )
    predicate_weight: float = Field(
        default=0.5,
        ge=0,
        le=1000,
        description="Weight of learning also which predicate holds between two entities, 0 (off) to 1,000. Raise it "
        "where predicates exclude each other.",
    )
    reciprocal: bool = Field(
        default=True,
        description="Learn each predicate and its inverse apart, and average their scores: twice as many vectors for "
        "predicates.",
    )
    eval_every: EvalEvery = 10

    @property
    def width(self) -> int:
        """The number of real numbers in a vector."""
        return self.numbers_each * self.rank


class ComplexConfig(EmbeddingConfig):
    """ComplEx (Trouillon et al. 2016) with N3 (Lacroix et al. 2018): φ = Re⟨e_s, r_p, conj(e_o)⟩."""

    method: Literal["complex"] = "complex"
    text: ClassVar[str] = "ComplEx embedding: accurate, no proofs."
    numbers_each: ClassVar[int] = 2


class DistMultConfig(EmbeddingConfig):
    """DistMult (Yang et al. 2015): φ = ⟨e_s, r_p, e_o⟩, the same for p(s, o) and p(o, s)."""

    method: Literal["distmult"] = "distmult"
    text: ClassVar[str] = "DistMult embedding, the same in both directions; no proofs."
    numbers_each: ClassVar[int] = 1


AnyEmbedding = ComplexConfig | DistMultConfig
EMBEDDINGS: dict[str, type[EmbeddingConfig]] = {
    config.model_fields["method"].default: config for config in get_args(AnyEmbedding)
}
