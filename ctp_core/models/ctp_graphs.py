"""The Conditional Theorem Prover on small graphs: answers what relates two entities of a graph, with proofs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import torch

from ctp_core.artifact import Artifact
from ctp_core.config import BaseConfig, parse_config
from ctp_core.config.ctp import CtpConfig
from ctp_core.datasets.kb import Kind
from ctp_core.errors import ArtifactError, BadQuestion, CtpError, UnknownSymbol
from ctp_core.models.base import Answer, Answers, Budget, Model, Question
from ctp_core.models.graph_question import AskedGraph
from ctp_core.models.graph_reasoner import Explained, GraphReasoner, build_theory
from ctp_core.rules import Atom, Rule
from ctp_core.symbols import Vocabulary


class CtpGraphsModel(Model):
    """Predicate vectors and `select`; the facts come with each question."""

    method: ClassVar[str] = "ctp"
    kind: ClassVar[Kind] = "graphs"

    def __init__(self, reasoner: GraphReasoner, rules: Sequence[Rule]) -> None:
        self.config: CtpConfig = reasoner.config
        self.reasoner = reasoner
        self._rules = list(rules)

    @property
    def semiring(self) -> str:
        return self.config.semiring

    def answer(self, questions: Sequence[Question], budget: Budget) -> list[Answers | CtpError]:
        return [self._answer(question, budget) for question in questions]

    def _answer(self, question: Question, budget: Budget) -> Answers | CtpError:
        try:
            asked = self._read(question)
            found = self.reasoner.explain(asked, budget)
        except CtpError as error:
            return error
        answers = [self._to_answer(asked, explained) for explained in found.items]
        ranked = sorted(answers, key=lambda answer: (-answer.score, answer.fact))
        if question.exclude_known:
            ranked = [answer for answer in ranked if not answer.known]
        return Answers(tuple(ranked[: question.top_k]), found.truncated)

    def _read(self, question: Question) -> AskedGraph:
        """Raises BadQuestion or UnknownSymbol."""
        if not question.facts:
            raise BadQuestion(
                "this model was trained on many small graphs and holds no facts of its own: "
                "give the facts of the graph in `facts`"
            )
        if sum(part is None for part in question.goal) > 1:
            raise BadQuestion("only one of subject, predicate and object may be open")
        for fact in question.facts:
            self.reasoner.predicates.id(fact.predicate)
        if question.goal.predicate is not None:
            self.reasoner.predicates.id(question.goal.predicate)
        asked = AskedGraph.of(question)
        for name in (question.goal.subject, question.goal.object):
            if name is not None and name not in asked.entities:
                raise UnknownSymbol("entity", name, asked.entities)
        return asked

    def _to_answer(self, asked: AskedGraph, explained: Explained) -> Answer:
        return Answer(explained.fact, explained.score, explained.fact in asked.stated, explained.proofs)

    def rules(self) -> list[Rule]:
        return list(self._rules)

    def to_artifact(self) -> Artifact:
        manifest = {
            "kind": self.kind,
            "config": self.config.model_dump(mode="json"),
            "predicates": list(self.reasoner.predicates),
            "targets": list(self.reasoner.targets),
            "rules": [asdict(rule) for rule in self._rules],
        }
        return Artifact(manifest, dict(self.reasoner.theory.state_dict()))

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "CtpGraphsModel":
        try:
            config = parse_config(artifact.manifest["config"])
            predicates = Vocabulary("predicate", artifact.manifest["predicates"])
            targets = tuple(artifact.manifest["targets"])
            rules = [_rule(values) for values in artifact.manifest["rules"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"the manifest of a graphs model is not complete: {error}") from None
        return cls(_reasoner(config, predicates, targets, artifact, device), rules)


def _rule(values: dict[str, Any]) -> Rule:
    head, body = Atom(**values["head"]), tuple(Atom(**atom) for atom in values["body"])
    return Rule(**{**values, "head": head, "body": body})


def _reasoner(
    config: BaseConfig, predicates: Vocabulary, targets: tuple[str, ...], artifact: Artifact, device: torch.device
) -> GraphReasoner:
    if not isinstance(config, CtpConfig):
        raise ArtifactError(f"a graphs model has a config of method ctp, not {config.method!r}")
    # The initial values are thrown away, so that any generator serves; it fixes the device.
    theory = build_theory(config, predicates, torch.Generator(device=device).manual_seed(0))
    try:
        theory.load_state_dict(artifact.tensors)
    except RuntimeError as error:
        raise ArtifactError(f"the tensors do not fit the config: {error}") from None
    return GraphReasoner(config, predicates, targets, theory)
