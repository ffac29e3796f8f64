"""Graphs, whatever their format: whether they are usable, how facts connect their pair, and KBs built from them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from ctp_core.errors import DataError, ParseError
from ctp_core.kb.knowledge_base import SPLITS, Graph, GraphsKB
from ctp_core.symbols import MAX_NAME_LENGTH, Vocabulary, check_name

# The share of training graphs that must need a template: rules in both directions cost too much for fewer.
WORTHWHILE = 0.02


def fault(graph: Graph) -> str | None:
    """Why nothing can be learnt from this graph, or None."""
    if not graph.facts:
        return "the graph has no facts"
    entities = {name for fact in graph.facts for name in (fact.subject, fact.object)}
    for name in (graph.subject, graph.object):
        if name not in entities:
            return f"the query pair names {name!r}, which is in no fact of the graph"
    return None


def checked(graph: Graph, file: str, line: int, max_name_length: int = MAX_NAME_LENGTH) -> Graph:
    """Returns the graph itself; raises ParseError where it is not usable."""
    names = {name for fact in graph.facts for name in fact} | {graph.subject, graph.object}
    try:
        for name in sorted(names if graph.label is None else names | {graph.label}):
            check_name(name, max_name_length)
    except DataError as error:
        raise ParseError(file, line, str(error)) from None
    reason = fault(graph)
    if reason is not None:
        raise ParseError(file, line, reason)
    return graph


def graphs_kb(splits: Mapping[str, Iterable[Graph]]) -> GraphsKB:
    """Builds a KB from graphs; raises DataError with the split and the number of a graph that is not usable.

    Predicates come from the training split, in alphabetical order. A predicate that training never saw has no vector,
    so a fact of a later split that has it is ignored.
    """
    ordered = {name: tuple(splits[name]) for name in SPLITS if name in splits}
    train = ordered.get("train", ())
    if not train:
        raise DataError("there are no training graphs")
    targets = sorted({graph.label for graph in train if graph.label is not None})
    if not targets:
        raise DataError("no training graph has a label")
    predicates = sorted({fact.predicate for graph in train for fact in graph.facts} | set(targets))
    kb = GraphsKB(Vocabulary("predicate", predicates), tuple(targets), ordered)
    _check_graphs(kb)
    return kb


def _check_graphs(kb: GraphsKB) -> None:
    for split, graphs in kb.splits.items():
        for number, graph in enumerate(graphs, start=1):
            if (reason := fault(graph)) is not None:
                raise DataError(f"{split}, graph {number}: {reason}")


def templates_needed(graphs: Iterable[Graph]) -> tuple[str, ...]:
    """The templates that graphs need besides chains (`2`, `3`, …).

    `1` where one fact leads from subject to object; `1R` where some facts must be read backwards.
    """
    lies = [_needed(graph) for graph in graphs if graph.label is not None]
    return tuple(template for template in ("1", "1R") if lies.count(template) > WORTHWHILE * len(lies))


def joined(graph: Graph) -> bool:
    """Whether facts in any direction lead from subject to object, or back to the same entity along their direction."""
    following, around = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for fact in graph.facts:
        following[fact.subject].add(fact.object)
        around[fact.subject].add(fact.object)
        around[fact.object].add(fact.subject)
    ways = following if graph.subject == graph.object else around
    return graph.object in _reachable(ways[graph.subject], ways)


def _needed(graph: Graph) -> str | None:
    following: dict[str, set[str]] = defaultdict(set)
    for fact in graph.facts:
        following[fact.subject].add(fact.object)
    beyond = {name for middle in following[graph.subject] for name in following[middle]}
    if graph.object in _reachable(beyond, following):
        return None
    return "1" if graph.object in following[graph.subject] else "1R"


def _reachable(starts: Iterable[str], following: dict[str, set[str]]) -> set[str]:
    reached, new = set[str](), set(starts)
    while new:
        reached |= new
        new = {name for middle in new for name in following[middle]} - reached
    return reached
