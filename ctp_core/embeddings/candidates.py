"""Which settings of an embedding are tried on a KB, and how much effort its budget allows.

No setting follows from the shape of a KB: how exactly and how long is trained follows from forecast cost, all else from
measuring. What the choices rest on is in docs/decisions/0039-settings-by-measurement.md.
"""

from math import sqrt
from typing import Any, TypeVar

from ctp_core.embeddings.config import EMBEDDINGS, EmbeddingConfig
from ctp_core.embeddings.cost import forecast
from ctp_core.kb.profile import Profile
from ctp_core.presets import Preset

MEASURED = ("rank", "n3", "predicate_weight")
AFFORDED = ("epochs", "eval_every", "batch_size", "grouped", "negatives", "weigh_negatives")
SEARCHED = (*MEASURED, *AFFORDED)
FIXED: dict[str, Any] = {"reciprocal": False, "decay": 0.3}
# (N3, predicate weight, times the first rank) in the order in which they are tried.
GRID = (
    (0.03, 0.5, 1.0),
    (0.01, 0.1, 1.0),
    (0.01, 4.0, 1.0),
    (0.1, 0.1, 1.0),
    (0.05, 4.0, 1.0),
    (0.01, 0.5, 2.0),
    (0.05, 0.5, 2.0),
    (0.01, 4.0, 2.0),
    (0.1, 0.5, 1.0),
)
FIT_SHARE = 0.6  # of the budget that one full training may take: a search takes up to a third
LARGEST_SHARE = 0.66  # the same of a candidate with longer vectors
MIN_RANK, MAX_RANK = 16, 4096
EXACT: dict[str, Any] = {"batch_size": 100, "grouped": False, "negatives": None, "weigh_negatives": False}
GROUPED: dict[str, Any] = {**EXACT, "batch_size": 250, "grouped": True}
SAMPLED: dict[str, Any] = {**GROUPED, "weigh_negatives": True}
# From the most exact training to the cheapest: the first that fits the budget is used.
EFFORTS: tuple[dict[str, Any], ...] = (
    {**EXACT, "epochs": 25, "eval_every": 5, "rank": 200},
    {**GROUPED, "epochs": 20, "eval_every": 4, "rank": 200},
    {**SAMPLED, "epochs": 14, "eval_every": 3, "negatives": 2000, "rank": 200},
    {**SAMPLED, "epochs": 10, "eval_every": 2, "negatives": 2000, "rank": 200},
    {**SAMPLED, "epochs": 8, "eval_every": 2, "negatives": 1000, "rank": 150},
    {**SAMPLED, "epochs": 6, "eval_every": 2, "negatives": 1000, "rank": 100},
    {**SAMPLED, "epochs": 4, "eval_every": 2, "batch_size": 1000, "negatives": 1000, "rank": 64},
    {**SAMPLED, "epochs": 2, "eval_every": 2, "batch_size": 1000, "negatives": 500, "rank": 48},
    {**SAMPLED, "epochs": 1, "eval_every": 1, "batch_size": 1000, "negatives": 500, "rank": 32},
)

Config = TypeVar("Config", bound=EmbeddingConfig)


def embedding_preset(method: str, profile: Profile, preset: Preset) -> EmbeddingConfig:
    return within(EMBEDDINGS[method](method=method), profile, preset.budget_seconds(profile.num_facts))


def within(config: Config, profile: Profile, seconds: float) -> Config:
    """The settings that are tried first with this budget; SEARCHED names what measuring may change."""
    searched = config.model_copy(update={**FIXED, "budget_seconds": seconds, "search": SEARCHED})
    return candidates(searched, profile)[0].model_copy(update={"search": SEARCHED})


def candidates(config: Config, profile: Profile) -> list[Config]:
    """The settings of GRID with as much effort as the budget allows; settings that are not searched stay as given."""
    seconds = config.budget(profile.num_facts)
    efforts = [config.with_searched(effort) for effort in EFFORTS]
    fitting = (one for one in efforts if forecast(_grid(one)[0], profile).fits(FIT_SHARE * seconds))
    grid = _grid(next(fitting, efforts[-1]))
    found = [grid[0]]
    for one in grid[1:]:
        if one not in found and forecast(one, profile).fits(LARGEST_SHARE * seconds):
            found.append(one)
    return [one.model_copy(update={"search": ()}) for one in found]


def _grid(config: Config) -> list[Config]:
    ranks = (min(MAX_RANK, round(times * config.rank)) for _, _, times in GRID)
    values = ({"n3": n3, "predicate_weight": weight} for n3, weight, _ in GRID)
    return [config.with_searched({**one, "rank": rank}) for one, rank in zip(values, ranks, strict=True)]


def at_effort(config: Config, share: float) -> Config:
    """Fewer epochs with shorter vectors: either alone would tell less about the full training."""
    epochs, rank = sqrt(share) * config.epochs, sqrt(share) * config.rank
    cheaper = {"epochs": max(1, round(epochs)), "rank": min(config.rank, max(MIN_RANK, round(rank)))}
    return config.model_copy(update={**cheaper, "eval_every": max(1, round(sqrt(share) * config.eval_every))})
