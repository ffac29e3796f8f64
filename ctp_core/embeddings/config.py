"""Settings of the embedding models, and their presets.

How the presets were found, on validation alone, is in docs/lab/links.md.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field

from ctp_core.base.config import BaseConfig, Epochs, EvalEvery, LearningRate
from ctp_core.kb.profile import DENSE, HALF_DENSE, Profile

MANY_FACTS = 150_000  # from here on fewer, and weighed, rivals: epochs would take too long


class EmbeddingConfig(BaseConfig):
    """Factorisation trained on all objects of (s, p, ?), all subjects of (?, p, o) and all predicates of (s, ?, o).

    The predicates as an auxiliary task: Chen et al. 2021; the nuclear 3-norm: Lacroix et al. 2018.
    """

    explainable: ClassVar[bool] = False

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
        description="Pressure towards short vectors, from 0 (none). Higher values keep the model from learning the "
        "facts by heart.",
    )
    learning_rate: LearningRate = 0.1
    decay: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the training, at its end, in which the learning rate falls to nothing, 0 (never) to 1.",
    )
    batch_size: int = Field(
        default=100,
        ge=1,
        description="Questions in one learning step, from 1. Larger batches make fewer and steadier steps and need "
        "more memory.",
    )
    grouped: bool = Field(
        default=False,
        description="Score a question once for all its answers, instead of once for each: faster on large KBs, with "
        "fewer and steadier steps.",
    )
    negatives: int | None = Field(
        default=None,
        ge=1,
        description="Random entities that the answers of a step are ranked against, from 1; fewer are faster and less "
        "exact. null: all entities.",
    )
    weigh_negatives: bool = Field(
        default=False,
        description="For `negatives`: let each random entity stand for those that were not drawn, so that the ranking "
        "is right on average.",
    )
    predicate_weight: float = Field(
        default=0.5,
        ge=0,
        description="Weight of learning also which predicate holds between two entities, from 0 (off). Raise it where "
        "predicates exclude each other.",
    )
    reciprocal: bool = Field(
        default=True,
        description="Learn each predicate and its inverse apart, and average their scores: twice as many vectors for "
        "predicates.",
    )
    eval_every: EvalEvery = 10


class ComplexConfig(EmbeddingConfig):
    """ComplEx (Trouillon et al. 2016) with N3 (Lacroix et al. 2018): φ = Re⟨e_s, r_p, conj(e_o)⟩."""

    method: Literal["complex"] = "complex"


class DistMultConfig(EmbeddingConfig):
    """DistMult (Yang et al. 2015): φ = ⟨e_s, r_p, e_o⟩, the same for p(s, o) and p(o, s)."""

    method: Literal["distmult"] = "distmult"


def complex_preset(profile: Profile, preset: str) -> ComplexConfig:
    """The fewer predicates hold between two entities, the more the question for the predicate teaches."""
    if profile.large:
        large = ComplexConfig(reciprocal=False, grouped=True, epochs=14, eval_every=2)
        few_facts: dict[str, Any] = {"rank": 300, "n3": 0.1, "batch_size": 250, "negatives": 3000}
        if profile.num_facts < MANY_FACTS:
            return large.model_copy(update={**few_facts, "predicate_weight": 0.1})
        sampled: dict[str, Any] = {"batch_size": 250, "negatives": 2000, "weigh_negatives": True}
        short: dict[str, Any] = {"rank": 256, "epochs": 12, "decay": 1 / 3}
        long: dict[str, Any] = {"rank": 400, "epochs": 20, "decay": 0.45}
        return large.model_copy(update={"n3": 0.05, **(long if preset == "best" else short), **sampled})
    if profile.small:
        return ComplexConfig(reciprocal=False, epochs=40, predicate_weight=0.1)
    if profile.density > DENSE:
        return ComplexConfig(reciprocal=False, rank=800, epochs=8, eval_every=2, predicate_weight=0.25)
    weight = 5.0 if profile.density > HALF_DENSE else 0.1
    return ComplexConfig(reciprocal=False, epochs=25, eval_every=5, predicate_weight=weight)


def distmult_preset(profile: Profile, preset: str) -> DistMultConfig:
    """As ComplEx, which was tuned."""
    return DistMultConfig(**complex_preset(profile, preset).model_dump(exclude={"method"}))
