"""The presets: named sets of settings. Imports no torch, as the API reads it.

Everything that names presets (the page, the terminal, the benchmarks, `GET /presets`) reads the table here. A new
preset is a row here, and its settings in the config of each family.
"""

from dataclasses import dataclass

from ctp_core.kb.knowledge_base import Kind


@dataclass(frozen=True)
class Preset:
    """A sentence for people, and the method that the preset trains on each kind of KB unless another is named."""

    text: str
    methods: dict[Kind, str]


PRESETS: dict[str, Preset] = {
    "fast": Preset("Seconds to minutes: a good first look.", {"facts": "proofs", "graphs": "ctp"}),
    "best": Preset("The most accurate settings we know; takes longer.", {"facts": "hybrid", "graphs": "ctp"}),
    "paper": Preset("The paper's settings; on facts, those of its run on UMLS.", {"facts": "ctp", "graphs": "ctp"}),
    "paper-long": Preset("The settings of `paper`, trained for longer.", {"facts": "ctp", "graphs": "ctp"}),
}
DEFAULT_PRESET = "fast"
