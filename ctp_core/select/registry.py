"""The one table of the `select` variants: name -> where its class is, and a sentence for people. Imports no torch.

A new variant is a file in this folder and a row here.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ctp_core.select.base import Select


@dataclass(frozen=True)
class Variant:
    """`fixed` variants are systems of their own in the paper: their rules do not depend on the goal."""

    module: str
    class_name: str
    text: str
    fixed: bool = False


VARIANTS = {
    "linear": Variant("linear", "LinearSelect", "a linear map makes the rules from the question's predicate"),
    "attentive": Variant("attentive", "AttentiveSelect", "learnt weights choose among all predicates"),
    "memory": Variant("memory", "MemorySelect", "learnt weights choose among stored rules"),
    "ntp": Variant(
        "static",
        "StaticSelect",
        "Neural theorem prover: a prover whose learnt rules are the same for every question.",
        fixed=True,
    ),
    "gntp": Variant(
        "greedy",
        "GreedySelect",
        "Greedy neural theorem prover: as `ntp`, but tries only the rules nearest to the question.",
        fixed=True,
    ),
}
FIXED_RULES = {name: variant.text for name, variant in VARIANTS.items() if variant.fixed}
if TYPE_CHECKING:
    SelectName = str
else:
    SelectName = Literal[tuple(VARIANTS)]


def select_class(name: str) -> "type[Select]":
    """The class of a variant, imported when it is needed: settings are read without torch."""
    variant = VARIANTS[name]
    found: type[Select] = getattr(import_module(f"ctp_core.select.{variant.module}"), variant.class_name)
    return found


def select_text() -> str:
    """The description of the setting `select`."""
    ways = "; ".join(f"`{name}`, {v.text}" for name, v in VARIANTS.items() if not v.fixed)
    fixed = " and ".join(f"`{name}`" for name in FIXED_RULES)
    return f"How rules are made for a question: {ways}; {fixed} use the same rules for every question."
