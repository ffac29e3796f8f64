"""Reads whole KBs, numbered as they were uploaded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import SPLITS, FactIds, FactsKB, Graph, GraphsKB, KnowledgeBase
from ctp_core.symbols import Fact
from service.db.tables import GraphRow, Kb
from service.facts.files import KbFiles
from service.facts.reading import ENTITY, PREDICATE, StoredFacts
from service.kbs import repository


@dataclass(frozen=True)
class KbRows:
    """What the database knows of a KB, so that no transaction is open while its files are read."""

    kb: Kb
    artifact: str
    graphs: Sequence[GraphRow] = ()

    @classmethod
    def of(cls, session: Session, kb: Kb, *, graphs: bool = True) -> "KbRows":
        """Raises ArtifactError if the KB is gone. `graphs` are for whoever reads whole graphs: a large KB has many."""
        rows = repository.graph_rows(session, kb) if graphs and kb.kind == "graphs" else ()
        return cls(kb, repository.artifact_of(session, kb), rows)

    def open(self, files: KbFiles) -> StoredFacts:
        return files.open(self.artifact, self.kb.name, self.kb.kind)

    def read(self, files: KbFiles) -> KnowledgeBase:
        """Reads the whole KB; raises ArtifactError if it is gone or damaged, StorageError if that cannot be told."""
        stored = self.open(files)
        return self._graphs(stored) if self.kb.kind == "graphs" else self._facts(stored)

    def _facts(self, stored: StoredFacts) -> FactsKB:
        splits = {name: self.kb.splits[name] for name in SPLITS if name in self.kb.splits}
        ids = _ids(stored, sum(splits.values()))
        ends = np.cumsum(list(splits.values())).tolist()
        return FactsKB(
            stored.vocabulary(ENTITY),
            stored.vocabulary(PREDICATE),
            {name: ids[end - splits[name] : end] for name, end in zip(splits, ends, strict=True)},
        )

    def _graphs(self, stored: StoredFacts) -> GraphsKB:
        facts = named_facts(stored)
        splits: dict[str, list[Graph]] = {name: [] for name in SPLITS if name in self.kb.splits}
        for row in self.graphs:
            own = [next(facts) for _ in range(row.num_facts)]
            splits[row.split].append(repository.graph_of(row, own, stored))
        return graphs_kb(splits)


def _ids(stored: StoredFacts, num_facts: int) -> FactIds:
    """All facts, in the order of the upload."""
    ids, first = np.empty((num_facts, 3), np.int64), 0
    for piece in stored.pieces():
        end = first + len(piece["subject"])
        for place, column in enumerate(("subject", "predicate", "object")):
            ids[first:end, place] = piece[column]
        first = end
    return ids


def named_facts(stored: StoredFacts, split: str | None = None) -> Iterator[Fact]:
    """Yields facts with their names in the order of the upload; holds the names of one piece at a time."""
    for piece in stored.pieces(split):
        columns = [
            _named(stored, role, piece[column])
            for role, column in ((ENTITY, "subject"), (PREDICATE, "predicate"), (ENTITY, "object"))
        ]
        yield from map(Fact, *columns)


def _named(stored: StoredFacts, role: str, numbers: FactIds) -> list[str]:
    distinct, places = np.unique(numbers, return_inverse=True)
    names = [stored.names(role).name(number) for number in distinct.tolist()]
    return [names[place] for place in places.tolist()]
