"""What models of graphs share: a question with its entities numbered, and the scorer of many graphs at once."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn

from ctp_core.base.model import Answer, Model, Question
from ctp_core.base.unknown_facts import ignore_unknown
from ctp_core.errors import BadQuestion, UnknownSymbol
from ctp_core.kb.isomorphism import CanonicalGraph
from ctp_core.kb.knowledge_base import Kind
from ctp_core.shapes import Float, Tensor
from ctp_core.symbols import Fact, Vocabulary


@dataclass(frozen=True)
class AskedGraph:
    """`pairs` are the (subject, object) that may answer; `predicate` is None where it is asked for.

    `warnings` say which facts of the question were ignored.
    """

    question: Question
    entities: tuple[str, ...]
    graph: CanonicalGraph
    pairs: tuple[tuple[int, int], ...]
    stated: frozenset[Fact]
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, question: Question, warnings: tuple[str, ...] = ()) -> "AskedGraph":
        names = Vocabulary("entity", (name for fact in question.facts for name in (fact.subject, fact.object)))
        edges = {(names.id(fact.subject), fact.predicate, names.id(fact.object)) for fact in question.facts}
        everyone = tuple(names)
        goal = question.goal
        pairs = [
            (names.id(subject), names.id(object_))
            for subject in (everyone if goal.subject is None else (goal.subject,))
            for object_ in (everyone if goal.object is None else (goal.object,))
            if subject in names and object_ in names
        ]
        graph = CanonicalGraph(len(names), tuple(sorted(edges)), pairs[0] if pairs else (0, 0))
        return cls(question, everyone, graph, tuple(pairs), frozenset(question.facts), warnings)

    @property
    def predicate(self) -> str | None:
        return self.question.goal.predicate

    @property
    def closed(self) -> bool:
        """Nothing is open: the score of one fact is asked for."""
        return None not in self.question.goal

    def fact(self, pair: tuple[int, int], predicate: str) -> Fact:
        return Fact(self.entities[pair[0]], predicate, self.entities[pair[1]])


def read_question(question: Question, predicates: Vocabulary) -> AskedGraph:
    """Ignores facts whose predicates the model has never seen; raises BadQuestion or UnknownSymbol."""
    if not question.facts:
        raise BadQuestion(
            "this model was trained on many small graphs and holds no facts of its own: "
            "give the facts of the graph in `facts`"
        )
    if sum(part is None for part in question.goal) > 1:
        raise BadQuestion("only one of subject, predicate and object may be open")
    question = replace(question, facts=tuple(fact for fact in question.facts if fact not in question.without))
    question, warnings = ignore_unknown(question, predicates)
    if question.goal.predicate is not None:
        predicates.id(question.goal.predicate)
    asked = AskedGraph.of(question, warnings)
    for name in (question.goal.subject, question.goal.object):
        if name is not None and name not in asked.entities:
            raise UnknownSymbol("entity", name, asked.entities, _where(warnings))
    return asked


def _where(warnings: tuple[str, ...]) -> str:
    return (
        f"among the facts of the question that were not ignored ({'; '.join(warnings)})"
        if warnings
        else ("among the facts of the question")
    )


def ranked(question: Question, answers: Iterable[Answer]) -> tuple[Answer, ...]:
    """The best `top_k`, equal ones in the order of their facts; without what is known where that was asked."""
    kept = [answer for answer in answers if not (question.exclude_known and answer.known)]
    return tuple(sorted(kept, key=lambda answer: (-answer.score, answer.fact))[: question.top_k])


class GraphScorer(ABC):
    """`module` holds what is learnt. Instances and batches are of the scorer's own kind."""

    predicates: Vocabulary
    targets: tuple[str, ...]
    module: nn.Module

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    @abstractmethod
    def instance(self, graph: CanonicalGraph) -> Any:
        """The graph as this scorer sees it; raises UnknownSymbol for a predicate that was not learnt."""

    @abstractmethod
    def stack(self, instances: Sequence[Any], depth: int | None) -> Any:
        """Many graphs as one batch; `depth` matters to provers only."""

    @abstractmethod
    def scores(self, batch: Any) -> Float[Tensor, "query target"]:
        """As the model answers, in [0, 1]; no gradient."""

    @abstractmethod
    def afresh(self) -> "GraphScorer":
        """The same weights with nothing remembered of former batches: for measuring."""


class GraphsModel(Model):
    """A model of many small graphs; its scorer is for whoever scores many pairs at once."""

    kind: ClassVar[Kind] = "graphs"

    @property
    @abstractmethod
    def scorer(self) -> GraphScorer:
        """What scores the pairs of graphs."""

    @property
    def depth(self) -> int | None:
        """How deep it proves answers; None where that follows from the question, or where nothing is proved."""
        return None
