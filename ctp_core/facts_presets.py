"""Presets for `kind: facts`. How they were found, on validation alone, is in docs/lab/links.md."""

from typing import Any, Literal

from ctp_core.base.config import BaseConfig
from ctp_core.base.cost import SUMS, fits_tables
from ctp_core.embeddings.config import ComplexConfig, DistMultConfig
from ctp_core.errors import ConfigError
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.hybrid.config import HybridConfig
from ctp_core.kb.profile import Profile
from ctp_core.select.config import FIXED_RULES, CtpConfig
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig

SMALL_KB = 500  # facts; below it a step costs nothing and there is little to learn from: many plain epochs
DENSE = 0.1  # share of all possible facts that are known (Nations 0.15, Kinship 0.03, UMLS 0.006)
HALF_DENSE = 0.02
FEW_PREDICATES = 5  # their chains are few enough to learn all, and say more than what kind of thing something is
DENSE_CELLS = 2e8  # cells of tables of all pairs that fit in memory with their gradients; beyond, edge lists
LONG_CHAINS = 150_000  # facts up to which bodies of five atoms are counted in minutes
FEW_PATHS = 1e5  # paths of five atoms from one entity on average: proofs by six atoms are searched among these
CHEAP_CHAINS = 5e7  # predicates × entities³: where a third body atom still trains within a minute

Preset = Literal["fast", "best", "paper", "paper-long"]
FACTS_METHODS = ("proofs", "hybrid", "complex", "distmult", "ctp", "neurallp", "minerva", "rules")


def facts_presets(profile: Profile) -> dict[str, BaseConfig]:
    """`fast` shows proofs alone, `best` adds an embedding, the paper's are its prover."""
    return {
        "fast": proofs_config(profile),
        "best": hybrid_config(profile, best=True),
        "paper": ctp_config(profile, "paper"),
        "paper-long": ctp_config(profile, "paper-long"),
    }


def facts_config(profile: Profile, method: str, preset: str, select: str | None = None) -> BaseConfig:
    """What a preset means for another method than its own: `ctp bench --model complex --preset fast`."""
    best = preset == "best"
    configs: dict[str, BaseConfig] = {
        "proofs": proofs_config(profile, best=best),
        "hybrid": hybrid_config(profile, best=best),
        "complex": complex_config(profile, best=best),
        "distmult": DistMultConfig(**complex_config(profile, best=best).model_dump(exclude={"method"})),
        "ctp": ctp_config(profile, preset, select),
        "neurallp": NeuralLpConfig(),
        "minerva": minerva_config(profile),
        "rules": rules_config(profile),
    }
    if method not in configs:
        raise ConfigError(f"there is no method {method!r} for facts: choose from {', '.join(configs)}")
    return configs[method]


def density(profile: Profile) -> float:
    return profile.num_facts / max(1, profile.num_predicates * profile.num_entities**2)


def proofs_config(profile: Profile, *, best: bool = False) -> ProofsConfig | RulesConfig:
    if profile.num_predicates * profile.num_entities**2 > DENSE_CELLS:
        return rules_config(profile)
    if profile.num_facts < SMALL_KB:
        return ProofsConfig(epochs=200, learning_rate=0.1, sparsity=0.1, hidden_facts=0.1)
    if density(profile) > DENSE:
        return _dense_proofs(members=6 if best else 2)
    if profile.num_predicates <= FEW_PREDICATES:
        return _few_predicates_proofs(profile)
    if profile.num_predicates * profile.num_entities**3 < CHEAP_CHAINS:
        templates = {"1": 8, "1X": 2, "1Y": 2, "2": 16, "3": 8}
        return ProofsConfig(epochs=60, loss="softmax", templates=templates, members=3 if best else 1)
    long, wide = {"1": 8, "1X": 4, "1Y": 4, "2": 24, "3": 12}, {"1": 8, "1X": 8, "1Y": 8, "2": 16}
    chosen: dict[str, Any] = {"epochs": 100, "templates": long} if best else {"learning_rate": 0.1, "templates": wide}
    return ProofsConfig(**{"epochs": 60, "loss": "softmax", **chosen})


def _dense_proofs(members: int) -> ProofsConfig:
    """To the last epoch, as cross-validation had it: so few validation facts say little of which one is best."""
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


def rules_config(profile: Profile) -> RulesConfig:
    """The more facts, and the more of them between the same entities, the shorter the bodies that can be counted."""
    if profile.num_facts < SMALL_KB:
        return RulesConfig(max_length=2)
    if profile.num_predicates * profile.num_entities**2 <= DENSE_CELLS:
        few = profile.num_predicates <= FEW_PREDICATES
        return RulesConfig(max_length=3 if few else 2, sample=300, steps=60)
    if profile.num_facts < LONG_CHAINS:
        return RulesConfig(sample=1500, rules=150, steps=200, learning_rate=0.2, constant_atoms=2)
    return RulesConfig(max_length=2, sample=150, steps=60)


