"""Builds a KB of graphs from the graphs of its files, checked against limits and against each other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

from ctp_core.errors import DataError, EmptyKB, TooLarge
from ctp_core.kb.facts_builder import KbLimits
from ctp_core.kb.formats.graphs_jsonl import write_graphs_jsonl
from ctp_core.kb.graphs import graphs_kb, joined
from ctp_core.kb.holdout import Holdout, hold_out
from ctp_core.kb.knowledge_base import Graph, GraphsKB
from ctp_core.symbols import Vocabulary

NumberedGraph = tuple[int, Graph]  # with its line


@dataclass(frozen=True)
class BuiltGraphs:
    """Graphs, all the entities and predicates that they name, the hash of their content, and remarks about them.

    `predicates` are those of the KB, then those that training never saw.
    """

    kb: GraphsKB
    entities: Vocabulary
    predicates: Vocabulary
    sha256: str
    warnings: list[str]


class GraphsBuilder:
    """Takes the splits in any order; raises ParseError, TooLarge or DataError."""

    def __init__(self, limits: KbLimits) -> None:
        self.limits = limits
        self._splits: dict[str, tuple[Graph, ...]] = {}
        self._places: dict[str, tuple[str, list[int]]] = {}  # split -> its file, and the line of each graph
        self._entities: dict[str, None] = {}
        self._num_facts = 0

    def add(self, split: str, rows: Iterable[NumberedGraph], file: str) -> None:
        lines: list[int] = []
        graphs: list[Graph] = []
        for line, graph in rows:
            graphs.append(self._counted(graph))
            lines.append(line)
        self._splits[split], self._places[split] = tuple(graphs), (file, lines)

    def _counted(self, graph: Graph) -> Graph:
        self._num_facts += len(graph.facts)
        if self._num_facts > self.limits.max_facts:
            raise TooLarge(f"a KB may have {self.limits.max_facts} facts at most (CTP_MAX_FACTS)")
        self._entities |= dict.fromkeys(name for f in graph.facts for name in (f.subject, f.object))
        if len(self._entities) > self.limits.max_symbols:
            raise TooLarge(f"a KB may have {self.limits.max_symbols} entities at most (CTP_MAX_SYMBOLS)")
        return graph

    def build(self, holdout: Holdout | None = None) -> BuiltGraphs:
        if not self._splits.get("train"):
            raise EmptyKB("the KB has no training graphs")
        if all(graph.label is None for graph in self._splits["train"]):
            raise DataError(f"no training graph has a label: {self._place('train', 0)} has none")
        kb = whole = graphs_kb(self._splits)
        if holdout is not None:
            kb = cast(GraphsKB, hold_out(whole, holdout))
        content = sha256(b"graphs\n")
        for split, graphs in kb.splits.items():
            content.update(f"{split}\n".encode())
            for line in write_graphs_jsonl(graphs):
                content.update(line.encode())
        entities, predicates = Vocabulary("entity", self._entities), Vocabulary("predicate", self._predicates(kb))
        return BuiltGraphs(kb, entities, predicates, content.hexdigest(), [*self._remarks(whole)])

    def _predicates(self, kb: GraphsKB) -> Iterable[str]:
        graphs = [graph for some in kb.splits.values() for graph in some]
        used = {fact.predicate for graph in graphs for fact in graph.facts} | {g.label for g in graphs if g.label}
        return [*kb.predicates, *sorted(used - set(kb.predicates))]

    def _remarks(self, kb: GraphsKB) -> Iterable[str]:
        for split in kb.splits:
            yield from self._named(split, "no path joins subject and object", lambda graph: not joined(graph))
        yield from self._named("train", "there is no label, so they teach nothing", lambda g: g.label is None)
        for split in (split for split in kb.splits if split != "train"):
            yield from self._unseen(split, "predicate", set(kb.predicates), lambda g: {f.predicate for f in g.facts})
            yield from self._unseen(split, "label", set(kb.targets), lambda g: {g.label} if g.label else set())

    def _named(self, split: str, what: str, holds: Callable[[Graph], bool]) -> Iterable[str]:
        numbers = [number for number, graph in enumerate(self._splits[split]) if holds(graph)]
        if numbers:
            yield f"in {len(numbers)} graphs of {split} {what}, e.g. {self._place(split, numbers[0])}"

    def _unseen(self, split: str, role: str, known: set[str], names: Callable[[Graph], set[str]]) -> Iterable[str]:
        unseen = {n: new for n, graph in enumerate(self._splits[split]) if (new := names(graph) - known)}
        if unseen:
            first, count = min(unseen), len(set[str]().union(*unseen.values()))
            yield (
                f"{count} {role}s of {split} do not occur in train, e.g. {min(unseen[first])!r} in "
                f"{self._place(split, first)}: {len(unseen)} graphs cannot be answered and count as wrong"
            )

    def _place(self, split: str, number: int) -> str:
        file, lines = self._places[split]
        return f"{file}, line {lines[number]}"
