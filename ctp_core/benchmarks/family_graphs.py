"""Our own family graphs: chains of 2…N facts with exact labels, in the vocabulary of CLUTRR, from a seed.

A family tree is grown; a pair of relatives is chosen; the fact between them is replaced by two facts through a third
person, again and again, until the chain has the wanted length. Only compositions that hold in every family are used (a
brother's father is a father; a son's grandfather may be a father or a father-in-law), so that the chain alone
determines the label. Nobody occurs twice in a chain, and no chain consists of one predicate only.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

from ctp_core.errors import ConfigError
from ctp_core.kb.knowledge_base import Graph
from ctp_core.symbols import Fact

EDGES = (
    *("aunt", "brother", "daughter", "father", "granddaughter", "grandfather", "grandmother", "grandson"),
    *("husband", "mother", "sister", "son", "uncle", "wife"),
)
TARGETS = (
    *("aunt", "brother", "daughter", "daughter-in-law", "father", "father-in-law", "granddaughter", "grandfather"),
    *("grandmother", "grandson", "mother", "mother-in-law", "nephew", "niece", "sister", "son", "son-in-law", "uncle"),
)
GENERATIONS, COUPLES, MIN_CHILDREN = 4, 4, 3
# Some relations have one or two compositions only, and some last facts only one result; at full weight the last fact
# alone would give too many labels away.
TARGET_WEIGHTS = {"son-in-law": 0.4, "daughter-in-law": 0.4, "father-in-law": 0.7, "mother-in-law": 0.7} | {
    "nephew": 0.6,
    "niece": 0.6,
}
LAST_WEIGHTS = {"grandson": 0.2, "granddaughter": 0.2, "grandfather": 0.2, "grandmother": 0.2}
MAX_ATTEMPTS = 200
_NAMES = ("Ada", "Bela", "Cleo", "Dina", "Emma"), ("Alan", "Boris", "Carl", "Dan", "Emil")


@dataclass(eq=False)
class Person:
    name: str
    male: bool
    parents: tuple["Person", ...] = ()
    spouse: "Person | None" = None
    children: list["Person"] = field(default_factory=list)

    @property
    def siblings(self) -> list["Person"]:
        return [child for child in self.parents[0].children if child is not self] if self.parents else []

    def relatives(self) -> dict["Person", str]:
        """Everyone whose relation to this person has a name; each has only one."""
        found: dict[Person, str] = {}

        def name(people: Sequence[Person], male: str, female: str) -> None:
            found.update({person: male if person.male else female for person in people})

        name(self.parents, "father", "mother")
        name([g for p in self.parents for g in p.parents], "grandfather", "grandmother")
        name(self.siblings, "brother", "sister")
        name([u for p in self.parents for u in p.siblings], "uncle", "aunt")
        name(self.children, "son", "daughter")
        name([g for c in self.children for g in c.children], "grandson", "granddaughter")
        name([n for s in self.siblings for n in s.children], "nephew", "niece")
        name([c.spouse for c in self.children if c.spouse], "son-in-law", "daughter-in-law")
        if self.spouse:
            name([self.spouse], "husband", "wife")
            name(self.spouse.parents, "father-in-law", "mother-in-law")
        return found


def grow_family(rng: random.Random, children: int) -> list[Person]:
    """Grows one couple's family; a few couples of each generation have `children` children each."""
    people: list[Person] = []

    def person(male: bool, parents: tuple[Person, ...] = ()) -> Person:
        names = _NAMES[male]
        people.append(Person(f"{names[len(people) % len(names)]}{len(people)}", male, parents))
        return people[-1]

    def marry(one: Person) -> tuple[Person, Person]:
        other = person(not one.male)
        one.spouse, other.spouse = other, one
        return one, other

    couples = [marry(person(male=True))]
    for _ in range(GENERATIONS - 1):
        born = []
        for couple in couples:
            for _ in range(children):
                child = person(rng.random() < 0.5, couple)
                born.append(marry(child))
                for parent in couple:
                    parent.children.append(child)
        couples = rng.sample(born, min(COUPLES, len(born)))
    return people