def complex_config(profile: Profile, *, best: bool = False) -> ComplexConfig:
    """The fewer predicates hold between two entities, the more the question for the predicate teaches."""
    if profile.num_predicates * profile.num_entities**2 > DENSE_CELLS:
        large = ComplexConfig(reciprocal=False, grouped=True, epochs=14, eval_every=2)
        few_facts: dict[str, Any] = {"rank": 300, "n3": 0.1, "batch_size": 250, "negatives": 3000}
        if profile.num_facts < LONG_CHAINS:
            return large.model_copy(update={**few_facts, "predicate_weight": 0.1})
        sampled: dict[str, Any] = {"batch_size": 250, "negatives": 2000, "weigh_negatives": True}
        short: dict[str, Any] = {"rank": 256, "epochs": 12, "decay": 1 / 3}
        long: dict[str, Any] = {"rank": 400, "epochs": 20, "decay": 0.45}
        return large.model_copy(update={"n3": 0.05, **(long if best else short), **sampled})
    if profile.num_facts < SMALL_KB:
        return ComplexConfig(reciprocal=False, epochs=40, predicate_weight=0.1)
    if density(profile) > DENSE:
        return ComplexConfig(reciprocal=False, rank=800, epochs=8, eval_every=2, predicate_weight=0.25)
    weight = 5.0 if density(profile) > HALF_DENSE else 0.1
    return ComplexConfig(reciprocal=False, epochs=25, eval_every=5, predicate_weight=weight)


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


def hybrid_config(profile: Profile, *, best: bool = False) -> HybridConfig:
    """Both parts as they are alone. On a small dense KB validation does not tell the weight; cross-validation did."""
    weight = 0.5 if profile.num_facts >= SMALL_KB and density(profile) > DENSE else None
    embedding = complex_config(profile, best=best)
    return HybridConfig(proofs=proofs_config(profile, best=best), embedding=embedding, weight=weight)


def minerva_config(profile: Profile) -> MinervaConfig:
    """Two steps, as published; three where predicates are so few that all sequences of them can be followed."""
    few = profile.num_predicates <= FEW_PREDICATES
    return MinervaConfig(length=3, epochs=100, batch_size=1, learning_rate=0.02) if few else MinervaConfig()


def ctp_config(profile: Profile, preset: str, select: str | None = None) -> CtpConfig:
    """The paper's presets are as published; the others learn rankings, and were chosen on validation."""
    if preset.startswith("paper"):
        return _published(profile, 25 if preset == "paper" else 100)
    return _ranked(profile, fixed_rules=select in FIXED_RULES)


def _published(profile: Profile, epochs: int) -> CtpConfig:
    """The published templates, chosen by density instead of by name; entities are soft."""
    if not fits_tables(profile.num_entities, profile.num_predicates):
        return _nearest(max(1, epochs // 10))  # corrupted facts are out of reach of proofs there: nothing to learn from
    learnt: dict[str, Any] = {"epochs": epochs, "negatives": 3}  # of each of three kinds: nine corrupted facts
    if density(profile) > DENSE:
        return CtpConfig(templates=("0", "2", "1R"), batch_size=16, **learnt)
    if density(profile) > HALF_DENSE:
        return CtpConfig(templates=("0", "1", "1R"), select="attentive", batch_size=8, **learnt)
    return CtpConfig(templates=("0", "2"), batch_size=8, **learnt)


def _ranked(profile: Profile, *, fixed_rules: bool) -> CtpConfig:
    """Against all rivals. Where much is known of every pair, or there is little to learn from, crisp entities; else
    similar ones."""
    if not fits_tables(profile.num_entities, profile.num_predicates):
        return _nearest(1)
    if profile.num_facts < SMALL_KB:
        return CtpConfig(
            loss="all",
            select="attentive",
            templates=("0", "1", "1R", "2", "2"),
            batch_size=1,
            epochs=100,
            eval_every=100,
            hidden_facts=0.2,
            ranked="hidden",
            entity_scale=3,
        )
    if density(profile) > DENSE:
        return CtpConfig(loss="all", templates=("1", "1R"), batch_size=8, epochs=30, hidden_facts=0.3, entity_scale=3)
    if profile.num_predicates <= FEW_PREDICATES:
        return CtpConfig(
            loss="all",
            templates=("0", "2", "2"),
            dim=100,
            entity_start="facts",
            batch_size=1,
            epochs=40,
            eval_every=40,
            learning_rate=0.3,
            schedule="one-cycle",
            hidden_facts=0.6,
            hidden_subjects=0.5,
            ranked="hidden",
            questions="objects",
            rivals="exclusive",
        )
    half_dense = density(profile) > HALF_DENSE
    if half_dense and not fixed_rules and fits_tables(profile.num_entities, SUMS * profile.num_predicates):
        return _summed(profile)
    return CtpConfig(
        loss="all",
        templates=("0", "1", "1R") if half_dense else ("0", "2"),
        dim=100,
        entity_start="facts",
        batch_size=2,
        epochs=24 if half_dense else 10,
        learning_rate=0.3,
        schedule="one-cycle",
        hidden_facts=0.7 if half_dense else 0.5,
        ranked="hidden",
    )


def _summed(profile: Profile) -> CtpConfig:
    """By all proofs, all predicates in a step: between two entities hardly more than one of them holds, and to tell
    which teaches most. To the last epoch, since only there the best proof decides."""
    return CtpConfig(
        loss="summed",
        select="attentive",
        templates=("0", "1R"),
        dim=100,
        entity_start="facts",
        batch_size=profile.num_predicates,
        epochs=100,
        eval_every=100,
        learning_rate=0.3,
        rule_rate=0.1,
        schedule="one-cycle",
        hidden_facts=0.7,
        ranked="hidden",
        predicate_weight=5,
    )


def _nearest(epochs: int) -> CtpConfig:
    """Entities are taken only for those nearest to them."""
    return CtpConfig(
        loss="all",
        templates=("0", "1R", "2"),
        entity_start="facts",
        batch_size=128,
        epochs=epochs,
        eval_every=1,
        rule_rate=0.1,
    )
