"""Presets for `kind: facts`."""

from ctp_core.config.base import BaseConfig
from ctp_core.config.profile import Profile
from ctp_core.config.proofs import ProofsConfig

SMALL_KB = 500  # facts; below it a gradient step costs nothing and there is little to learn from: many plain epochs


def facts_presets(profile: Profile) -> dict[str, BaseConfig]:
    if profile.num_facts < SMALL_KB:
        return {"fast": ProofsConfig(epochs=200, learning_rate=0.1, sparsity=0.02, hidden_facts=0.3)}
    return {"fast": ProofsConfig(epochs=60, loss="softmax")}
