"""The names of entities and predicates: any text that can be stored and shown again."""

from ctp_core.errors import DataError

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
