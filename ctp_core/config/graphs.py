"""Presets for `kind: graphs`."""

from ctp_core.config.base import BaseConfig
from ctp_core.config.ctp import CtpConfig
from ctp_core.config.profile import Profile


def graphs_presets(profile: Profile) -> dict[str, BaseConfig]:
    return {"fast": CtpConfig(epochs=max(1, profile.max_length))}
