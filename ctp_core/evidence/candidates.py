"""Which settings of the engine are tried on a KB, and how much effort its budget allows.

No setting follows from the shape of a KB: effort follows from forecast cost, all else from measuring.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Any, TypeVar

from ctp_core.base.cost import MAX_TRIED_BYTES
from ctp_core.base.halving import Space
from ctp_core.evidence.config import MinedConfig, ProofsConfig, RulesConfig
from ctp_core.evidence.cost import (
    PROGRAM_BYTES,
    attention_bytes,
    attention_seconds,
    forecast,
    mining_bytes,
    mining_seconds,
)
from ctp_core.kb.profile import Profile
from ctp_core.presets import Preset

FIT_SHARE = 0.66  # of the budget that one full training may take: a search takes up to a third
ALONE_SHARE = 0.85  # the same where nothing is searched
ATTENTION_SHARE = 0.8  # of that, what attention may take
MIN_EPOCHS = 0.4  # the least share of its epochs in which attention still learns
# Efforts of mining, from the largest to the cheapest: the first that fits the budget is used. Paths and groundings are
# in seconds of the budget, so that they grow with it.
MINING: tuple[dict[str, Any], ...] = (
    {"sample": 2000, "rules_per_template": 150, "steps": 40, "max_length": 5, "constant_atoms": 2},
    {"sample": 2000, "rules_per_template": 150, "steps": 40, "max_length": 3, "constant_atoms": 2},
    {"sample": 1000, "rules_per_template": 100, "steps": 40, "max_length": 3, "constant_atoms": 1},
    {"sample": 500, "rules_per_template": 100, "steps": 30, "max_length": 2, "constant_atoms": 1},
    {"sample": 200, "rules_per_template": 60, "steps": 30, "max_length": 2, "constant_atoms": 1},
    {"sample": 100, "rules_per_template": 30, "steps": 20, "max_length": 2, "constant_atoms": 1},
    {"sample": 50, "rules_per_template": 10, "steps": 15, "max_length": 1, "constant_atoms": 1},
)
SHORT = 2  # atoms of a body
PATHS_PER_SECOND, GROUNDINGS_PER_SECOND = 8e5, 5e5  # of the budget; these then take up to a half of it
# What attention may be like, the most promising first.
WIDE: dict[str, Any] = {"loss": "softmax", "templates": {"1": 8, "1X": 4, "1Y": 4, "2": 16}, "epochs": 60}
LONG: dict[str, Any] = {**WIDE, "templates": {"1": 8, "1X": 2, "1Y": 2, "2": 16, "3": 8}}
FORGIVING: dict[str, Any] = {
    **{"loss": "open_world", "templates": {"1": 8, "2": 8}, "epochs": 90, "eval_every": 90},
    **{"saturation": 0.2, "sparsity": 0.05, "hidden_facts": 0.3, "members": 2},
}
BY_SHARE: dict[str, Any] = {
    **{"loss": "binary", "templates": {"1": 2, "2": 3, "3": 3, "4": 3}, "epochs": 70, "eval_every": 70, "members": 3},
    **{"counting": "share", "hidden_facts": 0.5, "ranked": "hidden", "learning_rate": 0.2},
}
LONG_BY_SHARE: dict[str, Any] = {
    **BY_SHARE,
    **{"templates": {str(atoms): 1 for atoms in range(1, 7)}, "hidden_facts": 0.7},
}
# Of those that measure alike the first is taken.
ATTENTION = (LONG, LONG_BY_SHARE, FORGIVING, {**WIDE, "learning_rate": 0.1}, BY_SHARE)
PLAIN: dict[str, Any] = {
    **{"loss": "binary", "templates": {"1": 8, "2": 8}, "epochs": 200, "learning_rate": 0.1},
    **{"sparsity": 0.1, "hidden_facts": 0.1},
}
LITTLE_LESS = 0.75  # share of its epochs that attention hardly misses
BESIDE = 3  # the first effort of mining beside attention, which needs less of it
LEARNT = (
    *("counting", "epochs", "eval_every", "hidden_facts", "learning_rate", "loss", "members", "ranked"),
    *("saturation", "sparsity", "templates"),
)
UNLESS_SAID = {name: ProofsConfig.model_fields[name].default for name in LEARNT}
AFFORDED = ("sample", "rules_per_template", "steps", "max_length", "constant_atoms", "mined_paths", "groundings")
SEARCHED = (*LEARNT, "mined", *AFFORDED)

Config = TypeVar("Config", bound=MinedConfig)


def proofs_preset(profile: Profile, preset: Preset) -> ProofsConfig:
    return within(ProofsConfig(mined=True), profile, preset.budget_seconds(profile.num_facts), SEARCHED)


def rules_preset(profile: Profile, preset: Preset) -> RulesConfig:
    return within(RulesConfig(), profile, preset.budget_seconds(profile.num_facts), AFFORDED)


def within(config: Config, profile: Profile, seconds: float, searched: tuple[str, ...]) -> Config:
    """The settings that are tried first with this budget; `searched` names what measuring may change."""
    open_ = config.model_copy(update={"budget_seconds": seconds, "search": searched})
    return candidates(open_, profile)[0].model_copy(update={"search": searched})


def candidates(config: Config, profile: Profile) -> list[Config]:
    """Each way of attention that fits the budget, with mined rules; mined rules alone where none fits."""
    budget = config.budget(profile.num_facts)
    seconds = FIT_SHARE * budget
    found: list[Any] = []
    if isinstance(config, ProofsConfig):
        found = _attentions(config, profile, seconds)
        config = config.with_searched({"templates": {}, "mined": True})
    if not found:
        found = _minings(config, profile, seconds, MINING)
        if not Space(found, at_effort, lambda one: forecast(one, profile).cpu_seconds, budget).plan():
            # Without a comparison the largest effort is the safer one.
            found = _minings(config, profile, ALONE_SHARE * budget, MINING)[-1:]
    return [one.model_copy(update={"search": ()}) for one in found]


def _attentions(config: ProofsConfig, profile: Profile, seconds: float) -> list[ProofsConfig]:
    """The settings of attention that fit into the budget, some of them with fewer epochs.

    Only the plain setting where the KB has no facts to compare settings on.
    """
    found: list[ProofsConfig] = []
    shortened: list[ProofsConfig] = []  # these are less promising
    for values in ATTENTION if profile.measurable else (PLAIN,):
        one = _affordable(
            config.with_searched({**UNLESS_SAID, "mined": True, **values}), profile, ATTENTION_SHARE * seconds
        )
        if one is None or not one.templates:
            continue
        rest = seconds - attention_seconds(one, profile)
        one = _minings(one, profile, rest, MINING[BESIDE:])[0] if one.mined else one
        kind = shortened if one.epochs < LITTLE_LESS * values["epochs"] and "epochs" in config.search else found
        if one not in kind:
            kind.append(one)
    return [*found, *shortened]


def _affordable(config: ProofsConfig, profile: Profile, seconds: float) -> ProofsConfig | None:
    """The same attention in as many epochs as fit; None where they are too few, or its tables too large."""
    share = min(1.0, seconds / max(1e-9, attention_seconds(config, profile)))
    epochs = max(1, int(config.epochs * share))
    large = PROGRAM_BYTES + attention_bytes(config, profile) > MAX_TRIED_BYTES
    if large or (share < 1 and ("epochs" not in config.search or share < MIN_EPOCHS)):
        return None
    return config.with_searched({"epochs": epochs, "eval_every": min(config.eval_every, epochs)})


def _minings(config: Config, profile: Profile, seconds: float, efforts: Sequence[dict[str, Any]]) -> list[Config]:
    """The largest effort that fits, after the same with shorter bodies.

    Of those that measure alike the first is taken: a short rule says why, its longer paraphrases only what goes with
    it. Where nothing can be measured, long bodies are allowed.
    """
    bounds = {
        "mined_paths": _rounded(PATHS_PER_SECOND * seconds),
        "groundings": _rounded(GROUNDINGS_PER_SECOND * seconds),
    }
    every = [config.with_searched({**effort, **bounds}) for effort in efforts]
    fitting = next((one for one in every if _fits(one, profile, seconds)), every[-1])
    if fitting.max_length <= SHORT or "max_length" not in fitting.search or not profile.measurable:
        return [fitting]
    return [fitting.with_searched({"max_length": SHORT}), fitting]


def _rounded(number: float) -> float:
    """To two digits: nobody needs to see more of a bound."""
    return float(f"{number:.2g}")


def _fits(config: MinedConfig, profile: Profile, seconds: float) -> bool:
    return (
        mining_seconds(config, profile) <= seconds and PROGRAM_BYTES + mining_bytes(config, profile) <= MAX_TRIED_BYTES
    )


def at_effort(config: Config, share: float) -> Config:
    """The settings of a cheaper trial that takes about this share of the work of a full training.

    With attention: one member, fewer epochs, fewer reformulators, and no mined rules, which all candidates share.
    Without attention: fewer facts, paths and groundings.
    """
    if share >= 1:
        return config
    if isinstance(config, ProofsConfig) and config.templates:
        part = min(1.0, sqrt(share * config.members))
        epochs = max(2, round(part * config.epochs))
        fewer = {template: max(1, round(part * width)) for template, width in config.templates.items()}
        cheaper = {"templates": fewer, "epochs": epochs, "eval_every": min(config.eval_every, epochs), "members": 1}
        return config.model_copy(update={**cheaper, "mined": False})
    values = {
        "sample": max(20, round(share * config.sample)),
        "mined_paths": share * config.mined_paths,
        "groundings": share * config.groundings,
    }
    return config.model_copy(update=values)
