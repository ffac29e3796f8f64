"""The formats of graphs: CLUTRR's CSV, and JSON Lines, which is what they are written to."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import BinaryIO

from ctp_core.datasets.builder import KbLimits
from ctp_core.datasets.clutrr import parse_clutrr
from ctp_core.datasets.graph_checks import graphs_kb
from ctp_core.datasets.graphs_jsonl import parse_graphs_jsonl, write_graphs_jsonl
from ctp_core.datasets.kb import Graph, GraphsKB
from ctp_core.datasets.rows import FileLimits, read_lines
from ctp_core.errors import EmptyKB, TooLarge
from ctp_core.symbols import Vocabulary

# Lines, the name of the file, and how long a name may be.
READERS: dict[str, Callable[[Iterable[str], str, int], Iterator[Graph]]] = {
    "clutrr": parse_clutrr,
    "graphs": parse_graphs_jsonl,
}


@dataclass(frozen=True)
class BuiltGraphs:
    """Graphs, all the entities that they name, the hash of their content, and remarks about them."""

    kb: GraphsKB
    entities: Vocabulary
    sha256: str
    warnings: list[str]


def graph_lines(stream: BinaryIO, file: str, limits: FileLimits) -> Iterator[str]:
    """Lines with their ends: a story of CLUTRR may go over several."""
    return (f"{line}\n" for _, line in read_lines(stream, file, limits, keep_returns=True))


class GraphsBuilder:
    """Takes the splits in any order; raises ParseError, TooLarge or DataError."""

    def __init__(self, limits: KbLimits) -> None:
        self.limits = limits
        self._splits: dict[str, tuple[Graph, ...]] = {}
        self._entities: dict[str, None] = {}
        self._num_facts = 0

    def add(self, split: str, graphs: Iterable[Graph]) -> None:
        self._splits[split] = tuple(map(self._counted, graphs))

    def _counted(self, graph: Graph) -> Graph:
        self._num_facts += len(graph.facts)
        if self._num_facts > self.limits.max_facts:
            raise TooLarge(f"a KB may have {self.limits.max_facts} facts at most (CTP_MAX_FACTS)")
        self._entities |= dict.fromkeys(name for f in graph.facts for name in (f.subject, f.object))
        if len(self._entities) > self.limits.max_symbols:
            raise TooLarge(f"a KB may have {self.limits.max_symbols} entities at most (CTP_MAX_SYMBOLS)")
        return graph

    def build(self) -> BuiltGraphs:
        if not self._splits.get("train"):
            raise EmptyKB("the KB has no training graphs")
        kb = graphs_kb(self._splits)
        content = sha256(b"graphs\n")
        for split, graphs in kb.splits.items():
            content.update(f"{split}\n".encode())
            for line in write_graphs_jsonl(graphs):
                content.update(line.encode())
        return BuiltGraphs(kb, Vocabulary("entity", self._entities), content.hexdigest(), [])
