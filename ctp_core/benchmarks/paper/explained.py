"""Reads the words of the report from explained.toml."""

import tomllib
from pathlib import Path
from typing import Any

from ctp_core.networks.config import NETWORKS

_WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

SUMMARY: str = _WORDS["summary"]
INTRODUCTION: str = _WORDS["introduction"]
DYNAMICS: str = _WORDS["dynamics"]

LINK_NAMES: dict[str, str] = _WORDS["link_names"]
NAMES: dict[str, str] = _WORDS["names"]
NAMES |= {f"{system}-published": f"*{NAMES[system]}, as in the published code*" for system in NETWORKS}
for _select in ("linear", "attentive", "memory"):
    NAMES[f"ctp-{_select}-deep"] = f"CTP {_select}, depth 3, Adam 0.01"
    NAMES[f"ctp-{_select}-command"] = f"*CTP {_select}, published command*"


def _by_system(entries: list[dict[str, Any]]) -> dict[str, str]:
    """The text of each system, on one line."""
    return {system: " ".join(entry["text"].split()) for entry in entries for system in entry["systems"]}


SHARED = _by_system(_WORDS["shared"])
REASONS = _by_system(_WORDS["reasons"])
