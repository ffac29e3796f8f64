"""Settings that need no tuning, chosen from what is known of the KB."""

from typing import Any, cast, get_args

from ctp_core.config.base import BaseConfig
from ctp_core.config.ctp import FIXED_RULES, UNREAD, CtpConfig, SelectName
from ctp_core.config.facts import FACTS_METHODS, facts_config, facts_presets
from ctp_core.config.graphs import graphs_config, graphs_presets
from ctp_core.config.networks import NETWORKS, network_config
from ctp_core.config.profile import Profile
from ctp_core.datasets.kb import Kind
from ctp_core.errors import ConfigError

DEFAULT_PRESET = "fast"
METHODS: dict[Kind, tuple[str, ...]] = {"facts": FACTS_METHODS, "graphs": ("ctp", *NETWORKS)}


def method_names(kind: Kind) -> tuple[str, ...]:
    """What `method` may say on a KB of this kind; the last are `ctp` with that `select`."""
    return (*METHODS[kind], *FIXED_RULES)


def check_kind(config: BaseConfig, kind: Kind) -> None:
    """Raises ConfigError where the method, or one of its settings, has no meaning on a KB of this kind."""
    if config.method not in METHODS[kind]:
        methods = ", ".join(method_names(kind))
        raise ConfigError(f"method {config.method!r} does not work on a KB of kind {kind!r}: choose from {methods}")
    unread = config.unread(kind) if isinstance(config, CtpConfig) else {}
    if unread:
        given = ", ".join(f"{name}={value!r}" for name, value in unread.items())
        leave = "leave it out" if len(unread) == 1 else "leave them out"
        raise ConfigError(f"method 'ctp' does not read {given} on a KB of kind {kind!r}: {leave}")


def settings_for(config: BaseConfig, kind: Kind) -> dict[str, Any]:
    """The settings that have a meaning on a KB of this kind."""
    return config.model_dump(mode="json", exclude=set(UNREAD[kind]) if isinstance(config, CtpConfig) else None)


def presets(profile: Profile) -> dict[str, BaseConfig]:
    """Preset name -> the config it means for a KB of this profile."""
    return graphs_presets(profile) if profile.kind == "graphs" else facts_presets(profile)


def preset_for(profile: Profile, name: str, method: str | None, select: str | None) -> BaseConfig | None:
    """A preset as it is for one method and one `select`; None where there is no such preset.

    A method that has no such settings gets the preset's own, of another method.
    """
    config = presets(profile).get(name)
    if config is None:
        return None
    if profile.kind == "facts":
        return facts_config(profile, method, name, select) if method in FACTS_METHODS else config
    if method in NETWORKS:
        return network_config(method, name)
    if select in get_args(SelectName):
        return graphs_config(profile, name, cast(SelectName, select))
    return config
