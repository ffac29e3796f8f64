"""The names of the variants: the one list, which settings and registry.py read. Imports no torch.

A new variant is a file in this folder, its name here and its class in registry.py.
"""

from typing import TYPE_CHECKING, Literal

# Systems of their own in the paper, with a sentence for people: their rules do not depend on the goal.
FIXED_RULES = {
    "ntp": "Neural theorem prover: a prover whose learnt rules are the same for every question.",
    "gntp": "Greedy neural theorem prover: as `ntp`, but tries only the rules nearest to the question.",
}
NAMES = ("linear", "attentive", "memory", *FIXED_RULES)
if TYPE_CHECKING:
    SelectName = str
else:
    SelectName = Literal[NAMES]
