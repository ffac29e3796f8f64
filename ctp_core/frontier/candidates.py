"""Which settings of the propagation are tried on a KB, and how much effort its budget allows.

No setting follows from the shape of a KB: effort follows from forecast cost, all else from measuring.
"""

from typing import Any

from ctp_core.frontier.config import FrontierConfig
from ctp_core.frontier.cost import forecast, questions_asked
from ctp_core.kb.profile import Profile
from ctp_core.presets import Preset

FIT_SHARE = 0.66  # of the budget that one full training may take: a search takes up to a third
MOST_EPOCHS, FEWEST_EPOCHS = 40, 6
ENOUGH = 15_000  # questions; with fewer, and fewer epochs, less is followed in each step
LEAST_HIDDEN = 0.002
# The settings that are tried, the most promising first; of those that measure alike the first is taken.
GRID: tuple[dict[str, Any], ...] = (
    {"steps": 4, "hidden_facts": 0.25},
    {"steps": 5, "hidden_facts": 0.25},
    {"steps": 3, "hidden_facts": 0.25},
    {"steps": 4, "hidden_facts": 0.1},
    {"steps": 3, "hidden_facts": 0.1},
)
# From the widest frontier to the narrowest: the first of which enough epochs fit is used.
EFFORTS: tuple[dict[str, Any], ...] = (
    {"dim": 32, "width": 300, "facts_per_step": 4000},
    {"dim": 32, "width": 150, "facts_per_step": 1500},
    {"dim": 32, "width": 80, "facts_per_step": 600},
    {"dim": 24, "width": 30, "facts_per_step": 200},
    {"dim": 16, "width": 10, "facts_per_step": 50},
)
AFFORDED = ("epochs", "eval_every", "dim", "width", "facts_per_step", "batch_size", "confirmed")
SEARCHED = ("steps", "hidden_facts", *AFFORDED)
CHECKS = 8  # validations of a training


def frontier_preset(profile: Profile, preset: Preset) -> FrontierConfig:
    return within(FrontierConfig(), profile, preset.budget_seconds(profile.num_facts))


def within(config: FrontierConfig, profile: Profile, seconds: float) -> FrontierConfig:
    """The settings that are tried first with this budget; SEARCHED names what measuring may change."""
    open_ = config.model_copy(update={"budget_seconds": seconds, "search": SEARCHED})
    return candidates(open_, profile)[0].model_copy(update={"search": SEARCHED})


def candidates(config: FrontierConfig, profile: Profile) -> list[FrontierConfig]:
    """The settings of GRID, each with the effort that its budget allows; what is not searched stays as given."""
    seconds = FIT_SHARE * config.budget(profile.num_facts)
    found: list[FrontierConfig] = []
    for values in GRID if profile.measurable else GRID[:1]:
        one = _affordable(config.with_searched(values), profile, seconds).model_copy(update={"search": ()})
        if one not in found:
            found.append(one)
    return found


def _affordable(config: FrontierConfig, profile: Profile, seconds: float) -> FrontierConfig:
    """The widest effort with enough questions; where these are few epochs, smaller ones, so that rates can fall."""
    one = config
    for effort in EFFORTS:
        one = config.with_searched(effort)
        epochs, questions = _epochs(one, profile, seconds), questions_asked(one, profile)
        if epochs * questions >= min(FEWEST_EPOCHS * questions, ENOUGH):
            break
    epochs = _epochs(one, profile, seconds)
    if 0 < epochs < FEWEST_EPOCHS:
        smaller = max(LEAST_HIDDEN, one.hidden_facts * epochs / FEWEST_EPOCHS)
        one = one.with_searched({"hidden_facts": float(f"{smaller:.2g}")})
        epochs = _epochs(one, profile, seconds)
    return _with_epochs(one, min(MOST_EPOCHS, max(1, round(epochs))))


def _epochs(config: FrontierConfig, profile: Profile, seconds: float) -> float:
    """How many epochs fit into the time; 0 where their steps do not fit into memory."""
    one, two = (
        forecast(_with_epochs(config, epochs, force=True), profile) for epochs in (MOST_EPOCHS, 2 * MOST_EPOCHS)
    )
    each = (two.cpu_seconds - one.cpu_seconds) / MOST_EPOCHS
    around = one.cpu_seconds - MOST_EPOCHS * each
    return max(0.0, (seconds - around) / each) if one.fits(float("inf")) else 0.0


def _with_epochs(config: FrontierConfig, epochs: int, *, force: bool = False) -> FrontierConfig:
    values = {"epochs": epochs, "eval_every": max(1, epochs // CHECKS)}
    return config.model_copy(update=values) if force else config.with_searched(values)


def at_effort(config: FrontierConfig, share: float) -> FrontierConfig:
    """Fewer epochs; a trial is ranked by one side of each question, and has nothing to calibrate."""
    epochs = max(1, round(share * config.epochs))
    return config.model_copy(update={"epochs": epochs, "eval_every": max(1, epochs // 2)})
