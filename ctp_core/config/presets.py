"""Settings that need no tuning, chosen from what is known of the KB."""

from ctp_core.config.base import BaseConfig
from ctp_core.config.facts import facts_presets
from ctp_core.config.graphs import graphs_presets
from ctp_core.config.profile import Profile

DEFAULT_PRESET = "fast"


def presets(profile: Profile) -> dict[str, BaseConfig]:
    """Preset name -> the config it means for a KB of this profile."""
    return graphs_presets(profile) if profile.kind == "graphs" else facts_presets(profile)
