"""Rules as people read them, `p(X,Y) :- q(X,Z), r(Z,Y)`, in one form: the same rule has one text and one id.

A body is a path of atoms. It is written from X to Y, whichever way round its atoms are stated, or away from X or Y
where it is about that one alone. Its other variables are Z, Z2, Z3, … in that order. `rules_from_atoms` and
`prolog_rules` read rules that were written in other forms.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Self, TypeVar

from ctp_core.confidence import confidence_of
from ctp_core.errors import ConfigError
from ctp_core.symbols import Fact

SURE = 1 - 1e-6  # a generated vector that meets a predicate this well is that predicate
ID_LENGTH = 12
MAX_BODY = 8  # atoms; a longer body is a mistake, and its search would be one too
About = Literal["", "X", "Y"]
T = TypeVar("T")


@dataclass(frozen=True)
class Atom:
    """A predicate over two variables, or constants, which are in quotes."""

    predicate: str
    subject: str
    object: str

    def __str__(self) -> str:
        return f"{self.predicate}({self.subject},{self.object})"


@dataclass(frozen=True, order=True)
class Template:
    """The shape of a body. Where `about` is empty, a path of `length` atoms between X and Y; `0` has no rule.

    `reversed`: every atom is stated against the path from X to Y. `about`: the body is about X or Y alone. `constant`:
    and the other one is an entity; such a body has one atom or two, and its template does not say how many.
    """

    length: int
    reversed: bool = False
    about: About = ""
    constant: bool = False

    @classmethod
    def parse(cls, text: str) -> "Template":
        """`0`, `n`, `nR`, `1X`, `1Y`, `cX` or `cY`; raises ConfigError."""
        if text in ONE_SIDED:
            return ONE_SIDED[text]
        match = re.fullmatch(r"([0-9])(R?)", text)
        if match is None or text == "0R" or int(match[1]) > MAX_BODY:
            raise ConfigError(f"template {text!r} is not 0, n or nR with n from 1 to {MAX_BODY}, such as 1, 1R or 2")
        return cls(int(match[1]), bool(match[2]))

    def __str__(self) -> str:
        if self.constant:
            return f"c{self.about}"
        return f"{self.length}{'R' if self.reversed else self.about}"

    @property
    def unary(self) -> bool:
        """The body says something of one entity alone, whatever the other one is."""
        return bool(self.about) and not self.constant

    @property
    def about_subject(self) -> bool:
        return self.about == "X"

    @property
    def direct(self) -> bool:
        """One atom between X and Y."""
        return self.length == 1 and not self.about

    def along(self, places: tuple[T, ...]) -> tuple[T, ...]:
        """What stands at the places of the template, in the order of the path from X to Y; and back again."""
        return places[::-1] if self.reversed else places


UNARY = (Template(1, about="X"), Template(1, about="Y"))
SIDES = (Template(0, about="X", constant=True), Template(0, about="Y", constant=True))
ONE_SIDED = {str(template): template for template in (*UNARY, *SIDES)}


class Step(NamedTuple):
    """An atom of a path; `inverse` where it is stated against the way it is walked: q(Z,X) from X to Z."""

    predicate: str
    inverse: bool = False


def steps_of(predicates: Sequence[str], atoms: Iterable[int]) -> tuple[Step, ...]:
    """Steps of atoms numbered as in edge lists: the predicates, then their inverses."""
    count = len(predicates)
    return tuple(Step(predicates[atom % count], atom >= count) for atom in atoms)


@dataclass(frozen=True)
class Body:
    """A path from X to Y; or, where it is `about` one of them alone, away from that one, to anything or to `end`."""

    steps: tuple[Step, ...]
    about: About = ""
    end: str | None = None

    @classmethod
    def of(cls, template: Template, predicates: tuple[str, ...]) -> "Body":
        """Builds a body from predicates in the order of a template: `2R` of a and b is b(Z,X), a(Y,Z)."""
        return cls(tuple(Step(predicate, template.reversed) for predicate in template.along(predicates)))

    @property
    def predicates(self) -> tuple[str, ...]:
        return tuple(step.predicate for step in self.steps)

    @property
    def one_way(self) -> bool:
        """A path between X and Y whose atoms are all stated along it or all against it: what `ctp` can prove by."""
        return not self.about and len({step.inverse for step in self.steps}) == 1

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        return tuple(Atom(step.predicate, *ends) for step, ends in self._stated(self._variables()))

    def facts(self, entities: Sequence[str]) -> tuple[Fact, ...]:
        """The facts along a path through these entities, each the way round the KB states it."""
        return tuple(Fact(subject, step.predicate, object_) for step, (subject, object_) in self._stated(entities))

    def _stated(self, stations: Sequence[str]) -> Iterable[tuple[Step, tuple[str, str]]]:
        for step, (left, right) in zip(self.steps, pairwise(stations), strict=True):
            yield step, (right, left) if step.inverse else (left, right)

    def _variables(self) -> tuple[str, ...]:
        others = _others(len(self.steps))
        if not self.about:
            return ("X", *others[:-1], "Y")
        return (self.about, *others) if self.end is None else (self.about, *others[:-1], quoted(self.end))


@lru_cache
def _others(count: int) -> tuple[str, ...]:
    """Variables beside X and Y: Z, Z2, Z3, …"""
    return ("Z", *(f"Z{number}" for number in range(2, count + 1)))[:count]


@dataclass(frozen=True)
class Rule:
    """A decoded rule, with what was counted over the KB and what the model makes of it.

    `confidence` is the chance that what the rule concludes is true, as confidence.py estimates it. On graphs, and until
    a rule is counted, it is what the model has. `weight` is what a single proof by the rule adds to the logit in models
    that add evidence, and its score in models that take the best proof.
    `constant` is the entity in the head, whose body is then about the other place. `approximate` says that a body
    predicate was generated and is shown by its nearest name.
    """

    predicate: str
    body: Body
    confidence: float
    constant: str | None = None
    support: int | None = None
    precision: float | None = None
    approximate: bool = False
    weight: float | None = None

    @cached_property
    def head(self) -> Atom:
        fixed = None if self.constant is None else quoted(self.constant)
        if fixed is None:
            return Atom(self.predicate, "X", "Y")
        return Atom(self.predicate, *(("X", fixed) if self.body.about == "X" else (fixed, "Y")))

    @property
    def template(self) -> Template:
        if self.constant is not None:
            return SIDES[self.body.about == "Y"]
        steps, about = self.body.steps, self.body.about
        return Template(len(steps), reversed=not about and all(step.inverse for step in steps), about=about)

    @property
    def prior(self) -> bool:
        """One variable of the head is not in the body, so that the rule only says how common the other one is."""
        return self.template.unary

    @property
    def explains(self) -> float:
        """How much of the KB rests on the rule: its weight for each fact that it concludes."""
        return (self.confidence if self.weight is None else self.weight) * (self.support or 0)

    @cached_property
    def text(self) -> str:
        return rule_text(self.head, self.body.atoms)

    @cached_property
    def id(self) -> str:
        """The same rule has the same id in every model, so that rules can be compared between models."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:ID_LENGTH]

    def values(self) -> dict[str, Any]:
        """What is stored of a rule; `rule_from_values` reads it, and makes text, id and template anew."""
        return {
            "head": vars(self.head),
            "body": [vars(atom) for atom in self.body.atoms],
            "template": str(self.template),
            "confidence": self.confidence,
            "weight": self.weight,
            "support": self.support,
            "precision": self.precision,
            "approximate": self.approximate,
        }

    def counted(self, support: int, pairs: int) -> Self:
        """A copy with what was counted; what the model had as confidence becomes the weight, unless it has one.

        Precision is None where the body never holds.
        """
        return replace(
            self,
            confidence=confidence_of(support, pairs),
            weight=self.confidence if self.weight is None else self.weight,
            support=support,
            precision=support / pairs if pairs else None,
        )


