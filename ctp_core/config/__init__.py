"""What a training run is made from: one pydantic model for each method. Imports no torch."""

from typing import Annotated, Any, get_args

from pydantic import Field, TypeAdapter, ValidationError

from ctp_core.config.base import BaseConfig
from ctp_core.config.ctp import CtpConfig
from ctp_core.config.embeddings import ComplexConfig, DistMultConfig
from ctp_core.config.hybrid import HybridConfig
from ctp_core.config.networks import (
    AttentionConfig,
    CnnConfig,
    CnnHighwayConfig,
    GatConfig,
    GcnConfig,
    RecurrentConfig,
)
from ctp_core.config.places import walk
from ctp_core.config.presets import (
    DEFAULT_PRESET,
    METHODS,
    check_kind,
    method_names,
    preset_for,
    presets,
    settings_for,
)
from ctp_core.config.profile import Profile
from ctp_core.config.proofs import ProofsConfig
from ctp_core.config.rules import RulesConfig
from ctp_core.config.walkers import MinervaConfig, NeuralLpConfig
from ctp_core.errors import ConfigError

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
