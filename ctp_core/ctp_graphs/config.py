"""Settings of the prover on a KB of graphs, and its presets.

Presets depend on the number of predicates, the size of the training graphs and the direction of their facts. How they
were found, without looking at a test file, is in docs/lab/clutrr.md.
"""

import math
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from ctp_core.base.config import GraphsConfig
from ctp_core.kb.profile import Profile
from ctp_core.presets import Preset
from ctp_core.select.config import CtpConfig, GivenRule, SemiringName
from ctp_core.select.registry import FIXED_RULES, SelectName
from ctp_core.tnorm.registry import TNORMS, semiring_text

ProverName = Literal["tabled", "exact"]

MAX_REFORMULATORS = 32
MAX_TRAIN_DEPTH = 6
MAX_STATIC_RULES = 64
MAX_MEMBERS = 16
MEMBERS = 5  # three still depended on the seed on validation graphs, and twenty were no better
BESIDE_CHAINS = 2  # reformulators of each template besides chains: a predicate may follow from two others


class CtpGraphsConfig(CtpConfig, GraphsConfig):
    """Settings of a Conditional Theorem Prover on graphs; the defaults are the paper's."""

    # One config once served both kinds, so stored configs also name the settings of the other kind.
    former: ClassVar[dict[str, None]] = dict.fromkeys(
        (
            *("unification", "search", "nearest", "nearest_every", "negatives", "initial_range", "entity_scale"),
            *("entity_start", "loss", "rule_rate", "hidden_facts", "hidden_subjects", "ranked", "questions", "rivals"),
            "predicate_weight",
        )
    )

    prover: ProverName = Field(
        default="exact",
        description="How proofs are searched: `exact` is the recursion of the paper; `tabled` proves each sub-question "
        "once and reuses it, which stays fast on large graphs.",
    )
    depth: int | None = Field(
        default=1,
        ge=0,
        le=1000,
        description="How many times rules may be applied within rules when answering, 0 to 1000. null: as deep as the "
        "graph needs. Deeper finds longer proofs and takes longer.",
    )
    semiring: SemiringName = Field(
        default="max-min",
        description=semiring_text(TNORMS),
    )
    rules: tuple[GivenRule, ...] = Field(
        default=(),
        max_length=1000,
        description="Your own rules, at most 1000, used unchanged beside the learnt ones. Write them as "
        "`0.9::p(X,Y) :- q(X,Z), r(Z,Y).`",
    )
    head: bool = Field(
        default=False,
        description="Let rules choose their own conclusion and compare it with the question, instead of always "
        "concluding the question itself.",
    )
    gate: bool = Field(
        default=False,
        description="Learn how much each rule is believed for each question, so that spare rules can switch "
        "themselves off.",
    )
    relaxed: bool = Field(
        default=True,
        description="For prover `tabled`: let all proofs of a training graph teach, not only the best one.",
    )

    members: int = Field(
        default=1,
        ge=1,
        le=MAX_MEMBERS,
        description="For prover `tabled`: how many provers are trained side by side from different starts, 1 to 16. "
        "The weights of their rules are averaged. More of them depend less on the seed and take longer to train.",
    )

    @model_validator(mode="after")
    def _fits(self) -> "CtpGraphsConfig":
        if self.prover == "tabled" and not TNORMS[self.semiring].associative:
            raise ValueError(
                f"semiring {self.semiring} works only with prover exact: choose that prover or another semiring"
            )
        return self

    @property
    def theories(self) -> int:
        """How many theories are trained: the exact prover always has one."""
        return self.members if self.prover == "tabled" else 1


def ctp_graphs_preset(profile: Profile, preset: Preset, select: SelectName | None = None) -> CtpGraphsConfig:
    """The settings of a preset. Without a `select`, the paper's presets use `linear`, the others `attentive`.

    The paper's presets use the exact prover and the published hyper-parameters, the others the tabled one.
    """
    if preset.published:
        paper = _paper(select or "linear")
        return paper.model_copy(update=LONGER) if preset.longer else paper
    return _tabled(profile, select or "attentive", effort=2 if preset.longer else 1)


def _every_bracketing(profile: Profile) -> int:
    """The depth at which the longest chain can be proved in every order.

    With less depth, a chain whose halves mean nothing by themselves would teach wrong rules.
    """
    return min(MAX_TRAIN_DEPTH, max(2, profile.max_length - 1))


def _tabled(profile: Profile, select: SelectName, effort: int) -> CtpGraphsConfig:
    if select in FIXED_RULES:
        return _tabled(profile, "linear", effort).model_copy(update=_static(profile, select, effort))
    # A head that can be composed in many ways needs as many reformulators; spare ones learn to close their gates.
    reformulators = min(MAX_REFORMULATORS, max(4, math.ceil(0.8 * profile.num_predicates)))
    # Attention finds other rules from each start; linear and memory hardly do. Of several members, each needs half of
    # the steps.
    members = MEMBERS if select == "attentive" else 1
    return CtpGraphsConfig(
        select=select,
        prover="tabled",
        templates=("2",) * reformulators + _beside_chains(profile, BESIDE_CHAINS),
        semiring="max-product",
        depth=None,
        train_depth=_every_bracketing(profile),
        dim=16 if select == "memory" else 32,
        gate=True,
        memory=32 * reformulators,
        optimiser="adam",
        schedule="one-cycle",
        learning_rate=0.05 if select == "attentive" else 0.02,
        batch_size=32,
        distinct=True,
        weight_power=0.5,
        validation=0.05,
        eval_every=5,
        epochs=effort * 400,
        steps=effort * (720 if members == 1 else 360),
        members=members,
    )


def _beside_chains(profile: Profile, each: int) -> tuple[str, ...]:
    """Templates for graphs that chains cannot prove: one fact is the path, or some facts point against it."""
    return tuple(template for template in profile.templates for _ in range(each))


def _static(profile: Profile, select: SelectName, effort: int) -> dict[str, Any]:
    """For rules that do not depend on the goal: one for every likely composition, and vectors that start close.

    With predicates from N(0, 1) in 32 dimensions, a proof by one rule (three unifications) would start at 4e-8.
    """
    beside = _beside_chains(profile, min(MAX_STATIC_RULES // 4, profile.num_predicates))
    chains = min(MAX_STATIC_RULES - len(beside), max(8, 4 * profile.num_predicates))
    start = {"dim": 16, "slope": 0.7, "gate": False, "top_k": 16}
    return {
        "select": select,
        "templates": ("2",) * chains + beside,
        "epochs": effort * 800,
        "steps": effort * 2880,
        **start,
    }


# `paper-long`: the paper's model, trained on distinct graphs, and long enough for its sparse gradient.
LONGER = {
    "epochs": 400,
    "steps": 2000,
    "distinct": True,
    "weight_power": 0.5,
    "optimiser": "adam",
    "learning_rate": 0.02,
    "schedule": "one-cycle",
}


def _paper(select: SelectName) -> CtpGraphsConfig:
    return CtpGraphsConfig(
        select=select,
        prover="exact",
        templates=("2",) * 3,
        semiring="max-min",
        depth=None,
        train_depth=2,
        dim=20,
        optimiser="adagrad",
        learning_rate=0.1,
        batch_size=32,
        epochs=5,
    )
