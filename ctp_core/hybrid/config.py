"""Settings of the model that adds an embedding score to its proofs, and its presets."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from ctp_core.base.config import BaseConfig, BudgetSeconds, SearchedConfig
from ctp_core.embeddings.candidates import within
from ctp_core.embeddings.config import EMBEDDINGS, AnyEmbedding, ComplexConfig
from ctp_core.evidence import candidates as evidence
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.frontier.config import FrontierConfig
from ctp_core.kb.profile import Profile
from ctp_core.presets import Preset

PartName = Literal["proofs", "embedding", "frontier"]
PARTS: tuple[PartName, ...] = ("proofs", "embedding")  # of every hybrid
ALL_EPOCHS = 10_000  # as many as each part has
CHOOSING_FACTS = 3000  # validation facts that choose the weights of the embedding
CHOOSING_FEWER = 500  # of them, where the weights of a frontier are chosen: it takes many times as long to ask
CHOOSING_LOGITS = 3e7  # kept of each part for that choice: bounds its memory at half a gigabyte
EMBEDDING_SHARE = 2 / 3  # of the budget: the same accuracy takes an embedding longer
SHARES = {"proofs": 1 - EMBEDDING_SHARE, "embedding": EMBEDDING_SHARE, "frontier": 1.0}  # a third part comes on top


class HybridConfig(BaseConfig):
    """Settings of the parts, which are trained separately; `seed` applies to all of them."""

    on_other_kbs: ClassVar[bool] = True  # by what knows no entity: its proofs and its frontier
    method: Literal["hybrid"] = "hybrid"
    epochs: int = Field(
        default=ALL_EPOCHS,
        ge=1,
        le=ALL_EPOCHS,
        description="Maximum number of epochs of each part, 1 to 10,000: fewer shorten all parts at once. More change "
        "nothing where a part's own `epochs` are fewer.",
    )
    budget_seconds: BudgetSeconds = None
    proofs: ProofsConfig | RulesConfig = Field(
        default=ProofsConfig(),
        discriminator="method",
        description="Settings of the part that proves, which gives the explanations: those of method `proofs` or "
        "`rules`.",
    )
    embedding: AnyEmbedding = Field(
        default=ComplexConfig(),
        discriminator="method",
        description="Settings of the part that compares vectors: those of method "
        f"{' or '.join(f'`{name}`' for name in EMBEDDINGS)}.",
    )
    weight: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="How much the embedding counts beside the proofs, 0 (not at all) to 100; a larger weight makes "
        "proofs matter less. null: chosen on validation facts.",
    )

    frontier: FrontierConfig | None = Field(
        default=None,
        description="Settings of a third part, which follows the facts that look most promising: those of method "
        "`frontier`. More accurate on large KBs, and slower to train and to ask. null: no such part.",
    )

    @property
    def parts(self) -> tuple[PartName, ...]:
        """The parts of this hybrid, in the order in which they are trained."""
        return PARTS if self.frontier is None else (*PARTS, "frontier")

    def part(self, name: PartName) -> Any:
        """The settings of a part under the seed, the limit of epochs and its share of the budget."""
        part: BaseConfig = getattr(self, name)
        values: dict[str, Any] = {"seed": self.seed, "epochs": min(self.epochs, part.epochs)}
        if isinstance(part, SearchedConfig):
            if self.budget_seconds:
                values["budget_seconds"] = SHARES[name] * self.budget_seconds
            if self.epochs < ALL_EPOCHS:
                values["search"] = tuple(setting for setting in part.search if setting != "epochs")
        return part.model_copy(update=values)


def hybrid_preset(profile: Profile, preset: Preset) -> HybridConfig:
    """Both parts with their own presets, each with its share of the budget."""
    seconds = preset.budget_seconds(profile.num_facts)
    embedding = within(ComplexConfig(), profile, EMBEDDING_SHARE * seconds)
    proving = (1 - EMBEDDING_SHARE) * seconds
    proofs = evidence.within(ProofsConfig(mined=True), profile, proving, evidence.SEARCHED)
    return HybridConfig(budget_seconds=seconds, proofs=proofs, embedding=embedding)
