"""`client.models`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ctp_client.transport import Transport, segment
from ctp_client.types import Epoch, Model, Rule

IMPORT_SECONDS = 600


class RuleFilter(TypedDict, total=False):
    """Which rules to list, beside those of a predicate and of a least confidence."""

    min_support: int | None  # 0 lists rules that conclude nothing known as well
    min_precision: float | None
    constants: bool | None  # rules about a named entity as well
    priors: bool | None  # rules about X or Y alone as well: they say how common it is


class Models:
    """Model versions, named by id, `name`, `name@3` or `name@champion`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, name: str | None = None, limit: int | None = None) -> Iterator[Model]:
        """Newest first."""
        return self._transport.items(Model, "/models", limit, name=name)

    def get(self, model: str) -> Model:
        return self._transport.get(Model, f"/models/{segment(model)}")

    def metrics(self, model: str) -> Iterator[Epoch]:
        return self._transport.items(Epoch, f"/models/{segment(model)}/metrics")

    def rules(
        self,
        model: str,
        predicate: str | None = None,
        min_confidence: float | None = None,
        limit: int | None = None,
        **wanted: Unpack[RuleFilter],
    ) -> Iterator[Rule]:
        """By head; within a head those that explain most first."""
        path = f"/models/{segment(model)}/rules"
        asked = {"predicate": predicate, "min_confidence": min_confidence, **wanted}
        return self._transport.items(Rule, path, limit, **asked)

    def prolog(
        self,
        model: str,
        predicate: str | None = None,
        min_confidence: float | None = None,
        limit: int = 1000,
        **wanted: Unpack[RuleFilter],
    ) -> str:
        """The rules as a Prolog program, in the same order; at most 1000 of them."""
        asked = {"predicate": predicate, "min_confidence": min_confidence, "limit": limit, **wanted}
        params = {key: value for key, value in asked.items() if value is not None}
        path = f"/models/{segment(model)}/rules"
        return self._transport.send("GET", path, params=params, headers={"Accept": "text/plain"}).text

    def groundings(self, model: str, rule: str, limit: int | None = None, cursor: str | None = None) -> dict[str, Any]:
        """The facts behind a rule, a page at a time."""
        path = f"/models/{segment(model)}/rules/{segment(rule)}/groundings"
        given = {"limit": limit, "cursor": cursor}
        params = {key: value for key, value in given.items() if value is not None}
        answer: dict[str, Any] = self._transport.send("GET", path, params=params).json()
        return answer

    def compare(
        self, models: Sequence[str], questions: int | None = None, disagreements: int | None = None
    ) -> dict[str, Any]:
        """Side by side, and asked the same `questions` of the test split; lists some where they differ."""
        given = {"ids": ",".join(models), "questions": questions, "disagreements": disagreements}
        params = {key: value for key, value in given.items() if value is not None}
        answer: dict[str, Any] = self._transport.send("GET", "/models/compare", params=params).json()
        return answer

    def set_alias(self, model: Model, alias: str) -> None:
        """Makes `name@alias` mean this version from now on."""
        path = f"/models/{segment(model.name)}/aliases/{segment(alias)}"
        self._transport.send("PUT", path, json={"version": model.version})

    def warm(self, model: str) -> None:
        """Has a query worker load the model, so that the first query does not wait."""
        self._transport.send("POST", f"/models/{segment(model)}/warm")

    def export(self, model: str, to: Path) -> None:
        """Writes the whole model to one archive that any service can import."""
        self._transport.download(f"/models/{segment(model)}/export", to)

    def load(self, archive: Path, name: str | None = None) -> Model:
        """Registers an exported archive as a new version."""
        with archive.open("rb") as file:
            data = {"name": name} if name else {}
            answer = self._transport.send(
                "POST", "/models/import", data=data, files={"file": (archive.name, file)}, timeout=IMPORT_SECONDS
            )
        return Model.model_validate(answer.json())

    def delete(self, model: str) -> None:
        self._transport.send("DELETE", f"/models/{segment(model)}")
