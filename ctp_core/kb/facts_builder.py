"""Builds a KB from rows: numbers the names, drops duplicates, and notes what a user should know."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ctp_core.errors import DataError, EmptyKB, ParseError, TooLarge
from ctp_core.kb.formats.rows import Row
from ctp_core.kb.holdout import Holdout, hold_out
from ctp_core.kb.knowledge_base import SPLITS, FactIds, FactSet, FactsKB, distinct_facts
from ctp_core.symbols import MAX_NAME_LENGTH, Vocabulary, check_name

# Common names of the columns. CSV files may have a header; in other formats, such a row is stored as a fact.
HEADER_NAMES = (
    {"subject", "subj", "head", "source", "src", "from", "s", "h"},
    {"predicate", "pred", "relation", "rel", "property", "edge", "label", "p", "r"},
    {"object", "obj", "tail", "target", "dst", "to", "o", "t"},
)


DIGESTED = 100_000  # names or facts that are hashed at a time


@dataclass(frozen=True)
class KbLimits:
    """Upper limits on the size of a KB."""

    max_facts: int = 50_000_000
    max_symbols: int = 10_000_000
    max_name_length: int = MAX_NAME_LENGTH


@dataclass(frozen=True)
class BuiltKB:
    """A KB, the hash of its content, and warnings about it."""

    kb: FactsKB
    sha256: str
    warnings: list[str]


class FactsBuilder:
    """Collects the splits, in the order of SPLITS. Holds twelve bytes for each fact, and each name once."""

    def __init__(self, limits: KbLimits) -> None:
        self.limits = limits
        self._entities: dict[str, int] = {}
        self._predicates: dict[str, int] = {}
        self._splits: dict[str, array[int]] = {}
        # How many entities and predicates were known when a split began.
        self._known: dict[str, tuple[int, int]] = {}
        self._headers: list[str] = []

    def add(self, split: str, rows: Iterable[Row], file: str) -> None:
        """Adds the facts of a split; raises ParseError at a bad name, TooLarge past a limit."""
        entities, predicates = self._entities, self._predicates
        self._known[split] = len(entities), len(predicates)
        ids = self._splits[split] = array("i")
        room = 3 * (self.limits.max_facts - sum(len(other) // 3 for other in self._splits.values()))
        for line, subject_name, predicate_name, object_name in rows:
            subject = entities.get(subject_name)
            if subject is None:
                subject = self._number(entities, subject_name, file, line)
            predicate = predicates.get(predicate_name)
            if predicate is None:
                predicate = self._number(predicates, predicate_name, file, line)
            object_ = entities.get(object_name)
            if object_ is None:
                object_ = self._number(entities, object_name, file, line)
            if len(ids) == room:
                raise TooLarge(f"a KB may have at most {self.limits.max_facts} facts (CTP_MAX_FACTS)")
            ids.extend((subject, predicate, object_))
            if len(ids) == 3:
                self._note_header(file, line, (subject_name, predicate_name, object_name))

    def _note_header(self, file: str, line: int, first: tuple[str, str, str]) -> None:
        if all(name.strip().lower() in names for name, names in zip(first, HEADER_NAMES, strict=True)):
            remark = f"{file}, line {line} looks like a header, but is stored as a fact ({', '.join(first)})"
            self._headers.append(f"{remark}: remove the line if it is a header")

    def _number(self, names: dict[str, int], name: str, file: str, line: int) -> int:
        try:
            check_name(name, self.limits.max_name_length)
        except DataError as error:
            raise ParseError(file, line, str(error)) from None
        if len(names) == self.limits.max_symbols:
            raise TooLarge(
                f"a KB may have at most {self.limits.max_symbols} entities and as many predicates (CTP_MAX_SYMBOLS)"
            )
        names[name] = number = len(names)
        return number

    def build(self, holdout: Holdout | None = None) -> BuiltKB:
        """Builds the KB, once; raises EmptyKB without training facts, DataError where too few can be held out."""
        if not self._splits.get("train"):
            raise EmptyKB("the KB has no facts: send at least one row of subject, predicate, object")
        unique: dict[str, FactIds] = {}
        duplicates: dict[str, int] = {}
        for name in (name for name in SPLITS if name in self._splits):
            # Each array goes as soon as it is copied: of ten million facts it takes 120 MB.
            every = np.array(self._splits.pop(name), np.int64).reshape(-1, 3)
            unique[name] = distinct_facts(every, *self._sizes)
            duplicates[name] = len(every) - len(unique[name])
        entities = Vocabulary.numbered("entity", self._entities)
        kb = FactsKB(entities, Vocabulary.numbered("predicate", self._predicates), unique)
        remarks = [*self._remarks(unique, duplicates)]
        if holdout is not None:
            kb = cast(FactsKB, hold_out(kb, holdout))
        return BuiltKB(kb, digest(kb), remarks)

    @property
    def _sizes(self) -> tuple[int, int]:
        return len(self._entities), len(self._predicates)

    def _remarks(self, splits: dict[str, FactIds], duplicates: dict[str, int]) -> Iterable[str]:
        yield from self._headers
        for name, count in duplicates.items():
            if count:
                yield f"{count} duplicate facts were dropped from {name}"
        train = FactSet(splits["train"], *self._sizes) if len(splits) > 1 else None
        num_entities, num_predicates = self._after_train()
        for name in (name for name in splits if name != "train"):
            ids = splits[name]
            yield from _unseen("entities", name, ids[:, [0, 2]], num_entities, list(self._entities))
            yield from _unseen("predicates", name, ids[:, 1], num_predicates, list(self._predicates))
            shared = 0 if train is None else int(train.states(ids).sum())
            if shared:
                yield f"{shared} facts of {name} are also in train"
        spaced = [n for names in (self._entities, self._predicates) for n in names if n[0].isspace() or n[-1].isspace()]
        if spaced:
            yield f"{len(spaced)} names begin or end with a space, e.g. {min(spaced)!r}: the spaces are kept"

    def _after_train(self) -> tuple[int, int]:
        """The numbers of entities and predicates in train. Names that came later have larger numbers."""
        following = [known for name, known in self._known.items() if name != "train"]
        return following[0] if following else (len(self._entities), len(self._predicates))


def _unseen(role: str, split: str, ids: NDArray[np.int64], known: int, names: list[str]) -> Iterable[str]:
    unseen = np.unique(ids[ids >= known])
    if len(unseen):
        example = min(names[number] for number in unseen.tolist())
        yield f"{len(unseen)} {role} of {split} do not occur in train, e.g. {example!r}"


def digest(kb: FactsKB) -> str:
    """Hashes the names in the order of their numbers, then the facts: equal KBs agree, whatever their format."""
    content = sha256(b"facts\n")
    for vocabulary in (kb.entities, kb.predicates):
        # NUL can separate names: no name contains it.
        content.update(f"{len(vocabulary)}\0".encode())
        for start in range(0, len(vocabulary), DIGESTED):
            content.update(b"\0" if start else b"")
            content.update("\0".join(vocabulary.names[start : start + DIGESTED]).encode())
    for split, ids in kb.splits.items():
        content.update(f"\0{split}\0{len(ids)}\0".encode())
        for start in range(0, len(ids), DIGESTED):
            content.update(ids[start : start + DIGESTED].astype("<i4").tobytes())
    return content.hexdigest()
