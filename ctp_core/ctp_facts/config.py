"""Settings of the prover on a KB of facts. Its presets, which follow from measuring, are in candidates.py."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from ctp_core.base.config import STORED, SearchedConfig, renamed_setting
from ctp_core.errors import ConfigError
from ctp_core.rules import Template
from ctp_core.select.config import CtpConfig, SemiringName
from ctp_core.select.registry import FIXED_RULES
from ctp_core.tnorm.registry import ON_DISTANCES, on_distances, semiring_text

WAYS = 3  # `negatives` corrupts a fact in its subject, in its object, and in both
NEEDED_TO_SUM = (
    "loss 'summed' needs unification concat, neighbours auto or tables, select linear, attentive or memory, templates "
    "0, 1 and 1R only, `hidden_facts` above 0, ranked hidden, questions both and rivals all: change these settings or "
    "use loss 'all'"
)


def _on_distances(semiring: str) -> str:
    try:
        on_distances(semiring)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return semiring


class CtpFactsConfig(CtpConfig, SearchedConfig):
    """Settings of a Conditional Theorem Prover on facts with soft entities; the defaults are the paper's."""

    # One config once served both kinds, so stored configs also name the settings of the other kind.
    former: ClassVar[dict[str, None]] = dict.fromkeys(
        (
            *("prover", "rules", "head", "gate", "relaxed", "optimiser", "distinct", "weight_power", "steps"),
            *("validation", "patience"),
        )
    )

    depth: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="How many times rules may be applied within rules when answering, 1 to 1000. Deeper finds longer "
        "proofs; time and memory grow quickly. Training goes no deeper than this.",
    )
    semiring: Annotated[SemiringName, AfterValidator(_on_distances)] = Field(
        default="max-min",
        description=semiring_text(ON_DISTANCES),
    )
    batch_size: int = Field(
        default=16,
        ge=1,
        le=100_000,
        description="Size of one learning step, 1 to 100,000: a number of facts for loss `sampled`, of predicates for "
        "the other losses. Larger batches make fewer and steadier steps, and need more memory.",
    )
    unification: Literal["concat", "per_symbol"] = Field(
        default="concat",
        description="How a question is compared with a fact: subject, predicate and object together (`concat`), or "
        "each by itself, and the worst match counts (`per_symbol`).",
    )
    neighbours: Literal["auto", "tables", "nearest"] = Field(
        default="auto",
        description="Which entities may stand in for an entity: with `tables` every other, which is exact but needs "
        "memory for all pairs; with `nearest` only the most similar ones; `auto` uses tables where they fit.",
    )
    nearest: int = Field(
        default=8,
        ge=1,
        le=1000,
        description="For neighbours `nearest`: how many similar entities, itself included, may stand in for an entity, "
        "1 to 1000. More find more proofs; time and memory grow with the square.",
    )
    nearest_every: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="For neighbours `nearest`: learning steps between two searches for the most similar entities, 1 to "
        "1,000,000. A smaller number keeps them up to date, but takes longer.",
    )
    negatives: int = Field(
        default=1,
        ge=1,
        le=100_000,
        description="For loss `sampled`: how many times each fact is made false by replacing its subject, its object "
        "and both at random, 1 to 100,000. More negatives teach better, but take longer.",
    )
    initial_range: float = Field(
        default=1.0,
        gt=0,
        le=100,
        description="Vectors start at random between minus this value and this value, above 0 and up to 100. With a "
        "smaller value, everything starts more alike.",
    )
    entity_scale: float = Field(
        default=1.0,
        gt=0,
        le=100,
        description="Multiplies `initial_range` for entities, above 0 and up to 100. Larger values keep entities "
        "further apart from the start.",
    )
    entity_start: Literal["uniform", "facts"] = Field(
        default="uniform",
        description="Where the vectors of entities start: at random (`uniform`, as published), or near entities that "
        "have similar facts (`facts`).",
    )
    loss: Literal["sampled", "all", "summed"] = Field(
        default="sampled",
        description="What a fact is learnt against: random false facts (`sampled`, as published), or all other objects "
        "and subjects (`all`; `summed` learns from every proof at first, and needs ranked `hidden`).",
    )
    predicate_weight: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="For loss `summed`: how much to learn also which predicate holds between two entities, 0 "
        "(not at all) to 1,000. Raise it where predicates exclude each other.",
    )
    rule_rate: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Share of `learning_rate` with which rules learn, above 0 and up to 1. Lower it where rules change "
        "too fast for the vectors they are compared with.",
    )
    hidden_facts: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="For loss `all` and `summed`: share of the facts hidden from proofs in each step, from 0 to below "
        "1. Hiding more makes proofs rely on more different facts.",
    )
    hidden_subjects: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="For loss `all` and `summed`: share of each predicate's subjects whose facts are all hidden in a "
        "step, from 0 to below 1. Hiding more teaches to prove them from other predicates.",
    )
    ranked: Literal["all", "hidden"] = Field(
        default="all",
        description="For loss `all` and `summed`: the facts that a step learns to find. `all` takes each fact as if it "
        "were not stated, `hidden` only those hidden in the step.",
    )
    questions: Literal["both", "objects"] = Field(
        default="both",
        description="For loss `all`: learn to find objects and subjects (`both`), or only `objects`.",
    )
    rivals: Literal["all", "local", "exclusive"] = Field(
        default="all",
        description="For loss `all`: the entities that a fact is ranked against: `all`, only those that occur with the "
        "predicate (`local`), or only those never stated with the same entity as the true one (`exclusive`).",
    )

    @model_validator(mode="before")
    @classmethod
    def _read_former_search(cls, values: Any, info: ValidationInfo) -> Any:
        """Reads `neighbours` by its name in version 0.1.0, which has another meaning now: there it was a word."""
        if not isinstance(values, dict) or not isinstance(values.get("search"), str):
            return values
        if info.context != STORED:
            raise renamed_setting("search", "neighbours")
        return {"neighbours" if name == "search" else name: value for name, value in values.items()}

    @model_validator(mode="after")
    def _fits(self) -> "CtpFactsConfig":
        if self.loss == "summed" and not self.can_be_summed and not self.search:  # a search finds what fits
            raise ValueError(NEEDED_TO_SUM)
        return self

    @property
    def can_be_summed(self) -> bool:
        """Whether loss `summed` can be computed with the other settings."""
        learnt = (self.ranked, self.questions, self.rivals, self.unification) == ("hidden", "both", "all", "concat")
        bodies = self.select not in FIXED_RULES and all(Template.parse(t).length <= 1 for t in self.templates)
        return learnt and bodies and self.neighbours != "nearest" and self.hidden_facts > 0
