"""Names: facts and goals as people write them, and the vocabulary that numbers them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ctp_core.errors import DataError, UnknownSymbol

MAX_NAME_LENGTH = 512


def check_name(name: str, max_length: int = MAX_NAME_LENGTH) -> str:
    """Returns the name itself; raises DataError where it is empty, too long, or not storable text."""
    if not name:
        raise DataError("a name is empty")
    if len(name) > max_length:
        raise DataError(f"a name of {len(name)} characters is longer than {max_length}: {name[:32]!r}…")
    if "\x00" in name:
        raise DataError(f"the name {name[:32]!r} contains a NUL character")
    if not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise DataError(f"the name {name[:32]!r} contains half a surrogate pair") from None
    return name


class Fact(NamedTuple):
    """subject, predicate, object: `parent(rick, beth)` is Fact("rick", "parent", "beth")."""

    subject: str
    predicate: str
    object: str

    def __str__(self) -> str:
        return f"{self.predicate}({self.subject}, {self.object})"


class Goal(NamedTuple):
    """A fact in which one place may be open (None)."""

    subject: str | None
    predicate: str | None
    object: str | None


class Vocabulary:
    """Distinct names, numbered in the order in which they were given; immutable."""

    def __init__(self, role: str, names: Iterable[str]) -> None:
        self.role = role
        self.names: tuple[str, ...] = tuple(dict.fromkeys(names))
        self._ids = {name: i for i, name in enumerate(self.names)}

    @classmethod
    def numbered(cls, role: str, ids: dict[str, int]) -> "Vocabulary":
        """Takes over a dictionary of names with their numbers, 0, 1, 2 and so on in its own order."""
        made = cls(role, ())
        made.names, made._ids = tuple(ids), ids
        return made

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (self.role, self.names) == (other.role, other.names)

    def __hash__(self) -> int:
        return hash((self.role, self.names))

    def id(self, name: str) -> int:
        """The number of a name; raises UnknownSymbol with the nearest names."""
        try:
            return self._ids[name]
        except KeyError:
            raise UnknownSymbol(self.role, name, self.names) from None
