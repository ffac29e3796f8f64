"""Settings of the models that add evidence: `proofs` on dense tables, `rules` on edge lists where these do not fit.

How their presets were found, on validation alone, is in docs/lab/links.md.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from ctp_core.base.config import BaseConfig, EvalEvery, LearningRate
from ctp_core.kb.profile import DENSE, Profile
from ctp_core.rules import Template

EvidenceTemplate = Literal["1", "1X", "1Y", "2", "3", "4", "5", "6"]
Loss = Literal["binary", "softmax", "open_world"]
Counting = Literal["number", "share"]
MAX_REFORMULATORS = 256  # per template: each has a table of all pairs of entities for every predicate of a batch
LONG_CHAINS = 150_000  # facts up to which bodies of five atoms are counted in minutes
FEW_PATHS = 1e5  # paths of five atoms from one entity on average: proofs by six atoms are searched among these
CHEAP_CHAINS = 5e7  # predicates × entities³: where a third body atom still trains within a minute


class ProofsConfig(BaseConfig):
    """Link prediction by proofs alone: logit(p, s, o) = b_p + Σ_g softplus(w_pg) · h(c_g)."""

    method: Literal["proofs"] = "proofs"
    templates: dict[EvidenceTemplate, Annotated[int, Field(ge=1, le=MAX_REFORMULATORS)]] = Field(
        default={"1": 8, "2": 8},
        min_length=1,
        description="Shapes of the rules to learn, and how many of each (1 to 256) for every predicate. A number n is "
        "a chain of n facts from subject to object, each read in either direction. `1X` and `1Y` look at a single fact "
        "about the subject or about the object: what kind of thing it is. More and longer rules explain more and take "
        "longer.",
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
        description="Predicates in one learning step, from 1, each with all pairs of entities. More need more memory.",
    )
    sparsity: float = Field(
        default=0.0,
        ge=0,
        description="Pressure towards few rules, from 0 (none). Higher values leave fewer rules, which are easier to "
        "read.",
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
        description="How different rules are before training, from 0. Larger values start with more decided rules.",
    )
    eval_every: EvalEvery = 10

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

    former: ClassVar[dict[str, str]] = {"rules": "rules_per_template"}

    method: Literal["rules"] = "rules"
    epochs: int = Field(
        default=10_000,
        ge=1,
        le=10_000,
        description="Maximum number of predicates to learn rules for, those with most facts first, 1 to 10,000.",
    )
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
        description="Facts of each predicate that rules are searched in and fitted to, from 1. More find more rules "
        "and take longer.",
    )
    rules_per_template: int = Field(
        default=100,
        ge=1,
        description="Rules of each shape kept for each predicate, from 1. More explain more and take longer.",
    )
    min_support: int = Field(
        default=2,
        ge=1,
        description="Sampled facts that a rule must explain to be kept, from 1. Higher values drop rules that hold by "
        "chance.",
    )
    steps: int = Field(
        default=150,
        ge=1,
        description="Learning steps for the rule weights of one predicate, from 1. More fit better and take longer.",
    )
    learning_rate: LearningRate = 0.1
    sparsity: float = Field(
        default=0.02,
        ge=0,
        description="Pressure towards few rules, from 0 (none). Higher values leave fewer rules, which are easier to "
        "read.",
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


def proofs_preset(profile: Profile, preset: str) -> ProofsConfig | RulesConfig:
    """Attention over chains, or mined rules where the tables of all pairs of entities would be too large."""
    best = preset == "best"
    if profile.large:
        return rules_preset(profile)
    if profile.small:
        return ProofsConfig(epochs=200, learning_rate=0.1, sparsity=0.1, hidden_facts=0.1)
    if profile.density > DENSE:
        return _dense_proofs(members=6 if best else 2)
    if profile.few_predicates:
        return _few_predicates_proofs(profile)
    if profile.num_predicates * profile.num_entities**3 < CHEAP_CHAINS:
        templates = {"1": 8, "1X": 2, "1Y": 2, "2": 16, "3": 8}
        return ProofsConfig(epochs=60, loss="softmax", templates=templates, members=3 if best else 1)
    long, wide = {"1": 8, "1X": 4, "1Y": 4, "2": 24, "3": 12}, {"1": 8, "1X": 8, "1Y": 8, "2": 16}
    chosen: dict[str, Any] = {"epochs": 100, "templates": long} if best else {"learning_rate": 0.1, "templates": wide}
    return ProofsConfig(**{"epochs": 60, "loss": "softmax", **chosen})


def _dense_proofs(members: int) -> ProofsConfig:
    """Trains to the last epoch, as in cross-validation: so few validation facts cannot tell which epoch is best."""
    return ProofsConfig(
        epochs=90,
        eval_every=90,
        templates={"1": 8, "2": 8},
        loss="open_world",
        saturation=0.2,
        sparsity=0.05,
        hidden_facts=0.3,
        members=members,
    )


def _few_predicates_proofs(profile: Profile) -> ProofsConfig:
    """Where there is time for it, chains that count by their share, and no choice between epochs: what is withheld
    together with the validation facts, as Countries S3 withholds the regions of neighbours, makes ranks among all
    entities misleading. Up to six atoms where paths are few; with most facts hidden, longer chains learn to stand in
    for shorter ones."""
    if profile.num_predicates * profile.num_entities**3 >= CHEAP_CHAINS:
        return ProofsConfig(epochs=60, templates={"1": 4, "2": 8, "3": 8})
    degree = 2 * profile.num_facts / profile.num_entities
    templates: dict[Any, int] = {"1": 2, "2": 3, "3": 3, "4": 3}
    learnt: dict[str, Any] = {"hidden_facts": 0.5, "ranked": "hidden", "learning_rate": 0.2}
    if degree**5 < FEW_PATHS:
        templates, learnt["hidden_facts"] = {str(atoms): 1 for atoms in range(1, 7)}, 0.7
    return ProofsConfig(epochs=70, eval_every=70, templates=templates, counting="share", members=3, **learnt)


def rules_preset(profile: Profile, preset: str = "") -> RulesConfig:
    """The more facts, and the more of them between the same entities, the shorter the bodies that can be counted.

    One effort is enough for every preset.
    """
    del preset
    if profile.small:
        return RulesConfig(max_length=2)
    if not profile.large:
        return RulesConfig(max_length=3 if profile.few_predicates else 2, sample=300, steps=60)
    if profile.num_facts < LONG_CHAINS:
        return RulesConfig(sample=1500, rules_per_template=150, steps=200, learning_rate=0.2, constant_atoms=2)
    return RulesConfig(max_length=2, sample=150, steps=60)
