"""Which settings of the prover on facts are tried on a KB, and for how many epochs its budget allows.

No setting follows from the shape of a KB: effort follows from forecast cost, all else from measuring. How the settings
that are tried were found, on validation alone, is in docs/lab/links.md.
"""

from collections.abc import Iterable
from typing import Any

from ctp_core.ctp_facts.config import NEEDED_TO_SUM, CtpFactsConfig
from ctp_core.ctp_facts.cost import forecast, is_dense
from ctp_core.errors import ConfigError
from ctp_core.kb.profile import Profile
from ctp_core.presets import Preset
from ctp_core.select.registry import SelectName

FIT_SHARE = 0.66  # of the budget that one full training may take: a search takes up to a third
MIN_EPOCHS = 0.2  # the least share of its epochs in which the prover still learns
LITTLE_LESS = 0.75  # share of its epochs that it hardly misses
# Ranks facts against all entities. Entities start far apart.
APART: dict[str, Any] = {
    **{"loss": "all", "select": "attentive", "templates": ("0", "1", "1R", "2", "2"), "entity_scale": 3.0},
    **{"batch_size": 1, "epochs": 100, "eval_every": 100, "hidden_facts": 0.2, "ranked": "hidden"},
}
SHORT: dict[str, Any] = {
    **{"loss": "all", "templates": ("1", "1R"), "entity_scale": 3.0},
    **{"batch_size": 8, "epochs": 30, "hidden_facts": 0.3},
}
# Entities start near those with similar facts.
ALIKE: dict[str, Any] = {
    **{"loss": "all", "templates": ("0", "2"), "dim": 100, "entity_start": "facts", "batch_size": 2, "epochs": 10},
    **{"learning_rate": 0.3, "schedule": "one-cycle", "hidden_facts": 0.5, "ranked": "hidden"},
}
SHORT_ALIKE: dict[str, Any] = {**ALIKE, "templates": ("0", "1", "1R"), "epochs": 24, "hidden_facts": 0.7}
# Proves all facts of a subject from other predicates; ranks objects against those that the true one excludes.
EXCLUSIVE: dict[str, Any] = {
    **{**ALIKE, "templates": ("0", "2", "2"), "batch_size": 1, "epochs": 40, "eval_every": 40},
    **{"hidden_facts": 0.6, "hidden_subjects": 0.5, "questions": "objects", "rivals": "exclusive"},
}
# Learns from all proofs, with all predicates in a step, and also which predicate holds between two entities. The best
# proof decides only in the last epoch, so there is no earlier validation. `batch_size` is the number of predicates.
SUMMED: dict[str, Any] = {
    **{**ALIKE, "loss": "summed", "select": "attentive", "templates": ("0", "1R"), "epochs": 100, "eval_every": 100},
    **{"rule_rate": 0.1, "hidden_facts": 0.7, "predicate_weight": 5.0},
}
# Of those that measure alike the first is taken. It can express every rule of one or two atoms, because few held-out
# facts do not show what the others miss. A small budget pays for three or four trials: those at the front differ most.
ON_TABLES = ({**APART, "epochs": 30, "eval_every": 30}, SHORT, SUMMED, ALIKE, EXCLUSIVE, SHORT_ALIKE)
UNMEASURED = (APART, SHORT)  # without facts to measure on, the first that fits
# Where tables of all pairs are too large: only the nearest entities may stand in for an entity.
NEAREST: dict[str, Any] = {
    **{"loss": "all", "templates": ("0", "1R", "2"), "entity_start": "facts", "batch_size": 128},
    **{"epochs": 10, "eval_every": 1, "rule_rate": 0.1},
}
# From the most exact search for the nearest to the cheapest: the first that fits the budget is used.
EFFORTS: tuple[dict[str, Any], ...] = (
    {"nearest": 8, "nearest_every": 100},
    {"nearest": 8, "nearest_every": 1000},
    {"nearest": 4, "nearest_every": 1000},
    {"nearest": 2, "nearest_every": 10_000},
)
MEASURED = (
    *("loss", "select", "templates", "dim", "entity_scale", "entity_start", "batch_size", "learning_rate", "schedule"),
    *("rule_rate", "hidden_facts", "hidden_subjects", "ranked", "questions", "rivals", "predicate_weight"),
)
AFFORDED = ("epochs", "eval_every", "neighbours", "nearest", "nearest_every")
SEARCHED = (*MEASURED, *AFFORDED)
UNLESS_SAID = {name: CtpFactsConfig.model_fields[name].default for name in SEARCHED}


