"""`client.kbs`."""

import builtins
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ctp_client.errors import ClientError
from ctp_client.transport import Transport, segment
from ctp_client.types import FactRow, Format, Kb, Page, Symbol

UPLOAD_SECONDS = 600


def format_of(file: Path, given: str | None, formats: Callable[[], Iterable[Format]]) -> str | None:
    """The format `given`, or that of the suffix; None: as the service likes best. The service knows the `formats`.

    Raises ClientError where the name promises what is not written.
    """
    suffix = file.suffix.lower()
    if suffix == ".gz":
        raise ClientError(f"{file.name}: exports are not zipped: leave .gz out")
    if given is not None or not suffix:
        return given
    written = [(ending, known.name) for known in formats() if known.writable for ending in known.suffixes]
    found = next((name for ending, name in written if ending == suffix), None)
    if found is None:
        endings = ", ".join(dict.fromkeys(ending for ending, _ in written))
        raise ClientError(f"{file.name}: no format ends in {suffix}: name the format, or use {endings}")
    return found


def suffix_of(kind: str, name: str | None, formats: Iterable[Format]) -> str:
    """The first file ending of this format, or of the default format for the kind of the KB."""
    for known in formats:
        if known.writable and (known.name == name if name else known.kind == kind):
            return known.suffixes[0]
    return f".{name}"


class Kbs:
    """Knowledge bases, named by id or name."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, limit: int | None = None) -> Iterator[Kb]:
        return self._transport.items(Kb, "/kbs", limit)

    def get(self, kb: str) -> Kb:
        return self._transport.get(Kb, f"/kbs/{segment(kb)}")

    def create(
        self, name: str, facts: Iterable[tuple[str, str, str]], holdout: Mapping[str, float] | None = None
    ) -> Kb:
        """From facts in memory; the same facts under the same name are the KB that is there.

        `holdout` are shares to hold out of training, such as {"valid": 0.05, "test": 0.1}.
        """
        body = {"name": name, "kind": "facts", "facts": [list(f) for f in facts]}
        return self._transport.post(Kb, "/kbs", body | ({"holdout": dict(holdout)} if holdout else {}))

    def upload(
        self,
        name: str,
        files: Path | Mapping[str, Path],
        kind: str | None = None,
        format: str | None = None,
        holdout: Mapping[str, float] | None = None,
        open_file: Callable[[Path], Any] = lambda path: path.open("rb"),
    ) -> Kb:
        """From one file, or from files by split (`train`, `valid`, `test`); `open_file` may count what is read.

        `holdout` are shares of one file to hold out of training, such as {"valid": 0.05, "test": 0.1}.
        """
        paths = {"file": files} if isinstance(files, Path) else dict(files)
        given = {
            "name": name,
            "kind": kind,
            "format": format,
            "holdout": json.dumps(dict(holdout)) if holdout else None,
        }
        data = {key: value for key, value in given.items() if value}
        with ExitStack() as stack:
            opened = {split: (path.name, stack.enter_context(open_file(path))) for split, path in paths.items()}
            answer = self._transport.send("POST", "/kbs", data=data, files=opened, timeout=UPLOAD_SECONDS)
        return Kb.model_validate(answer.json())

    def facts(
        self,
        kb: str,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        limit: int | None = None,
    ) -> Iterator[FactRow]:
        """In the order of the upload, filtered by any of the three places."""
        path = f"/kbs/{segment(kb)}/facts"
        return self._transport.items(FactRow, path, limit, subject=subject, predicate=predicate, object=object)

    def predicates(self, kb: str, limit: int | None = None) -> Iterator[Symbol]:
        return self._transport.items(Symbol, f"/kbs/{segment(kb)}/predicates", limit)

    def entities(self, kb: str, prefix: str = "", limit: int | None = None) -> Iterator[Symbol]:
        return self._transport.items(Symbol, f"/kbs/{segment(kb)}/entities", limit, prefix=prefix)

    def neighbourhood(self, kb: str, entity: str, limit: int | None = None) -> dict[str, Any]:
        """The facts around an entity, never more than `limit`."""
        params = {"entity": entity} | ({"limit": limit} if limit else {})
        answer: dict[str, Any] = self._transport.send("GET", f"/kbs/{segment(kb)}/neighbourhood", params=params).json()
        return answer

    def formats(self) -> builtins.list[Format]:
        """What files KBs can be uploaded from and exported to."""
        return self._transport.get(Page[Format], "/formats").items

    def export(self, kb: str, to: Path, format: str | None = None, split: str | None = None) -> None:
        """Writes the KB, or one split of it, to a file; in the format of the file's suffix where none is given."""
        params = {"format": format_of(to, format, self.formats), "split": split}
        self._transport.download(f"/kbs/{segment(kb)}/export", to, params={k: v for k, v in params.items() if v})

    def export_splits(self, kb: str, folder: Path, format: str | None = None) -> builtins.list[Path]:
        """Writes each split to a file of its own, `train.tsv` and so on, as `upload` takes them back."""
        found = self.get(kb)
        suffix = suffix_of(found.kind, format, self.formats())
        files = {split: folder / f"{split}{suffix}" for split in found.splits}
        for split, file in files.items():
            self.export(kb, file, format, split)
        return [*files.values()]

    def delete(self, kb: str) -> None:
        self._transport.send("DELETE", f"/kbs/{segment(kb)}")
