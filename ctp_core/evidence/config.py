"""Settings of the models that add evidence. Their presets, which follow from measuring, are in candidates.py."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from ctp_core.base.config import EvalEvery, LearningRate, SearchedConfig
from ctp_core.rules import Template

EvidenceTemplate = Literal["1", "1X", "1Y", "2", "3", "4", "5", "6"]
Loss = Literal["binary", "softmax", "open_world"]
Counting = Literal["number", "share"]
MAX_REFORMULATORS = 256  # per template: each has a table of all pairs of entities for every predicate of a batch
# What training keeps to, and what forecasts therefore count on.
MAX_MINED_WALKS = 2_000_000  # of a batch of facts; more are sampled, because few entities may have billions of walks
MAX_MINED_DEGREE = 200  # an entity with more edges is not walked through: it joins everything to everything
MAX_MIDDLE_DEGREE = 60  # an entity with more edges is never the middle of a body with constants, for the same reason
MAX_GROUNDINGS = 6e6  # of all rules for all questions of a predicate: bounds the memory of a fit
CHOOSING_FACTS = 3000  # validation facts that choose the weights of rules with constants
VALIDATION = 1000  # facts ranked at the end of mining


class MinedConfig(SearchedConfig):
    """How rules are read off paths between the entities of facts, and their weights learnt, predicate by predicate."""

    max_length: int = Field(
        default=5,
        ge=1,
        le=5,
        description="Maximum number of facts in a rule's body, 1 to 5. Longer rules explain more; the time grows "
        "quickly.",
    )
    sample: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Facts of each predicate that rules are searched in and fitted to, 1 to 1,000,000. More find more "
        "rules and take longer.",
    )
    rules_per_template: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="Rules of each shape kept for each predicate, 1 to 100,000. More explain more and take longer.",
    )
    min_support: int = Field(
        default=2,
        ge=1,
        le=1_000_000,
        description="Sampled facts that a rule must explain to be kept, 1 to 1,000,000. Higher values drop rules that "
        "hold by chance.",
    )
    steps: int = Field(
        default=40,
        ge=1,
        le=100_000,
        description="Maximum number of learning steps for the rule weights of one predicate, 1 to 100,000. More fit "
        "better and take longer.",
    )
    mined_paths: float = Field(
        default=5e7,
        gt=0,
        le=1e10,
        description="Paths that are looked at to find rules, for all predicates together, above 0 and up to "
        "10,000,000,000. More find more rules and take longer.",
    )
    groundings: float = Field(
        default=5e7,
        gt=0,
        le=1e10,
        description="Groundings of rules that their weights are fitted to, for all predicates together, above 0 and "
        "up to 10,000,000,000. More fit better, and take longer.",
    )
    constants: bool = Field(
        default=True,
        description="Also count rules about named entities, p(X,c) :- q(X,d); how much they weigh is chosen on "
        "validation facts.",
    )
    constant_atoms: int = Field(
        default=1,
        ge=1,
        le=2,
        description="Maximum number of facts in the body of a rule about named entities, 1 or 2; 2 adds "
        "p(X,c) :- q(X,Z), r(Z,d) and takes longer.",
    )


class ProofsConfig(MinedConfig):
    """Link prediction by proofs alone: logit(p, s, o) = b_p + Σ_g softplus(w_pg) · h(c_g) + Σ_rules w · h(c).

    The first sum is over chains that attention weighs, the second over rules that were mined, each with a weight of its
    own, and rules with constants. Either may be missing.
    """

    on_other_kbs: ClassVar[bool] = True
    method: Literal["proofs"] = "proofs"
    templates: dict[EvidenceTemplate, Annotated[int, Field(ge=1, le=MAX_REFORMULATORS)]] = Field(
        default={"1": 8, "2": 8},
        description="Shapes of the rules to learn by attention, and how many of each (1 to 256) for every predicate. A "
        "number n is a chain of n facts from subject to object, each read in either direction. `1X` and `1Y` look at a "
        "single fact about the subject or about the object: what kind of thing it is. More and longer rules explain "
        "more and take longer. Empty, where `mined` is true: no attention.",
    )
    mined: bool = Field(
        default=False,
        description="Whether rules are also mined from paths between entities, each with a weight of its own. How much "
        "they count beside attention is chosen on validation facts.",
    )
    rule_sparsity: float = Field(
        default=0.02,
        ge=0,
        le=1000,
        description="Pressure towards few mined rules, 0 (none) to 1,000. Higher values leave fewer rules.",
    )
    members: int = Field(
        default=1,
        ge=1,
        le=32,
        description="Models trained side by side from different random starts, 1 to 32; the answer is their mean, "
        "with the rules of all. More are more accurate and take proportionally longer.",
    )
    loss: Loss = Field(
        default="binary",
        description="What is learnt: `binary` judges every possible fact as true or false; `softmax` ranks the true "
        "object among all objects and the true subject among all subjects; `open_world` is `binary`, but milder with "
        "facts that are not stated and look true.",
    )
    saturation: float | None = Field(
        default=None,
        gt=0,
        le=100,
        description="For rules with one fact: how fast further evidence stops counting, above 0 and up to 100. c facts "
        "add c / (saturation + c), so at a small value the first fact says nearly everything. null: each fact counts "
        "fully.",
    )
    counting: Counting = Field(
        default="number",
        description="What longer rules count: the `number` of ways to get from subject to object, or their `share` of "
        "all ways that start at the subject. A share suits predicates with one true object, such as a country's "
        "continent.",
    )
    learning_rate: LearningRate = 0.05
    batch_size: int = Field(
        default=8,
        ge=1,
        le=100_000,
        description="Predicates in one learning step, 1 to 100,000, each with all pairs of entities. More need more "
        "memory.",
    )
    sparsity: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="Pressure towards few rules, 0 (none) to 1,000. Higher values leave fewer rules, which are easier "
        "to read.",
    )
    hidden_facts: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the facts hidden from proofs in each step, from 0 to below 1. Hiding more makes the "
        "model rely on more different facts.",
    )
    ranked: Literal["all", "hidden"] = Field(
        default="all",
        description="Which facts a step learns to find: `all`, each as if it were not stated, or only those `hidden` "
        "in the step, which takes about half of the time.",
    )
    initial_scale: float = Field(
        default=1.0,
        ge=0,
        le=100,
        description="How different rules are before training, 0 to 100. Larger values start with more decided rules.",
    )
    eval_every: EvalEvery = 10

    @model_validator(mode="after")
    def _has_something_to_find(self) -> "ProofsConfig":
        if self.ranked == "hidden" and not self.hidden_facts:
            raise ValueError("ranked 'hidden' finds the facts that are hidden: give `hidden_facts` a share above 0")
        if not self.templates and not self.mined:
            raise ValueError("there is nothing to learn: give `templates`, or set `mined`")
        return self

    @property
    def mining(self) -> "RulesConfig":
        """The settings of the mined rules alone."""
        shared = {name: getattr(self, name) for name in MINED}
        return RulesConfig(seed=self.seed, sparsity=self.rule_sparsity, **shared)

    @property
    def widths(self) -> dict[Template, int]:
        """The number of reformulators of each template."""
        return {Template.parse(name): width for name, width in self.templates.items()}


class RulesConfig(MinedConfig):
    """Mined rules alone: the same engine without attention."""

    former: ClassVar[dict[str, str]] = {"rules": "rules_per_template"}

    on_other_kbs: ClassVar[bool] = True
    method: Literal["rules"] = "rules"
    epochs: int = Field(
        default=10_000,
        ge=1,
        le=10_000,
        description="Maximum number of parts in which the predicates are learnt, those with most facts first, 1 to "
        "10,000: progress is kept after each. All predicates are learnt, whatever the number.",
    )
    learning_rate: float = Field(
        default=0.1,
        gt=0,
        le=10,
        description="Has no effect: weights are fitted by a method that finds the size of its steps itself. Accepted, "
        "because earlier versions had it.",
    )
    sparsity: float = Field(
        default=0.02,
        ge=0,
        le=1000,
        description="Pressure towards few rules, 0 (none) to 1,000. Higher values leave fewer rules, which are easier "
        "to read.",
    )


MINED = tuple(MinedConfig.__annotations__)  # the settings of mining, which both methods have
