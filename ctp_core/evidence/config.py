"""Settings of the models that add evidence: `proofs` on dense tables, `rules` on edge lists where these do not fit."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ctp_core.base.config import BaseConfig
from ctp_core.rules import Template

EvidenceTemplate = Literal["1", "1X", "1Y", "2", "3", "4", "5", "6"]
Loss = Literal["binary", "softmax", "open_world"]
Counting = Literal["number", "share"]
MAX_REFORMULATORS = 256  # of one template: each has a table of all pairs of entities for every predicate of a batch


class ProofsConfig(BaseConfig):
    """Link prediction by proofs alone: logit(p, s, o) = b_p + Σ_g softplus(w_pg) · h(c_g)."""

    method: Literal["proofs"] = "proofs"
    templates: dict[EvidenceTemplate, Annotated[int, Field(ge=1, le=MAX_REFORMULATORS)]] = Field(
        default={"1": 8, "2": 8},
        min_length=1,
        description="Template -> number of reformulators. Every body atom attends to all predicates and their "
        "inverses, so that `1` covers `1R`. `1X` and `1Y` are p(X,Y) :- q(X,Z) and p(X,Y) :- q(Y,Z): what a fact "
        "elsewhere says of the kind of thing X or Y is.",
    )
    members: int = Field(
        default=1,
        ge=1,
        le=32,
        description="Heads that start at random and learn side by side; the model is their mean, with all their rules.",
    )
    loss: Loss = Field(
        default="binary",
        description="One-vs-all on every pair of entities: cross-entropy of each fact, or of the true object among all "
        "objects and the true subject among all subjects. `open_world` is `binary` where what is not stated may be "
        "true: a pair that looks like a fact is punished less for not being one.",
    )
    saturation: float | None = Field(
        default=None,
        gt=0,
        le=100,
        description="Bodies of one atom add h(c) = c / (saturation + c): the first fact between a pair says most, and "
        "any of several predicates will do. null: h(c) = c. Longer bodies add c / (1 + c) in any case.",
    )
    counting: Counting = Field(
        default="number",
        description="What longer bodies add: h = c / (1 + c) of the number c of groundings between two entities, or "
        "their share, c / (1 + all groundings from the subject): for predicates that hold of one object of a kind, "
        "whose rivals take from its share.",
    )
    learning_rate: float = Field(default=0.05, gt=0, le=10)
    batch_size: int = Field(default=8, ge=1, description="Predicates in one step; each brings all its pairs.")
    sparsity: float = Field(default=0.0, ge=0, description="Weight of Σ_g softplus(w_pg) in the loss: fewer rules.")
    hidden_facts: float = Field(
        default=0.0, ge=0, lt=1, description="Share of the facts hidden from bodies in each step: evidence spreads."
    )
    ranked: Literal["all", "hidden"] = Field(
        default="all",
        description="The facts that a step is to find: all, each as if it were not stated, or those hidden in it, "
        "which takes about half of the time.",
    )
    initial_scale: float = Field(default=1.0, ge=0, description="Deviation of the initial attention logits.")
    eval_every: int = Field(default=10, ge=1, description="Epochs between two validations.")

    @model_validator(mode="after")
    def _has_something_to_find(self) -> "ProofsConfig":
        if self.ranked == "hidden" and not self.hidden_facts:
            raise ValueError("ranked 'hidden' finds the facts that are hidden: give `hidden_facts` a share above 0")
        return self

    @property
    def widths(self) -> dict[Template, int]:
        """The number of reformulators of each template."""
        return {Template.parse(name): width for name, width in self.templates.items()}


class RulesConfig(BaseConfig):
    """Rules are read off paths between the entities of facts; their weights are learnt, a predicate an epoch."""

    method: Literal["rules"] = "rules"
    epochs: int = Field(default=10_000, ge=1, le=10_000, description="Predicates learnt at most, largest first.")
    max_length: int = Field(default=5, ge=1, le=5, description="Body atoms at most.")
    sample: int = Field(default=1000, ge=1, description="Facts of a predicate that rules are mined from and fitted to.")
    rules: int = Field(default=100, ge=1, description="Rules of each template kept for a predicate.")
    min_support: int = Field(default=2, ge=1, description="Sampled facts that a rule must explain.")
    steps: int = Field(default=150, ge=1, description="Steps of the fit of one predicate.")
    learning_rate: float = Field(default=0.1, gt=0, le=10)
    sparsity: float = Field(default=0.02, ge=0, description="Weight of the sum of all rule weights in the loss.")
    constants: bool = Field(
        default=True,
        description="Also count rules with constants, p(X,c) :- q(X,d); their weight is chosen on validation facts.",
    )
    constant_atoms: int = Field(
        default=1, ge=1, le=2, description="Body atoms at most of rules with constants; two: p(X,c) :- q(X,Z), r(Z,d)."
    )
