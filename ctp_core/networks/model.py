"""A network as a model: it labels pairs in a graph, but gives no proofs."""

from collections.abc import Sequence
from typing import ClassVar

import torch

from ctp_core.artifact import Artifact
from ctp_core.base.graphs_model import AskedGraph, GraphScorer, GraphsModel, ranked, read_question
from ctp_core.base.model import Answer, Answers, Budget, Question, Scoring
from ctp_core.base.progress import OnPart, unheard
from ctp_core.errors import ArtifactError, BadQuestion, CtpError
from ctp_core.kb.isomorphism import CanonicalGraph, canonical
from ctp_core.networks.config import NetworkConfig, read_network_config
from ctp_core.networks.registry import build_network
from ctp_core.networks.rows import GraphNetwork, GraphRows, NumberedGraph, stack_rows
from ctp_core.rules import Rule
from ctp_core.shapes import Float, Tensor
from ctp_core.symbols import Vocabulary

MAX_FACTS = 1_000_000  # in all graphs of one question together; each takes about ten microseconds
FACTS_AT_ONCE = 20_000  # in the graphs of one batch, which are padded to the same length


class NetworkScorer(GraphScorer):
    """Scores the targets by a softmax over the network's logits."""

    module: GraphNetwork

    def __init__(
        self, config: NetworkConfig, predicates: Vocabulary, targets: Sequence[str], network: GraphNetwork
    ) -> None:
        self.config, self.predicates, self.targets, self.module = config, predicates, tuple(targets), network

    def instance(self, graph: CanonicalGraph) -> NumberedGraph:
        return NumberedGraph.of(graph, self.predicates)

    def stack(self, instances: Sequence[NumberedGraph], depth: int | None = None) -> GraphRows:  # noqa: ARG002
        return stack_rows(instances, self.config.names, self.config.few_names, self.device)

    @torch.no_grad()
    def scores(self, batch: GraphRows) -> Float[Tensor, "query target"]:
        self.module.eval()
        return self.module(batch).softmax(dim=1)  # type: ignore[no-any-return]

    def afresh(self) -> "NetworkScorer":
        return self


class NetworkModel(GraphsModel):
    """Answers with the probability that a predicate, among all targets, holds for the pair."""

    scoring: ClassVar[Scoring] = "no_proofs"

    def __init__(self, scorer: NetworkScorer) -> None:
        self.config: NetworkConfig = scorer.config
        self._scorer = scorer

    @property
    def scorer(self) -> NetworkScorer:
        return self._scorer

    def answer(self, questions: Sequence[Question], budget: Budget) -> list[Answers | CtpError]:
        return [self._answer(question, budget) for question in questions]

    def _answer(self, question: Question, budget: Budget) -> Answers | CtpError:
        try:
            asked = read_question(question, self.scorer.predicates)
            names = self._names(asked)
            _check_size(asked)
        except CtpError as error:
            return error
        candidates = self._candidates(asked, names, budget)
        truncated = len(candidates) < len(asked.pairs) * len(names)
        return Answers(ranked(question, candidates), truncated, asked.warnings)

    def _names(self, asked: AskedGraph) -> tuple[str, ...]:
        """The predicates that may be the answer; raises BadQuestion for one that was never a label in training."""
        if asked.predicate is None:
            return self.scorer.targets
        if asked.predicate not in self.scorer.targets:
            raise BadQuestion(
                f"{asked.predicate!r} was not a label of this model's training graphs, and it answers with no other: "
                f"ask for one of {', '.join(self.scorer.targets)}"
            )
        return (asked.predicate,)

    def _candidates(self, asked: AskedGraph, names: tuple[str, ...], budget: Budget) -> list[Answer]:
        """Scores as many pairs as the budget allows, each with all names or not at all."""
        found: list[Answer] = []
        graphs: dict[tuple[int, int], NumberedGraph] = {}
        for pair in asked.pairs:
            if budget.expired:
                return found
            # As in training, a graph is walked from the subject of its pair, so each pair needs a graph of its own.
            graphs[pair] = self.scorer.instance(canonical(asked.graph._replace(query=pair)))
            if len(graphs) * len(asked.graph.edges) >= FACTS_AT_ONCE:
                found += self._scored(asked, names, graphs)
                graphs = {}
        return found + self._scored(asked, names, graphs)

    def _scored(
        self, asked: AskedGraph, names: tuple[str, ...], graphs: dict[tuple[int, int], NumberedGraph]
    ) -> list[Answer]:
        if not graphs:
            return []
        columns = {name: i for i, name in enumerate(self.scorer.targets)}
        scores = self.scorer.scores(self.scorer.stack(list(graphs.values()))).double().tolist()
        facts = [
            (asked.fact(pair, name), row[columns[name]])
            for pair, row in zip(graphs, scores, strict=True)
            for name in names
        ]
        return [Answer(fact, min(1.0, score), fact in asked.stated) for fact, score in facts]

    def rules(self, on_part: OnPart = unheard) -> list[Rule]:
        del on_part  # there is nothing to count
        return []

    def to_artifact(self) -> Artifact:
        manifest = {
            "kind": self.kind,
            "config": self.config.model_dump(mode="json"),
            "predicates": list(self.scorer.predicates),
            "targets": list(self.scorer.targets),
        }
        return Artifact(manifest, dict(self.scorer.module.state_dict()))

    @classmethod
    def from_artifact(cls, artifact: Artifact, device: torch.device) -> "NetworkModel":
        try:
            config = read_network_config(artifact.manifest["config"])
            predicates = Vocabulary("predicate", artifact.manifest["predicates"])
            targets = tuple(artifact.manifest["targets"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"the manifest of a network is not complete: {error}") from None
        network = build_network(config, len(predicates), len(targets)).to(device)
        try:
            network.load_state_dict(artifact.tensors)
        except RuntimeError as error:
            raise ArtifactError(f"the tensors do not fit the config: {error}") from None
        return cls(NetworkScorer(config, predicates, targets, network.requires_grad_(False)))


def _check_size(asked: AskedGraph) -> None:
    """Raises BadQuestion where too many facts would be read: an open place makes one graph for each entity."""
    facts, pairs = len(asked.graph.edges), len(asked.pairs)
    if facts * pairs > MAX_FACTS:
        raise BadQuestion(
            f"a network reads all {facts:,} facts once for each of {pairs:,} pairs, but at most {MAX_FACTS:,} facts "
            "for one question: give both subject and object, or fewer `facts`"
        )
