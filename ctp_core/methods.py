"""What can be trained: (kind, method) -> its settings and presets. Imports no torch: this is what the API reads."""

from typing import Annotated, Any, cast, get_args

from pydantic import Field, TypeAdapter, ValidationError

from ctp_core.base.config import BaseConfig, walk
from ctp_core.ctp_graphs.config import graphs_config, graphs_presets
from ctp_core.embeddings.config import ComplexConfig, DistMultConfig
from ctp_core.errors import ConfigError
from ctp_core.evidence.config import ProofsConfig, RulesConfig
from ctp_core.facts_presets import FACTS_METHODS, facts_config, facts_presets
from ctp_core.hybrid.config import HybridConfig
from ctp_core.kb.knowledge_base import Kind
from ctp_core.kb.profile import Profile
from ctp_core.networks.config import (
    NETWORKS,
    AttentionConfig,
    CnnConfig,
    CnnHighwayConfig,
    GatConfig,
    GcnConfig,
    RecurrentConfig,
    network_config,
)
from ctp_core.select.config import FIXED_RULES, UNREAD, CtpConfig, SelectName
from ctp_core.tnorm import TNORMS
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig

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
    if isinstance(config, CtpConfig) and kind == "facts":
        TNORMS[config.semiring].on_distances()
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


Config = Annotated[
    CtpConfig
    | ProofsConfig
    | RulesConfig
    | HybridConfig
    | ComplexConfig
    | DistMultConfig
    | RecurrentConfig
    | CnnConfig
    | CnnHighwayConfig
    | AttentionConfig
    | GatConfig
    | GcnConfig
    | NeuralLpConfig
    | MinervaConfig,
    Field(discriminator="method"),
]
_ADAPTER: TypeAdapter[Any] = TypeAdapter(Config)
# Method -> the class of its settings.
CONFIGS: dict[str, type[BaseConfig]] = {
    method: config
    for config in get_args(get_args(Config)[0])
    for method in get_args(config.model_fields["method"].annotation)
}


def parse_config(values: dict[str, Any]) -> BaseConfig:
    """A config from JSON values; raises pydantic's ValidationError."""
    config: BaseConfig = _ADAPTER.validate_python(values)
    return config


def checked_config(values: dict[str, Any]) -> BaseConfig:
    """The same; raises ConfigError that names every setting that is wrong, without its value."""
    try:
        return parse_config(values)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_context=False, include_url=False)
        said = "; ".join(f"{_place(*fault['loc']) or 'settings'}: {fault['msg']}" for fault in faults)
        raise ConfigError(f"method {values.get('method')!r}: {said}") from None


def _place(method: int | str = "", *parts: int | str) -> str:
    """The setting that pydantic means, which says the method first."""
    return ".".join(str(part) for part, _ in walk(CONFIGS.get(str(method)), parts))


__all__ = [
    "CONFIGS",
    "DEFAULT_PRESET",
    "METHODS",
    "BaseConfig",
    "ComplexConfig",
    "Config",
    "CtpConfig",
    "DistMultConfig",
    "HybridConfig",
    "Profile",
    "ProofsConfig",
    "RulesConfig",
    "check_kind",
    "checked_config",
    "method_names",
    "parse_config",
    "preset_for",
    "presets",
    "settings_for",
]
