"""The one table of t-norms: the name of a semiring -> its ⊗."""

from collections.abc import Iterable

from ctp_core.errors import ConfigError
from ctp_core.tnorm.base import DistanceTimes, TNorm
from ctp_core.tnorm.lukasiewicz import Lukasiewicz
from ctp_core.tnorm.mean import Mean
from ctp_core.tnorm.minimum import Minimum
from ctp_core.tnorm.product import Product

TNORMS: dict[str, TNorm] = {
    Minimum.name: Minimum(),
    Product.name: Product(),
    Mean.name: Mean(),
    Lukasiewicz.name: Lukasiewicz(),
}
ON_DISTANCES = tuple(name for name, tnorm in TNORMS.items() if tnorm.distances is not None)


def on_distances(name: str) -> DistanceTimes:
    """⊗ on distances, which a KB of facts needs; raises ConfigError where there is none."""
    times = TNORMS[name].distances
    if times is None:
        raise ConfigError(
            f"semiring {name!r} does not work on a KB of kind 'facts', where proofs are compared by their distances: "
            f"use {' or '.join(ON_DISTANCES)}"
        )
    return times


def semiring_text(names: Iterable[str]) -> str:
    """The description of the setting `semiring` that may be one of these."""
    choice = "; ".join(f"`{name}`, {TNORMS[name].text}" for name in names)
    return f"How the steps of a proof make its score: {choice}. The best proof gives the answer."
