"""The presets: how much work each may spend on a KB, and whether it follows the paper. Imports no torch.

A new preset is a row of PRESETS. Everything that names presets (the page, the terminal, the benchmarks, `GET /presets`)
reads that table, and every family makes its settings from a row: those that search within a budget in
`candidates.py`, the others in `config.py`.
"""

import math
from dataclasses import dataclass

from ctp_core.errors import ConfigError
from ctp_core.kb.knowledge_base import Kind

# (training facts, seconds of one core) of preset `fast`; between them a straight line in log-log space.
FAST = ((2e4, 60.0), (1e5, 240.0), (1e6, 900.0), (1e7, 3600.0))


@dataclass(frozen=True)
class Preset:
    """A sentence for people, the method that is trained on each kind of KB unless another is named, and the effort."""

    text: str
    methods: dict[Kind, str]
    published: bool = False  # the paper's settings, in methods that the paper has
    longer: bool = False  # more epochs, in methods that have no budget
    times_fast: float = 1.0
    least_seconds: float = 0.0

    def budget_seconds(self, num_facts: int) -> float:
        """Seconds of one core for a KB with so many training facts, in methods that have a budget."""
        return max(self.least_seconds, self.times_fast * _fast_seconds(num_facts))


def _fast_seconds(num_facts: int) -> float:
    """Below the first point of FAST the same for all KBs; beyond the last it grows as it does before it."""
    if num_facts <= FAST[0][0]:
        return FAST[0][1]
    last = len(FAST) - 2
    segment = next((index for index in range(last) if num_facts <= FAST[index + 1][0]), last)
    (facts, seconds), (more_facts, more_seconds) = FAST[segment], FAST[segment + 1]
    slope = math.log(more_seconds / seconds) / math.log(more_facts / facts)
    return float(seconds * (num_facts / facts) ** slope)


PRESETS: dict[str, Preset] = {
    "fast": Preset("Seconds to minutes: a good first look.", {"facts": "proofs", "graphs": "ctp"}),
    "best": Preset(
        "The most accurate settings we know; takes longer.",
        {"facts": "hybrid", "graphs": "ctp"},
        longer=True,
        times_fast=4.0,
        least_seconds=900.0,
    ),
    "paper": Preset(
        "The paper's settings; on facts, those of its run on UMLS.",
        {"facts": "ctp", "graphs": "ctp"},
        published=True,
    ),
    "paper-long": Preset(
        "The settings of `paper`, trained for longer.",
        {"facts": "ctp", "graphs": "ctp"},
        published=True,
        longer=True,
    ),
}
DEFAULT_PRESET = "fast"


def find_preset(name: str) -> Preset:
    """Looks up a preset; raises ConfigError where there is none of this name."""
    if name not in PRESETS:
        raise ConfigError(f"preset {name!r} is not known: choose from {', '.join(PRESETS)}")
    return PRESETS[name]