class Family:
    """A grown family; the relatives of a person are found when they are first asked for."""

    def __init__(self, people: list[Person]) -> None:
        self.people = people
        self._relatives: dict[Person, dict[Person, str]] = {}

    def relatives(self, person: Person) -> dict[Person, str]:
        if person not in self._relatives:
            self._relatives[person] = person.relatives()
        return self._relatives[person]

    def related(self, person: Person, predicate: str) -> list[Person]:
        return [other for other, relation in self.relatives(person).items() if relation == predicate]


@cache
def sound_compositions() -> dict[tuple[str, str], str]:
    """Maps (p, q) to r where the q of somebody's p is always their r, unless it is that person."""
    family = Family(grow_family(random.Random(0), children=6))  # noqa: S311 - any family of this size has every case
    found: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for person in family.people:
        for middle, first in family.relatives(person).items():
            for other, second in family.relatives(middle).items():
                if other is not person and first in EDGES and second in EDGES:
                    found[(first, second)].add(family.relatives(person).get(other))
    return {pair: r for pair, results in found.items() if len(results) == 1 and (r := next(iter(results))) is not None}


def family_graphs(count: int, lengths: Sequence[int], seed: int, per_family: int = 20) -> list[Graph]:
    """Makes `count` graphs. Every `per_family` graphs a new family is grown, large enough for the longest chain."""
    if min(lengths, default=0) < 2:
        raise ConfigError("family graphs need at least 2 edges")
    rng = random.Random(seed)  # noqa: S311 - data for experiments, not secrets
    children = MIN_CHILDREN + max(lengths)  # a chain between siblings consumes one of them for most of its facts
    graphs: list[Graph] = []
    while len(graphs) < count:
        family = Family(grow_family(rng, children))
        graphs += [_graph(family, rng.choice(lengths), rng) for _ in range(min(per_family, count - len(graphs)))]
    return graphs


def _graph(family: Family, length: int, rng: random.Random) -> Graph:
    target = rng.choices(TARGETS, [TARGET_WEIGHTS.get(target, 1.0) for target in TARGETS])[0]
    starts = [pair for pair, result in sound_compositions().items() if result == target]
    weights = [LAST_WEIGHTS.get(last, 1.0) for _, last in starts]
    for _ in range(MAX_ATTEMPTS):
        path = _grown(family, _start(family, rng.choices(starts, weights)[0], rng), length, rng)
        if path is None:
            continue
        facts = tuple(Fact(a.name, family.relatives(a)[b], b.name) for a, b in pairwise(path))
        if len({fact.predicate for fact in facts}) > 1:
            return Graph(facts, path[0].name, path[-1].name, target)
    raise ConfigError(f"no family chain of {length} edges was found: the families are too small for it")


def _start(family: Family, start: tuple[str, str], rng: random.Random) -> list[Person] | None:
    """Finds three people joined by facts with these two predicates; None where the family has none."""
    for first in rng.sample(family.people, len(family.people)):
        middles = family.related(first, start[0])
        if middles:
            middle = rng.choice(middles)
            lasts = [last for last in family.related(middle, start[1]) if last is not first]
            if lasts:
                return [first, middle, rng.choice(lasts)]
    return None


def _grown(family: Family, path: list[Person] | None, length: int, rng: random.Random) -> list[Person] | None:
    """Grows the chain to this length; None where nobody is left to stand between any two."""
    while path is not None and len(path) <= length:
        for at in rng.sample(range(len(path) - 1), len(path) - 1):
            between = _between(family, path[at], path[at + 1], path)
            if between:
                path.insert(at + 1, rng.choice(between))
                break
        else:
            return None
    return path


def _between(family: Family, first: Person, last: Person, path: list[Person]) -> list[Person]:
    """The people who may stand between the two so that the two new facts soundly imply the old one."""
    wanted, rules = family.relatives(first)[last], sound_compositions()
    return [
        middle
        for middle, predicate in family.relatives(first).items()
        if rules.get((predicate, family.relatives(middle).get(last, ""))) == wanted and middle not in path
    ]
