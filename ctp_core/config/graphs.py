"""Presets for `kind: graphs`, chosen from the number of predicates and the lengths of the training graphs.

How they were found, without looking at a test file, is in docs/results/clutrr.md.
"""

import math

from ctp_core.config.base import BaseConfig
from ctp_core.config.ctp import CtpConfig, SelectName
from ctp_core.config.profile import Profile

MAX_REFORMULATORS = 32


def graphs_presets(profile: Profile) -> dict[str, BaseConfig]:
    """`fast` and `best` are tabled; `paper` has the published hyper-parameters and the exact prover."""
    return {name: graphs_config(profile, name) for name in ("fast", "best", "paper", "paper-long")}


def graphs_config(profile: Profile, preset: str, select: SelectName | None = None) -> CtpConfig:
    """What a preset means for one `select`; by default attentive, and linear for the paper's."""
    if preset.startswith("paper"):
        return _paper(profile, select or "linear", epochs=25 if preset == "paper-long" else 5)
    return _tabled(profile, select or "attentive", epochs=120 if preset == "best" else 60)


def _depth(profile: Profile) -> int:
    """Enough to chain all facts of the largest training graph by rules of two atoms."""
    return max(1, math.ceil(math.log2(max(2, profile.max_length))))


def _tabled(profile: Profile, select: SelectName, epochs: int) -> CtpConfig:
    # A head that can be composed in many ways needs as many reformulators; spare ones learn to close their gates.
    reformulators = min(MAX_REFORMULATORS, max(4, math.ceil(0.8 * profile.num_predicates)))
    return CtpConfig(
        select=select,
        prover="tabled",
        templates=("2",) * reformulators,
        semiring="max-product",
        depth=None,
        train_depth=_depth(profile),
        dim=16 if select == "memory" else 32,
        gate=True,
        memory=32 * reformulators,
        optimiser="adam",
        schedule="one-cycle",
        learning_rate=0.02 if select == "linear" else 0.05,
        batch_size=32,
        distinct=True,
        weight_power=0.5,
        validation=0.05,
        eval_every=5,
        epochs=epochs,
    )


def _paper(profile: Profile, select: SelectName, epochs: int) -> CtpConfig:
    return CtpConfig(
        select=select,
        prover="exact",
        templates=("2",) * 3,
        semiring="max-min",
        depth=None,
        train_depth=max(2, _depth(profile)),
        dim=20,
        optimiser="adagrad",
        learning_rate=0.1,
        batch_size=32,
        epochs=epochs,
    )
