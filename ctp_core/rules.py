"""Rules as people read them: `p(X,Y) :- q(X,Z), r(Z,Y)`; their templates; reading and writing Prolog."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ctp_core.errors import ConfigError, DataError

SURE = 1 - 1e-6  # a generated vector that meets a predicate this well is that predicate
ID_LENGTH = 12
MAX_BODY = 8  # atoms; a longer body is a mistake, and its search would be one too
ATOM_TOKENS = 7  # name ( X , Y ) and what stands after it
MAX_RULE_LENGTH = 10_000  # characters: a head and MAX_BODY atoms whose names are as long as those of a KB may be


@dataclass(frozen=True)
class Atom:
    """A predicate over two variables, or constants, which are in quotes."""

    predicate: str
    subject: str
    object: str

    def __str__(self) -> str:
        return f"{self.predicate}({self.subject},{self.object})"


@dataclass(frozen=True)
class Template:
    """The shape of a rule: a path of `length` atoms from X to Y, or from Y to X where `reversed`; `0` has no rule."""

    length: int
    reversed: bool = False

    @classmethod
    def parse(cls, text: str) -> "Template":
        """`0`, `n` or `nR`; raises ConfigError."""
        match = re.fullmatch(r"(\d)(R?)", text)
        if match is None or text == "0R" or int(match[1]) > MAX_BODY:
            raise ConfigError(f"template {text!r} is not 0, n or nR with n from 1 to {MAX_BODY}, such as 1, 1R or 2")
        return cls(int(match[1]), bool(match[2]))

    def __str__(self) -> str:
        return f"{self.length}{'R' if self.reversed else ''}"

    def atoms(self, predicates: tuple[str, ...]) -> tuple[Atom, ...]:
        """The body with these predicates: `2` -> q(X,Z), r(Z,Y); longer ones use Z1, Z2, …"""
        middle = ["Z"] if self.length == 2 else [f"Z{i}" for i in range(1, self.length)]
        ends = ("Y", "X") if self.reversed else ("X", "Y")
        path = [ends[0], *middle, ends[1]]
        return tuple(Atom(p, a, b) for p, a, b in zip(predicates, path[:-1], path[1:], strict=True))


@dataclass(frozen=True)
class Rule:
    """A decoded rule: confidence as the model has it, support and precision as counted over the KB.

    `approximate` says that a body predicate was generated and is shown by its nearest name.
    """

    head: Atom
    body: tuple[Atom, ...]
    template: str
    confidence: float
    support: int | None = None
    precision: float | None = None
    approximate: bool = False

    @cached_property
    def text(self) -> str:
        return f"{self.head} :- {', '.join(map(str, self.body))}"

    @cached_property
    def id(self) -> str:
        """The same text has the same id in every model, so that rules can be compared between models."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:ID_LENGTH]

    @property
    def predicates(self) -> tuple[str, ...]:
        """Of the body, in the order of the path."""
        return tuple(atom.predicate for atom in self.body)

    @property
    def prolog(self) -> str:
        return clause(vars(self.head), [vars(atom) for atom in self.body])


def clause(head: Mapping[str, str], body: Sequence[Mapping[str, str]]) -> str:
    """A rule that any Prolog reads; names that are not plain words are quoted."""
    atoms = [f"{_quote(atom['predicate'])}({atom['subject']},{atom['object']})" for atom in (head, *body)]
    return f"{atoms[0]} :- {', '.join(atoms[1:])}."


def make_rule(
    head: str, template: Template, body: tuple[str, ...], confidence: float, approximate: bool = False
) -> Rule:
    """head(X,Y) over a body of this template."""
    return Rule(Atom(head, "X", "Y"), template.atoms(body), str(template), confidence, approximate=approximate)


_PLAIN = re.compile(r"[a-z]\w*", re.ASCII)
_TOKEN = re.compile(r"\s*(?:(?P<quoted>'(?:[^'\\]|\\.|'')*')|(?P<neck>:-)|(?P<mark>[(),.])|(?P<word>[^\s(),.':]+))")
_WEIGHT = re.compile(r"\s*(?P<weight>[0-9.eE+-]+)\s*::")


def quoted(name: str) -> str:
    """An entity as an argument of an atom: in quotes, so that it is never mistaken for a variable."""
    escaped = name.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def _quote(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def unquoted(token: str) -> str:
    """The name that `quoted` was given."""
    inner = token[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else str(match[1]), inner)


def parse_rule(text: str) -> Rule:
    """A rule from Prolog, with an optional weight: `0.9::p(X,Y) :- q(X,Z), r(Z,Y).`; raises DataError.

    The body must be a path from X to Y or back, in the order of the path: that is what a template can hold.
    """
    if len(text) > MAX_RULE_LENGTH:
        raise DataError(f"rule {text[:80]!r}…: it is longer than {MAX_RULE_LENGTH} characters")
    weight = _WEIGHT.match(text)
    confidence = _confidence(weight["weight"], text) if weight else 1.0
    head, *body = _atoms(_tokens(text[weight.end() :] if weight else text), text)
    template = _template(head, body, text)
    return make_rule(head.predicate, template, tuple(atom.predicate for atom in body), confidence)


def _confidence(weight: str, text: str) -> float:
    try:
        confidence = float(weight)
    except ValueError:
        confidence = -1.0
    if not 0 < confidence <= 1:
        raise DataError(f"rule {text!r}: the weight must be a number in (0, 1]")
    return confidence


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise DataError(f"rule {text!r}: cannot be read from {text[at : at + 10]!r} on")
        tokens.append((match.lastgroup, match[match.lastgroup]))
        if len(tokens) > ATOM_TOKENS * (1 + MAX_BODY):
            raise DataError(f"rule {text!r}: the body has more than {MAX_BODY} atoms")
        at = match.end()
    return tokens[:-1] if tokens and tokens[-1] == ("mark", ".") else tokens


def _atoms(tokens: list[tuple[str, str]], text: str) -> list[Atom]:
    """Head, then body."""
    atoms = []
    while tokens:
        (kind, name), marks, arguments = tokens[0], tokens[1:6:2], tokens[2:6:2]
        if kind not in ("quoted", "word") or [m[1] for m in marks] != ["(", ",", ")"] or len(arguments) < 2:
            raise DataError(f"rule {text!r}: expected an atom such as q(X,Z)")
        if not all(word == "word" and variable[:1].isupper() for word, variable in arguments):
            raise DataError(f"rule {text!r}: the arguments of {name} must be variables, in capitals")
        atoms.append(Atom(unquoted(name) if kind == "quoted" else name, arguments[0][1], arguments[1][1]))
        separator, tokens = tokens[ATOM_TOKENS - 1 : ATOM_TOKENS], tokens[ATOM_TOKENS:]
        if separator != ([] if not tokens else [("neck", ":-")] if len(atoms) == 1 else [("mark", ",")]):
            raise DataError(f"rule {text!r}: expected `head :- atom, atom, …`")
    if len(atoms) < 2:
        raise DataError(f"rule {text!r}: a rule has a head and a body")
    return atoms


def _template(head: Atom, body: list[Atom], text: str) -> Template:
    path = [body[0].subject, *(atom.object for atom in body)]
    joined = all(left.object == right.subject for left, right in pairwise(body))
    if not joined or len(set(path)) < len(path) or {path[0], path[-1]} != {head.subject, head.object}:
        raise DataError(f"rule {text!r}: the body must be a path between the two variables of the head")
    return Template(len(body), reversed=path[0] == head.object)
