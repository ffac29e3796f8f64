"""Random families of three generations, in which grandparents, aunts and siblings follow from who is whose parent."""

import random
from dataclasses import dataclass

from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Family:
    parent: Pairs
    sister: Pairs
    sibling: Pairs
    grandparent: Pairs
    aunt: Pairs

    def kb(self, predicates: tuple[str, ...], hidden: Fact) -> FactsKB:
        """The facts of these predicates without `hidden`, and without its reverse, which would give it away."""
        reverse = Fact(hidden.object, hidden.predicate, hidden.subject)
        facts = [Fact(a, predicate, b) for predicate in predicates for a, b in getattr(self, predicate)]
        return FactsKB.from_facts({"train": [fact for fact in facts if fact not in (hidden, reverse)]})


def random_family(seed: int, founders: int = 4) -> Family:
    choose = random.Random(seed)
    parent: Pairs = []
    generation, people = [f"founder{i}" for i in range(founders)], founders
    for _ in range(2):
        children = []
        for person in generation:
            for _ in range(choose.randint(2, 3)):
                people += 1
                parent.append((person, f"person{people}"))
                children.append(f"person{people}")
        generation = children[:8]
    return _derived(parent, {child for _, child in parent if choose.random() < 0.5})


def _derived(parent: Pairs, women: set[str]) -> Family:
    children: dict[str, list[str]] = {}
    for person, child in parent:
        children.setdefault(person, []).append(child)
    sibling = [(a, b) for shared in children.values() for a in shared for b in shared if a != b]
    sister = [(a, b) for a, b in sibling if a in women]
    return Family(
        parent,
        sister,
        sibling,
        grandparent=[(a, c) for a, b in parent for c in children.get(b, [])],
        aunt=[(a, c) for a, b in sister for c in children.get(b, [])],
    )
