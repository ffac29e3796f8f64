"""The classes of the `select` variants; their names are in names.py."""

from ctp_core.select.attentive import AttentiveSelect
from ctp_core.select.base import Select
from ctp_core.select.greedy import GreedySelect
from ctp_core.select.linear import LinearSelect
from ctp_core.select.memory import MemorySelect
from ctp_core.select.names import NAMES
from ctp_core.select.static import StaticSelect

SELECTS: dict[str, type[Select]] = {
    "linear": LinearSelect,
    "attentive": AttentiveSelect,
    "memory": MemorySelect,
    "ntp": StaticSelect,
    "gntp": GreedySelect,
}
assert tuple(SELECTS) == NAMES, "every variant has a name in names.py and a class here"
