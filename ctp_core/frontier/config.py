"""Settings of the model that propagates from the question. Its presets are in `candidates.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from ctp_core.base.config import Epochs, EvalEvery, LearningRate, SearchedConfig

MAX_TABLE = (
    4_000_000  # logits of all entities that a learning step keeps: a batch of questions is as small as that needs
)


class FrontierConfig(SearchedConfig):
    """Relation-conditioned messages along the most promising facts (RED-GNN, A*Net, AdaProp, NBFNet).

    No entity has a vector, so that what is learnt holds for entities never seen.
    """

    on_other_kbs: ClassVar[bool] = True

    method: Literal["frontier"] = "frontier"
    epochs: Epochs = 20
    steps: int = Field(
        default=4,
        ge=1,
        le=8,
        description="Steps from the entity of a question, 1 to 8: proofs have at most so many facts. More reach "
        "further and take longer.",
    )
    dim: int = Field(
        default=32,
        ge=1,
        le=512,
        description="Length of the vectors that are passed along facts, 1 to 512. Longer vectors can tell more apart, "
        "and cost more time and memory.",
    )
    attention: int = Field(
        default=8,
        ge=1,
        le=128,
        description="Length of the vectors that decide how much a fact matters to a question, 1 to 128. Longer vectors "
        "choose more finely and take longer.",
    )
    width: int = Field(
        default=200,
        ge=1,
        le=10_000,
        description="Entities that a question goes on from after each step, the most promising ones, 1 to 10,000. More "
        "miss fewer answers, and need more time and memory.",
    )
    facts_per_step: int = Field(
        default=4000,
        ge=1,
        le=1_000_000,
        description="Facts that a question follows in one step, 1 to 1,000,000: of entities with many facts only some "
        "are followed. More miss fewer answers, and need more time and memory.",
    )
    confirmed: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="Best answers that are also asked for from their own side before answers are put in order, 1 to "
        "1,000. More order the answers more exactly and take longer. Answers that are shown are always asked for both "
        "ways.",
    )
    hidden_facts: float = Field(
        default=0.25,
        gt=0,
        lt=1,
        description="Share of the facts that an epoch hides and asks for, between 0 and 1. Hiding more gives more to "
        "learn from in an epoch, and fewer facts to find the answers with.",
    )
    dropout: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="Share of the numbers in passed vectors that are left out at random while learning, 0 to below 1. "
        "More keeps small KBs from being learnt by heart.",
    )
    learning_rate: LearningRate = 0.005
    batch_size: int = Field(
        default=32,
        ge=1,
        le=10_000,
        description="Questions in one learning step, 1 to 10,000; fewer are asked at once where the KB has very many "
        "entities. Larger batches make fewer and steadier steps and need more memory.",
    )
    eval_every: EvalEvery = 2

    def at_once(self, num_entities: int) -> int:
        """How many questions are asked together, so that memory stays bounded."""
        return max(1, min(self.batch_size, MAX_TABLE // max(1, num_entities)))
