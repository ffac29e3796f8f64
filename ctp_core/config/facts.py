"""Presets for `kind: facts`."""

from ctp_core.config.base import BaseConfig
from ctp_core.config.profile import Profile
from ctp_core.config.proofs import ProofsConfig


def facts_presets(profile: Profile) -> dict[str, BaseConfig]:
    return {"fast": ProofsConfig(epochs=max(1, profile.num_predicates))}
