"""A small KB of families, and the settings of a method for it."""

from typing import Any

from ctp_core.base.config import BaseConfig
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import GraphsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import parse_config, preset_for


def small(method: str, select: str = "linear", **settings: Any) -> tuple[BaseConfig, GraphsKB]:
    kb = graphs_kb({"train": family_graphs(150, (2, 3), seed=1), "valid": family_graphs(40, (3,), seed=2)})
    preset = preset_for(Profile.of(kb), "fast", method, select)
    return parse_config("graphs", {**preset.model_dump(), **settings}), kb