def ctp_facts_preset(profile: Profile, preset: Preset, select: SelectName | None = None) -> CtpFactsConfig:
    """As published, but with the nearest entities alone where tables of pairs do not fit; or measured in a budget."""
    if preset.published:
        return _published(profile, 100 if preset.longer else 25)
    searched = tuple(name for name in SEARCHED if select is None or name != "select")
    seconds = preset.budget_seconds(profile.num_facts)
    searching = CtpFactsConfig(select=select or "linear", budget_seconds=seconds, search=searched)
    return candidates(searching, profile)[0].model_copy(update={"search": searched})


def _published(profile: Profile, epochs: int) -> CtpFactsConfig:
    """The published settings for UMLS, with nine corrupted facts for each fact: three for each of three ways."""
    published = CtpFactsConfig(templates=("0", "2"), batch_size=8, negatives=3, epochs=epochs)
    if is_dense(published, profile.num_entities, profile.num_predicates):
        return published
    return CtpFactsConfig(**{**NEAREST, "epochs": max(1, epochs // 10)})  # random corrupted facts teach nothing there


def candidates(config: CtpFactsConfig, profile: Profile) -> list[CtpFactsConfig]:
    """Settings on tables of all pairs that fit the budget, if need be in fewer epochs; else on the nearest entities.

    Where nothing fits, the cheapest: settings that a user gives may ask for more than the budget. Raises ConfigError
    where such settings contradict each other.
    """
    seconds = FIT_SHARE * config.budget(profile.num_facts)
    config = config.with_searched(UNLESS_SAID)
    on_tables, on_nearest = _on_tables(config, profile), _on_nearest(config, profile)
    found = _affordable(on_tables, profile, seconds, MIN_EPOCHS) or _affordable(on_nearest, profile, seconds)[:1]
    if not found:
        least = [_in_epochs(one, 1) for one in (*on_tables, *on_nearest)]
        if not least:
            raise ConfigError(NEEDED_TO_SUM)
        found = [min(least, key=lambda one: forecast(one, profile).cpu_seconds)]
    chosen = found if profile.measurable else found[:1]
    return [one.model_copy(update={"search": ()}) for one in chosen]


def _on_tables(config: CtpFactsConfig, profile: Profile) -> list[CtpFactsConfig]:
    if not is_dense(config, profile.num_entities, profile.num_predicates):
        return []
    together = {"batch_size": profile.num_predicates}
    values = ON_TABLES if profile.measurable else UNMEASURED
    return _valid(config.with_searched({**one, **together} if one is SUMMED else one) for one in values)


def _on_nearest(config: CtpFactsConfig, profile: Profile) -> list[CtpFactsConfig]:
    if "neighbours" not in config.search and is_dense(config, profile.num_entities, profile.num_predicates):
        return []
    few = {**NEAREST, "neighbours": "nearest"}
    return _valid(config.with_searched({**few, **effort}) for effort in EFFORTS)


def _valid(configs: Iterable[CtpFactsConfig]) -> list[CtpFactsConfig]:
    """Each once, without those that a setting given by a user contradicts, such as rules that are fixed."""
    found: list[CtpFactsConfig] = []
    for one in configs:
        if one not in found and (one.loss != "summed" or one.can_be_summed):
            found.append(one)
    return found


def _affordable(
    configs: Iterable[CtpFactsConfig], profile: Profile, seconds: float, least: float = 0.0
) -> list[CtpFactsConfig]:
    """Those that fit in at least this share of their epochs; the much shortened come last: they are less promising."""
    found: list[CtpFactsConfig] = []
    shortened: list[CtpFactsConfig] = []
    for full in configs:
        one = _in_epochs(full, _epochs_within(full, profile, seconds))
        if forecast(one, profile).fits(seconds) and one.epochs >= least * full.epochs:
            (found if one.epochs >= LITTLE_LESS * full.epochs else shortened).append(one)
    return [*found, *shortened]


def _epochs_within(config: CtpFactsConfig, profile: Profile, seconds: float) -> int:
    """Cost grows by the same for every epoch, or by less where it is validated less often."""
    first, all_ = (forecast(_in_epochs(config, epochs), profile).cpu_seconds for epochs in (1, config.epochs))
    if all_ <= seconds or all_ <= first:  # the latter where the epochs are given
        return config.epochs
    return max(1, 1 + int((seconds - first) * (config.epochs - 1) / (all_ - first)))


def _in_epochs(config: CtpFactsConfig, epochs: int) -> CtpFactsConfig:
    return config.with_searched({"epochs": epochs, "eval_every": min(config.eval_every, epochs)})


def at_effort(config: CtpFactsConfig, share: float) -> CtpFactsConfig:
    """Fewer epochs, but two if there are so many: after one, hardly anything is learnt."""
    epochs = min(config.epochs, max(2, round(share * config.epochs)))
    return config.model_copy(update={"epochs": epochs, "eval_every": min(config.eval_every, epochs)})
