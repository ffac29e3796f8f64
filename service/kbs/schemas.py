"""Requests and answers about KBs."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from ctp_core.kb.holdout import Holdout
from service.http.timestamps import Timestamp

Split = Literal["train", "valid", "test"]
FactTuple = tuple[str, str, str]


class KbCreate(BaseModel):
    """A KB to upload as JSON: each fact is [subject, predicate, object]."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "name": "my-family",
                "kind": "facts",
                "facts": [["rick", "parent", "beth"], ["beth", "parent", "morty"]],
            }
        },
    )

    name: str = Field(min_length=1, max_length=64)
    kind: Literal["facts"] = "facts"
    facts: Annotated[list[FactTuple], FailFast()] = Field(description="Facts, each as [subject, predicate, object].")
    holdout: Holdout | None = Field(
        None, description='Shares of the facts to hold out of training, such as `{"valid": 0.05, "test": 0.1}`.'
    )


class KbOut(BaseModel):
    """A KB with its size, its splits and warnings about its content."""

    id: str
    name: str
    kind: str
    num_facts: int
    num_entities: int
    num_predicates: int
    splits: dict[str, int]
    sha256: str
    warnings: list[str]
    sample: bool
    created_at: Timestamp


class FactOut(BaseModel):
    """A fact of a KB and its split."""

    subject: str
    predicate: str
    object: str
    split: str


class NeighbourhoodOut(BaseModel):
    """Facts around an entity; `truncated` says that there are more than `limit`."""

    entity: str
    items: list[FactOut]
    truncated: bool


class SymbolOut(BaseModel):
    """A name and the number of facts that contain it."""

    name: str
    num_facts: int


class FormatOut(BaseModel):
    """A format of files, what it is in one sentence, and the endings of file names that it is recognised by."""

    name: str = Field(description="What `format` of an upload or an export may say.")
    title: str
    text: str
    kind: str
    suffixes: list[str]
    writable: bool = Field(description="Whether a KB can be exported in it, too.")


EXAMPLE_FORMAT: dict[str, Any] = {
    "name": "tsv",
    "title": "TSV",
    "text": "Three columns separated by tabs: subject, predicate, object.",
    "kind": "facts",
    "suffixes": [".tsv"],
    "writable": True,
}
EXAMPLE_KB: dict[str, Any] = {
    "id": "kb_5d1f0c9a7be84421",
    "name": "my-family",
    "kind": "facts",
    "num_facts": 2,
    "num_entities": 3,
    "num_predicates": 1,
    "splits": {"train": 2},
    "sha256": "0f3a…",
    "warnings": [],
    "sample": False,
    "created_at": "2026-01-01T12:00:00Z",
}
EXAMPLE_FACT: dict[str, Any] = {"subject": "rick", "predicate": "parent", "object": "beth", "split": "train"}
EXAMPLE_NEIGHBOURHOOD: dict[str, Any] = {"entity": "beth", "items": [EXAMPLE_FACT], "truncated": False}
EXAMPLE_SYMBOL: dict[str, Any] = {"name": "rick", "num_facts": 1}