def _least_telling_last(rule: Rule) -> tuple[bool, float, float, str]:
    return rule.prior, -rule.explains, -rule.confidence, rule.text


def most_telling(rules: Sequence[Rule], most: int) -> Sequence[Rule]:
    """At most so many rules, those that explain most whatever their head, in the order in which they came."""
    if len(rules) <= most:
        return rules
    kept = {rule.text for rule in sorted(rules, key=_least_telling_last)[:most]}
    return [rule for rule in rules if rule.text in kept]


def by_what_they_explain(rules: Iterable[Rule]) -> list[Rule]:
    """Grouped by head; the head and the rules that explain most first, priors behind all other rules of their head."""
    heads: dict[str, list[Rule]] = {}
    for rule in rules:
        heads.setdefault(rule.predicate, []).append(rule)
    for group in heads.values():
        group.sort(key=_least_telling_last)
    groups = sorted(heads.items(), key=lambda head: (head[1][0].prior, -head[1][0].explains, head[0]))
    return [rule for _, group in groups for rule in group]


def each_once(rules: Iterable[Rule]) -> list[Rule]:
    """Removes repetitions: keeps the most confident of equal rules, and the first of equally confident ones."""
    found: dict[str, Rule] = {}
    for rule in rules:
        if rule.text not in found or rule.confidence > found[rule.text].confidence:
            found[rule.text] = rule
    return list(found.values())


def rule_text(head: Atom, body: Iterable[Atom]) -> str:
    return f"{head} :- {', '.join(map(str, body))}"


def quoted(name: str) -> str:
    """An entity as an argument of an atom: in quotes, so that it is never mistaken for a variable."""
    escaped = name.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def unquoted(token: str) -> str:
    """The name that `quoted` was given."""
    inner = token[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else str(match[1]), inner)


def is_constant(argument: str) -> bool:
    return argument.startswith("'")
