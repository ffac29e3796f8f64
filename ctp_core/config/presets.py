"""Settings that need no tuning, chosen from what is known of the KB."""

from typing import cast, get_args

from ctp_core.config.base import BaseConfig
from ctp_core.config.ctp import SelectName
from ctp_core.config.facts import facts_presets
from ctp_core.config.graphs import graphs_config, graphs_presets
from ctp_core.config.profile import Profile

DEFAULT_PRESET = "fast"


def presets(profile: Profile) -> dict[str, BaseConfig]:
    """Preset name -> the config it means for a KB of this profile."""
    return graphs_presets(profile) if profile.kind == "graphs" else facts_presets(profile)


def preset_for(profile: Profile, name: str, select: str | None) -> BaseConfig | None:
    """A preset as it is for one `select`, whose best settings differ on graphs; None where there is no such preset."""
    config = presets(profile).get(name)
    if config is not None and profile.kind == "graphs" and select in get_args(SelectName):
        return graphs_config(profile, name, cast(SelectName, select))
    return config
