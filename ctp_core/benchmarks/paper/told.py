"""What the published sequence encoders were given: the label itself, between the two entities of the goal.

Their code linearises goal and facts with the predicate that each has, and the goal's is the answer. This does the
same with our encoders, in the benchmark only, to see whether that explains the published figures.
"""

import torch

from ctp_core.config.networks import NetworkConfig
from ctp_core.datasets.kb import Graph, GraphsKB
from ctp_core.networks.rows import GraphRows
from ctp_core.networks.sequence import SequenceNetwork
from ctp_core.shapes import Int, Tensor
from ctp_core.training.graph_examples import Examples, accuracy, read_graphs
from ctp_core.training.networks import NetworkTrainer


class ToldNetwork(SequenceNetwork):
    """Reads `told`, one predicate for each row of the next batch, where it should read that it is asked."""

    told: Int[Tensor, " query"]

    def _goal(self, rows: GraphRows) -> Int[Tensor, "query 3"]:
        subject, _, object_ = super()._goal(rows).unbind(dim=1)
        return torch.stack([subject, self.num_names + self.told, object_], dim=1)


class ToldTrainer(NetworkTrainer):
    """Tells every label while training, and while testing."""

    def __init__(self, config: NetworkConfig, kb: GraphsKB) -> None:
        super().__init__(config, kb, torch.device("cpu"))
        network = self.scorer.module
        assert isinstance(network, SequenceNetwork)
        network.__class__ = ToldNetwork  # the same weights, read otherwise
        self._targets = torch.tensor([kb.predicates.id(name) for name in kb.targets])

    def _tell(self, labels: Tensor) -> None:
        self.scorer.module.told = self._targets[labels.argmax(dim=1)]

    def loss(self, rows: Int[Tensor, " graph"]) -> Tensor:
        self._tell(self.train.labels[rows])
        return super().loss(rows)

    def valid_scores(self) -> Tensor:
        return self._told_scores(self.valid)

    def _told_scores(self, examples: Examples) -> Tensor:
        """In one batch, for that is what the labels are told for."""
        self._tell(examples.labels)
        return self.scorer.scores(self.scorer.stack(examples.instances))

    def accuracy_on(self, graphs: tuple[Graph, ...]) -> float:
        examples = Examples.of(read_graphs(graphs, merge=True), self.scorer, 1.0)
        return accuracy(self._told_scores(examples), examples)

    def fit_and_test(self, tests: list[tuple[Graph, ...]]) -> list[float]:
        while not self.finished:
            self.train_epoch()
        return [self.accuracy_on(graphs) for graphs in tests]
