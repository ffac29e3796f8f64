"""The Conditional Theorem Prover on small graphs: answers what relates two entities of a graph, with proofs."""

from collections.abc import Sequence
from typing import ClassVar

import torch

from ctp_core.artifact import Artifact
from ctp_core.base.graphs_model import GraphsModel, read_question
from ctp_core.base.model import Answers, Budget, Question, Scoring
from ctp_core.base.progress import OnPart, unheard
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.explainer import explain
from ctp_core.ctp_graphs.reasoner import GraphReasoner, build_theory
from ctp_core.errors import ArtifactError, CtpError, DataError
from ctp_core.rules import Rule
from ctp_core.rules_from_atoms import rule_from_values
from ctp_core.symbols import Vocabulary


class CtpGraphsModel(GraphsModel):
    """The paper's prover on graphs: predicate vectors and `select`. The facts come with each question."""

    scoring: ClassVar[Scoring] = "best_proof"

    def __init__(self, reasoner: GraphReasoner, rules: Sequence[Rule]) -> None:
        self.config: CtpGraphsConfig = reasoner.config
        self.reasoner = reasoner
        self._rules = list(rules)
        self._confidences = {rule.text: rule.confidence for rule in rules}

    @property
    def scorer(self) -> GraphReasoner:
        return self.reasoner

    @property
    def depth(self) -> int | None:
        return self.config.depth

    @property
    def semiring(self) -> str:
        return self.config.semiring

    def answer(self, questions: Sequence[Question], budget: Budget) -> list[Answers | CtpError]:
        """Once the time is over, the first question is answered from facts alone, and the others not at all."""
        return [
            Answers((), truncated=True) if number and budget.expired else self._answer(question, budget)
            for number, question in enumerate(questions)
        ]

    def _answer(self, question: Question, budget: Budget) -> Answers | CtpError:
        try:
            asked = read_question(question, self.reasoner.predicates)
            return explain(self.reasoner, asked, budget, self._confidences)
        except CtpError as error:
            return error

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        del on_part  # counted when the model was made
        return list(self._rules)

    def to_artifact(self) -> Artifact:
        manifest = {
            "kind": self.kind,
            "config": self.config.model_dump(mode="json"),
            "predicates": list(self.reasoner.predicates),
            "targets": list(self.reasoner.targets),
            "rules": [rule.values() for rule in self._rules],
        }
        return Artifact(manifest, dict(self.reasoner.module.state_dict()))

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "CtpGraphsModel":
        try:
            config = CtpGraphsConfig.stored(artifact.manifest["config"])
            predicates = Vocabulary("predicate", artifact.manifest["predicates"])
            targets = tuple(artifact.manifest["targets"])
            rules = [rule_from_values(values) for values in artifact.manifest["rules"]]
        except (KeyError, TypeError, ValueError, AttributeError, DataError) as error:
            raise ArtifactError(f"the manifest of a graphs model is incomplete: {error}") from None
        return cls(_reasoner(config, predicates, targets, artifact, device), rules)


def _reasoner(
    config: CtpGraphsConfig, predicates: Vocabulary, targets: tuple[str, ...], artifact: Artifact, device: torch.device
) -> GraphReasoner:
    # The initial values are replaced, so any generator serves; it sets the device.
    module = build_theory(config, predicates, torch.Generator(device=device).manual_seed(0))
    try:
        module.load_state_dict(artifact.tensors)
    except RuntimeError as error:
        raise ArtifactError(f"the tensors do not fit the config: {error}") from None
    return GraphReasoner(config, predicates, targets, module)
