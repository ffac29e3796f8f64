"""Settings of the Conditional Theorem Prover."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from ctp_core.base.config import BaseConfig
from ctp_core.errors import CtpError
from ctp_core.kb.knowledge_base import Kind
from ctp_core.prolog_rules import parse_rule
from ctp_core.rules import Template
from ctp_core.tnorm import TNORMS

SelectName = Literal["linear", "attentive", "memory", "ntp", "gntp"]
# Systems of their own in the paper: their rules do not depend on the goal.
FIXED_RULES = ("ntp", "gntp")
ProverName = Literal["tabled", "exact"]
if TYPE_CHECKING:
    SemiringName = str
else:
    SemiringName = Literal[tuple(TNORMS)]  # read from the registry, so that a new t-norm is named there alone

UNREAD: dict[Kind, tuple[str, ...]] = {
    "facts": (
        *("prover", "rules", "head", "gate", "relaxed", "optimiser", "distinct", "weight_power", "steps"),
        *("validation", "patience"),
    ),
    "graphs": (
        *("unification", "search", "nearest", "nearest_every", "negatives", "initial_range", "entity_scale"),
        *("entity_start", "loss", "rule_rate", "hidden_facts", "hidden_subjects", "ranked", "questions", "rivals"),
        "predicate_weight",
    ),
}


def _template(text: str) -> str:
    try:
        template = Template.parse(text)
    except CtpError as error:
        raise ValueError(str(error)) from None
    if template.about:
        raise ValueError(f"template {text!r} is about one entity alone: give 0, n or nR, such as 1, 1R or 2")
    return str(template)


def _rule(text: str) -> str:
    try:
        parse_rule(text)
    except CtpError as error:
        raise ValueError(str(error)) from None
    return text


class CtpConfig(BaseConfig):
    """A Conditional Theorem Prover; the defaults are the paper's. What is read on one kind of KB only: UNREAD."""

    method: Literal["ctp"] = "ctp"
    select: SelectName = Field(default="linear", description="How bodies are generated from a goal's predicate.")
    templates: tuple[Annotated[str, AfterValidator(_template)], ...] = Field(
        default=("0", "2"),
        min_length=1,
        max_length=64,
        description="One entry per reformulator: 0, n or nR; `0` matches facts.",
    )
    depth: int | None = Field(
        default=1,
        ge=0,
        le=1000,
        description="Of answers; on graphs null is the fixpoint (tabled) or what the graph needs (exact).",
    )
    semiring: SemiringName = Field(default="max-min", description="⊕–⊗ with which the model answers.")
    dim: int = Field(default=50, ge=1, le=4096, description="Length of the vectors of predicates and entities.")
    slope: float = Field(default=1.0, gt=0, le=1000, description="Of the kernel exp(-slope · distance).")
    memory: int = Field(default=32, ge=1, le=10_000, description="Rules stored, for select `memory`.")
    memory_start: float = Field(
        default=1.0, gt=0, le=100, description="Rules stored start as this times N(0, 1): near zero is near to all."
    )
    top_k: int = Field(default=4, ge=1, le=1000, description="Rules tried per goal, for select `gntp`.")
    learning_rate: float = Field(default=0.1, gt=0, le=10)
    batch_size: int = Field(default=16, ge=1)
    eval_every: int = Field(default=10, ge=1, description="Epochs between two validations.")
    prover: ProverName = Field(
        default="exact", description="`exact` is the paper's recursion; `tabled` closes sub-goals over predicates."
    )
    train_depth: int = Field(default=2, ge=1, le=10, description="Of training; on facts `depth` if that is less.")
    rules: tuple[Annotated[str, AfterValidator(_rule)], ...] = Field(
        default=(), max_length=1000, description="Fixed rules in Prolog, such as `0.9::p(X,Y) :- q(X,Z), r(Z,Y).`"
    )
    head: bool = Field(default=False, description="Generate heads as well (f_H) and unify them with the goal.")
    gate: bool = Field(default=False, description="Learn for each goal how much each rule is believed.")
    relaxed: bool = Field(default=True, description="Train `tabled` with sums and noisy-or in the place of max.")
    optimiser: Literal["adam", "adagrad"] = "adagrad"
    schedule: Literal["one-cycle", "constant"] = "constant"
    distinct: bool = Field(default=False, description="Train on distinct graphs with weights, not on every row.")
    weight_power: float = Field(default=1.0, ge=0, le=1, description="A graph seen n times weighs n to this power.")
    steps: int | None = Field(
        default=None, ge=1, description="Gradient steps that are enough: with many graphs fewer epochs are made."
    )
    validation: float = Field(default=0.0, ge=0, le=0.5, description="Share held out where there is no valid split.")
    patience: int | None = Field(default=None, ge=1, description="Validations without improvement before stopping.")
    unification: Literal["concat", "per_symbol"] = Field(
        default="concat", description="One kernel over the three concatenated vectors, or the minimum of three."
    )
    search: Literal["auto", "tables", "nearest"] = Field(
        default="auto",
        description="`tables` of all pairs of entities are exact; with `nearest` an entity may be taken only for those "
        "nearest to it, which finds the best of fewer proofs; `auto` takes tables where they fit.",
    )
    nearest: int = Field(
        default=8, ge=1, le=1000, description="For search `nearest`: entities, with itself, that each may be taken for."
    )
    nearest_every: int = Field(default=100, ge=1, description="Steps between two searches for the nearest entities.")
    negatives: int = Field(default=1, ge=1, description="Times subject, object and both are corrupted, per fact.")
    initial_range: float = Field(default=1.0, gt=0, description="Vectors start uniform in ±this.")
    entity_scale: float = Field(
        default=1.0, gt=0, le=100, description="Entities start uniform in ± this times `initial_range`: crisper."
    )
    entity_start: Literal["uniform", "facts"] = Field(
        default="uniform",
        description="Entities start anywhere, as published, or, by `facts`, near to those that are stated of the same.",
    )
    loss: Literal["sampled", "all", "summed"] = Field(
        default="sampled",
        description="Each fact against corrupted ones, as published, or against all objects and all subjects: "
        "`batch_size` then counts predicates, each with all its facts. `summed` learns from the sum over all proofs, "
        "which is sharpened until the best one decides; it takes `ranked` hidden and bodies of one atom.",
    )
    predicate_weight: float = Field(
        default=0.0,
        ge=0,
        description="For loss `summed`: what the predicate of (s, ?, o) counts beside its object and its subject, "
        "told among the predicates of a batch.",
    )
    rule_rate: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="The share of `learning_rate` at which `select` learns: every weight of a map moves what it makes.",
    )
    hidden_facts: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="For loss `all`: the share of the facts hidden from proofs in each step, so that they do not all "
        "come to rest on the same few.",
    )
    hidden_subjects: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="For loss `all`: the share of subjects of each predicate whose facts of it are all hidden, to "
        "be proved by what else is known.",
    )
    ranked: Literal["all", "hidden"] = Field(
        default="all", description="For loss `all`: the facts ranked in a step; those not hidden as if not there."
    )
    questions: Literal["both", "objects"] = Field(
        default="both", description="For loss `all`: (s, p, ?) and (?, p, o) are learnt, or (s, p, ?) alone."
    )
    rivals: Literal["all", "local", "exclusive"] = Field(
        default="all",
        description="For loss `all`: rivals of a subject or object are all entities, those of which the predicate is "
        "stated at all (`local`: a local closed world), or those never stated together with it of the same entity.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "CtpConfig":
        if self.prover == "tabled" and not TNORMS[self.semiring].associative:
            raise ValueError(f"{self.semiring} is not associative and works with prover exact only")
        if self.loss == "summed" and not self._can_be_summed():
            raise ValueError(
                "loss 'summed' takes unification concat, search auto or tables, select linear, attentive or memory, "
                "templates 0, 1 and 1R, `hidden_facts`, ranked hidden, questions both and rivals all: use loss 'all'"
            )
        return self

    def _can_be_summed(self) -> bool:
        learnt = (self.ranked, self.questions, self.rivals, self.unification) == ("hidden", "both", "all", "concat")
        bodies = self.select not in FIXED_RULES and all(Template.parse(t).length <= 1 for t in self.templates)
        return learnt and bodies and self.search != "nearest" and self.hidden_facts > 0

    def unread(self, kind: Kind) -> dict[str, Any]:
        """Settings that were given a value of their own and say nothing on a KB of this kind."""
        given = {name: getattr(self, name) for name in UNREAD[kind]}
        return {name: value for name, value in given.items() if value != CtpConfig.model_fields[name].default}
