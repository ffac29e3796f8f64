"""Rules read from Prolog, `0.9::p(X,Y) :- q(X,Z), r(Z,Y).`, and written as Prolog."""

import re
from collections.abc import Mapping, Sequence

from ctp_core.errors import DataError
from ctp_core.rules import MAX_BODY, Atom, Rule, quoted, unquoted
from ctp_core.rules_from_atoms import rule_from_atoms

ATOM_TOKENS = 7  # name ( X , Y ) and what stands after it
MAX_RULE_LENGTH = 10_000  # characters: a head and MAX_BODY atoms whose names are as long as those of a KB may be
_PLAIN = re.compile(r"[a-z]\w*", re.ASCII)
_TOKEN = re.compile(r"\s*(?:(?P<quoted>'(?:[^'\\]|\\.|'')*')|(?P<neck>:-)|(?P<mark>[(),.])|(?P<word>[^\s(),.':]+))")
_WEIGHT = re.compile(r"\s*(?P<weight>[0-9.eE+-]+)\s*::")


def clause(head: Mapping[str, str], body: Sequence[Mapping[str, str]]) -> str:
    """A rule that any Prolog reads; names that are not plain words are quoted."""
    atoms = [f"{_quote(atom['predicate'])}({atom['subject']},{atom['object']})" for atom in (head, *body)]
    return f"{atoms[0]} :- {', '.join(atoms[1:])}."


def _quote(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def parse_rule(text: str) -> Rule:
    """A rule from Prolog, with an optional weight: `0.9::p(X,Y) :- q(X,Z), r(Z,Y).`; raises DataError.

    The body must be a path from X to Y, or from Y to X: that is what a prover has templates for.
    """
    if len(text) > MAX_RULE_LENGTH:
        raise DataError(f"rule {text[:80]!r}…: it is longer than {MAX_RULE_LENGTH} characters")
    weight = _WEIGHT.match(text)
    confidence = _confidence(weight["weight"], text) if weight else 1.0
    head, *body = _atoms(_tokens(text[weight.end() :] if weight else text), text)
    rule = rule_from_atoms(head, body, confidence)
    if not rule.body.one_way:
        raise DataError(
            f"rule {text!r}: the body must be a path between the two variables of the head, in one direction"
        )
    return rule


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
    """The atoms of the head and then of the body; raises DataError."""
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
