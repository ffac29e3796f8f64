"""How facts connect the two entities that a graph asks about."""

from collections import defaultdict
from collections.abc import Iterable

from ctp_core.kb.knowledge_base import Graph

# The share of training graphs that must need a template: rules in both directions cost too much for fewer.
WORTHWHILE = 0.02


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
