"""Presets for `kind: facts`. How they were found, on validation alone, is in docs/results/links.md."""

from typing import Literal

from ctp_core.config.base import BaseConfig
from ctp_core.config.ctp import CtpConfig
from ctp_core.config.embeddings import ComplexConfig, DistMultConfig
from ctp_core.config.hybrid import HybridConfig
from ctp_core.config.profile import Profile
from ctp_core.config.proofs import ProofsConfig
from ctp_core.config.rules import RulesConfig
from ctp_core.config.walkers import MinervaConfig, NeuralLpConfig

SMALL_KB = 500  # facts; below it a step costs nothing and there is little to learn from: many plain epochs
DENSE = 0.1  # share of all possible facts that are known (Nations 0.15, Kinship 0.03, UMLS 0.006)
HALF_DENSE = 0.02
FEW_PREDICATES = 5  # their chains are few enough to learn all, and say more than what kind of thing something is
DENSE_CELLS = 2e8  # cells of tables of all pairs that fit in memory with their gradients; beyond, edge lists
LONG_CHAINS = 150_000  # facts up to which all paths of three facts can be listed
CHEAP_CHAINS = 5e7  # predicates × entities³: where a third body atom still trains within a minute

Preset = Literal["fast", "best", "paper", "paper-long"]
FACTS_METHODS = ("proofs", "hybrid", "complex", "distmult", "ctp", "neurallp", "minerva")


def facts_presets(profile: Profile) -> dict[str, BaseConfig]:
    """`fast` shows proofs alone, `best` adds an embedding, the paper's are its prover."""
    return {
        "fast": proofs_config(profile),
        "best": hybrid_config(profile, best=True),
        "paper": ctp_config(profile, "paper"),
        "paper-long": ctp_config(profile, "paper-long"),
    }


def facts_config(profile: Profile, method: str, preset: str) -> BaseConfig:
    """What a preset means for another method than its own: `ctp bench --model complex --preset fast`."""
    best = preset == "best"
    configs: dict[str, BaseConfig] = {
        "proofs": proofs_config(profile, best=best),
        "hybrid": hybrid_config(profile, best=best),
        "complex": complex_config(profile),
        "distmult": DistMultConfig(**complex_config(profile).model_dump(exclude={"method"})),
        "ctp": ctp_config(profile, preset),
        "neurallp": NeuralLpConfig(),
        "minerva": MinervaConfig(),
    }
    return configs[method]


def density(profile: Profile) -> float:
    return profile.num_facts / max(1, profile.num_predicates * profile.num_entities**2)


def proofs_config(profile: Profile, *, best: bool = False) -> ProofsConfig | RulesConfig:
    if profile.num_predicates * profile.num_entities**2 > DENSE_CELLS:
        return RulesConfig() if profile.num_facts < LONG_CHAINS else RulesConfig(max_length=2, sample=150, steps=100)
    if profile.num_facts < SMALL_KB:
        return ProofsConfig(epochs=200, learning_rate=0.1, sparsity=0.1, hidden_facts=0.1)
    if density(profile) > DENSE:
        return ProofsConfig(epochs=60, templates={"1": 16, "2": 16}, sparsity=0.05, hidden_facts=0.2)
    if profile.num_predicates <= FEW_PREDICATES:
        return ProofsConfig(epochs=60, templates={"1": 4, "2": 8, "3": 8})
    if best or profile.num_predicates * profile.num_entities**3 < CHEAP_CHAINS:
        templates = (
            {"1": 8, "1X": 4, "1Y": 4, "2": 24, "3": 12} if best else {"1": 8, "1X": 2, "1Y": 2, "2": 16, "3": 8}
        )
        return ProofsConfig(epochs=100 if best else 60, loss="softmax", templates=templates)
    wide = {"1": 8, "1X": 8, "1Y": 8, "2": 16}
    return ProofsConfig(epochs=60, loss="softmax", learning_rate=0.1, templates=wide)


def complex_config(profile: Profile) -> ComplexConfig:
    """The fewer predicates hold between two entities, the more the question for the predicate teaches."""
    if profile.num_predicates * profile.num_entities**2 > DENSE_CELLS:
        large = ComplexConfig(
            reciprocal=False, grouped=True, rank=100, epochs=10, eval_every=1, n3=0.02, batch_size=500
        )
        if profile.num_facts < LONG_CHAINS:
            return large.model_copy(update={"n3": 0.05, "negatives": 3000, "batch_size": 250, "predicate_weight": 0.1})
        return large
    if profile.num_facts < SMALL_KB:
        return ComplexConfig(reciprocal=False, epochs=40, predicate_weight=0.1)
    if density(profile) > DENSE:
        return ComplexConfig(reciprocal=False, rank=800, epochs=8, eval_every=2, predicate_weight=0.25)
    weight = 5.0 if density(profile) > HALF_DENSE else 0.1
    return ComplexConfig(reciprocal=False, epochs=25, eval_every=5, predicate_weight=weight)


def hybrid_config(profile: Profile, *, best: bool = False) -> HybridConfig:
    return HybridConfig(proofs=proofs_config(profile, best=best), embedding=complex_config(profile))


def ctp_config(profile: Profile, preset: str) -> CtpConfig:
    """The paper's presets are as published; the others learn rankings, and were chosen on validation."""
    return _published(profile, 25 if preset == "paper" else 100) if preset.startswith("paper") else _ranked(profile)


def _published(profile: Profile, epochs: int) -> CtpConfig:
    """The published templates, chosen by density instead of by name; entities are soft."""
    if density(profile) > DENSE:
        return CtpConfig(epochs=epochs, templates=("0", "2", "1R"), batch_size=16)
    if density(profile) > HALF_DENSE:
        return CtpConfig(epochs=epochs, templates=("0", "1", "1R"), select="attentive", batch_size=8)
    return CtpConfig(epochs=epochs, templates=("0", "2"), batch_size=8)


def _ranked(profile: Profile) -> CtpConfig:
    """Against all rivals. Where much is known of every pair, crisp entities; where little is, similar ones."""
    if density(profile) > DENSE:
        return CtpConfig(loss="all", templates=("1", "1R"), batch_size=8, epochs=30, hidden_facts=0.3, entity_scale=3)
    if profile.num_predicates <= FEW_PREDICATES:
        return CtpConfig(loss="all", templates=("0", "2"), batch_size=1, epochs=20, learning_rate=0.3, hidden_facts=0.3)
    return CtpConfig(
        loss="all",
        templates=("0", "1", "1R"),
        dim=100,
        batch_size=2,
        epochs=24,
        learning_rate=0.3,
        schedule="one-cycle",
        hidden_facts=0.7 if density(profile) > HALF_DENSE else 0.5,
    )
