"""Reads logical questions, written as text or given as objects.

question := formula ("," formula)*
formula  := atom | "not" formula | "(" question ("or" question)* ")"
atom     := name "(" term "," term ")"
term     := "?" word | name
name     := a word without white space, commas, brackets and double quotes, or a JSON string
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from ctp_core.errors import BadQuestion, DataError
from ctp_core.logic.formula import PLAIN, RESERVED, VARIABLE, Conjunction, Formula, Not, Or, QueryAtom, Term, Variable
from ctp_core.symbols import check_name

MAX_TEXT = 20_000  # characters of one text
MAX_DEPTH = 8  # negations, brackets and branches within each other
SHAPE = 'expected an atom such as treats(?d, asthma); names that are not plain words stand in "quotes"'
KEYS = ("subject", "predicate", "object")
OBJECTS = 'write "treats(?d, asthma)", {"subject", "predicate", "object"}, {"not": atom} or {"or": [[atoms], [atoms]]}'
_PLACE = 80  # characters of a place that are shown
_SHOWN = 20  # characters of what was found
_TOKEN = re.compile(
    rf"(?P<mark>[(),])|(?P<text>\"(?>[^\"\\]+|\\.)*+\")|(?P<variable>{VARIABLE.pattern})|(?P<word>{PLAIN.pattern})"
)
_SPACE = re.compile(r"\s*")


class BadQuery(BadQuestion):
    """A logical question that cannot be read or asked; `place` says in which part, `character` (from 1) where in it."""

    code = "bad_query"

    def __init__(self, reason: str, place: str = "where", character: int | None = None) -> None:
        at = f"{place}, character {character}" if character is not None else place
        super().__init__(f"{at}: {reason}")
        self.place, self.character = place, character


class _Token(NamedTuple):
    kind: str
    text: str
    at: int  # the first character, from 0


class _Count:
    """Counts the atoms of a question while they are read, so that a long one is refused before it is read whole."""

    def __init__(self, most: float = math.inf, setting: str = "") -> None:
        self._left, self._limit = most, f"{most} ({setting})" if setting else str(most)

    def one(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise BadQuery(f"the question has more than {self._limit} atoms: ask in several questions")


def parse(text: str, place: str = "where") -> Conjunction:
    """The formulas of a text; raises BadQuery, which points at the character."""
    return _Reader(text, place, _Count()).whole()


def read_where(values: Sequence[Any], max_atoms: float = math.inf, setting: str = "") -> Conjunction:
    """The formulas of a question as people send it: texts and objects, mixed as they like; raises BadQuery.

    `setting` is what the limit of atoms is called.
    """
    count = _Count(max_atoms, setting)
    return tuple(f for number, value in enumerate(values) for f in _read(value, f"where.{number}", 0, count))


def _read(value: Any, place: str, depth: int, count: _Count) -> Conjunction:
    if depth > MAX_DEPTH:
        raise BadQuery(f"more than {MAX_DEPTH} negations and branches stand within each other", place[:_PLACE] + "…")
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise BadQuery(f"the text is longer than {MAX_TEXT} characters", place)
        return _Reader(value, place, count).whole()
    if not isinstance(value, Mapping):
        raise BadQuery(f"this is neither text nor an object: {OBJECTS}", place)
    if value.keys() == {"not"}:
        return (_negated(value["not"], f"{place}.not", depth, count),)
    if value.keys() == {"or"}:
        return (_either(value["or"], f"{place}.or", depth, count),)
    if value.keys() == set(KEYS):
        count.one()
        return (_atom_of(value, place),)
    raise BadQuery(f"this object has other keys: {OBJECTS}", place)


def _negated(value: Any, place: str, depth: int, count: _Count) -> Formula:
    formulas = _read(value, place, depth + 1, count)
    if len(formulas) != 1:
        raise BadQuery("`not` takes one atom or one `or`", place)
    return Not(formulas[0])


def _either(branches: Any, place: str, depth: int, count: _Count) -> Formula:
    several = isinstance(branches, list) and len(branches) > 1
    if not several or not all(isinstance(branch, list) and branch for branch in branches):
        raise BadQuery("`or` takes a list of two or more branches, each a list of atoms", place)
    read = (
        tuple(
            f for number, value in enumerate(branch) for f in _read(value, f"{place}.{at}.{number}", depth + 1, count)
        )
        for at, branch in enumerate(branches)
    )
    return Or(tuple(read))


def _atom_of(value: Mapping[str, Any], place: str) -> QueryAtom:
    names = {key: value[key] for key in KEYS}
    for key, name in names.items():
        if not isinstance(name, str):
            raise BadQuery("this is not a text: give a name, or a variable such as ?x", f"{place}.{key}")
        try:
            check_name(name)
        except DataError as error:
            raise BadQuery(str(error), f"{place}.{key}") from None
    if VARIABLE.fullmatch(names["predicate"]):
        raise BadQuery("a predicate cannot be a variable: name it", f"{place}.predicate")
    subject, object_ = (_term_of(names[key]) for key in ("subject", "object"))
    return QueryAtom(names["predicate"], subject, object_)


def _term_of(name: str) -> Term:
    return Variable(name[1:]) if VARIABLE.fullmatch(name) else name


class _Reader:
    """Reads one text from left to right, with one token of foresight."""

    def __init__(self, text: str, place: str, count: _Count) -> None:
        self._text, self._place, self._at, self._count = text, place, 0, count
        self._next = self._read()

    def whole(self) -> Conjunction:
        found = self._conjunction(0)
        if self._is("word", "."):
            self._take()
        if self._next.kind != "end":
            self._fail("expected a comma and another atom, or the end" + self._found())
        return found

    def _conjunction(self, depth: int) -> Conjunction:
        found = [self._formula(depth)]
        while self._next.kind == "mark" and self._next.text == ",":
            self._take()
            found.append(self._formula(depth))
        return tuple(found)

    def _formula(self, depth: int) -> Formula:
        if depth > MAX_DEPTH:
            self._fail(f"more than {MAX_DEPTH} negations and brackets stand within each other")
        if self._is("word", "not"):
            self._take()
            return Not(self._formula(depth + 1))
        if self._is("mark", "("):
            return self._bracket(depth)
        return self._atom()

    def _bracket(self, depth: int) -> Formula:
        opening = self._take()
        branches = [self._conjunction(depth + 1)]
        while self._is("word", "or"):
            self._take()
            branches.append(self._conjunction(depth + 1))
        if not self._is("mark", ")"):
            self._fail("expected a comma, `or`, or the closing bracket" + self._found())
        self._take()
        if len(branches) > 1:
            return Or(tuple(branches))
        if len(branches[0]) > 1:
            self._fail("a bracket holds alternatives: write `(a(?x, b) or c(?x, d))`", opening)
        return branches[0][0]

    def _atom(self) -> QueryAtom:
        predicate = self._take()
        if predicate.kind == "variable":
            self._fail("a predicate cannot be a variable: name it", predicate)
        if predicate.kind not in ("word", "text"):
            self._fail(SHAPE + self._found(predicate), predicate)
        if predicate.kind == "word" and predicate.text in RESERVED:
            word = predicate.text
            self._fail(f"`{word}` joins atoms, as in (a(?x, b) or c(?x, d)); quote a predicate named {word}", predicate)
        name = self._name(predicate)
        self._expect("(", f"expected a bracket after the predicate {predicate.text[:_SHOWN]}")
        subject = self._term()
        self._expect(",", "expected a comma and the second argument")
        object_ = self._term()
        self._expect(")", "expected a closing bracket: an atom has two arguments")
        self._count.one()
        return QueryAtom(name, subject, object_)

    def _term(self) -> Term:
        token = self._take()
        if token.kind == "variable":
            return Variable(token.text[1:])
        if token.kind not in ("word", "text"):
            self._fail("expected a variable such as ?x or the name of an entity" + self._found(token), token)
        return self._name(token)

    def _name(self, token: _Token) -> str:
        if token.kind == "word":
            name = token.text
        else:
            try:
                name = json.loads(token.text, strict=False)
            except ValueError:
                self._fail('this is not a JSON string: write a backslash as \\\\ and a quote as \\"', token)
        try:
            return check_name(name)
        except DataError as error:
            self._fail(str(error), token)

    def _expect(self, mark: str, message: str) -> None:
        if not self._is("mark", mark):
            self._fail(message + self._found())
        self._take()

    def _is(self, kind: str, text: str) -> bool:
        return (self._next.kind, self._next.text) == (kind, text)

    def _take(self) -> _Token:
        taken = self._next
        if taken.kind != "end":
            self._next = self._read()
        return taken

    def _read(self) -> _Token:
        space = _SPACE.match(self._text, self._at)
        start = space.end() if space else self._at
        if start == len(self._text):
            return _Token("end", "", start)
        match = _TOKEN.match(self._text, start)
        if match is None or match.lastgroup is None:
            self._fail(_unreadable(self._text[start:]), _Token("", "", start))
        self._at = match.end()
        return _Token(match.lastgroup, match[0], start)

    def _found(self, token: _Token | None = None) -> str:
        token = token or self._next
        return "; the text ends here" if token.kind == "end" else f"; found {token.text[:_SHOWN]!r}"

    def _fail(self, reason: str, token: _Token | None = None) -> NoReturn:
        at = self._next.at if token is None else token.at
        raise BadQuery(reason, self._place, at + 1)


def _unreadable(rest: str) -> str:
    if rest[0] == '"':
        return 'this quoted name is not closed: add "'
    return "a variable is a question mark and a word, such as ?drug"
