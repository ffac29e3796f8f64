"""The networks as the published code has them, to see whether that explains the published figures.

It differs from what the paper says, and from ours, in these places:

- Goal and facts are linearised with their predicates, and the goal's predicate is the label. Only where they are
  encoded apart, as by the LSTM of the long tuning, is the goal its two entities, and the label is not told.
- Facts are read in the order of the file: a walk through the graph in which each begins where the one before ended.
  Ours finds such a walk itself, and may find another where several use every fact.
- The i-th entity in alphabetical order has the i-th vector, in every epoch. Ours draws new names in every step.
- Rows are padded to the longest of the batch and read without a mask. A recurrent network is read off at the last
  place: there the direction that runs backwards has seen a single symbol, and the label, which is among the first
  three, has to be carried through all facts. The mean of all nodes includes nodes that a graph does not have.
- Batches are made once and never shuffled, and the files of CLUTRR have the shortest graphs first. So in all but two or
  three batches all rows are equally long, hardly any padding is seen, and every epoch ends with the longest graphs.
- The last linear map is made when it is first called, after the optimiser was given its parameters: it is not trained.
- Nor is any of MHA but the vectors of its symbols: a function that calls two modules registers neither.
- Layers start and weight messages differently (published_layers.py).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ctp_core.base.graph_examples import Examples, accuracy
from ctp_core.base.training_loop import following
from ctp_core.benchmarks.paper.published_layers import UnscaledEncoder, published_encoder, published_layers
from ctp_core.kb.isomorphism import CanonicalGraph, WeightedGraph
from ctp_core.kb.knowledge_base import Graph, GraphsKB
from ctp_core.networks.config import GatConfig, GcnConfig, NetworkConfig
from ctp_core.networks.messages import MessageNetwork
from ctp_core.networks.model import NetworkScorer
from ctp_core.networks.rows import GraphRows, NumberedGraph
from ctp_core.networks.sequence import RecurrentEncoder, SequenceEncoder, SequenceNetwork
from ctp_core.networks.trainer import NetworkTrainer
from ctp_core.shapes import Float, Int, Tensor

MAX_NORM = 1.0  # of the vector of a node


class PublishedSequence(SequenceNetwork):
    """Reads `told`, the label of each row of the next batch, in place of the symbol that means “asked”.

    This applies only where goal and facts are read together: apart, the goal is its two entities, and nothing is told.
    """

    told: Int[Tensor, " query"]

    def forward(self, rows: GraphRows) -> Float[Tensor, "query target"]:
        subject, _, object_ = self._goal(rows).unbind(dim=1)
        facts = self._facts(rows)
        if self.joint:
            goal = torch.stack([subject, self.num_names + self.told, object_], dim=1)
            return self.projection(self._code(torch.cat([goal, facts], dim=1)))  # type: ignore[no-any-return]
        pair = torch.stack([subject, object_], dim=1)
        return self.projection(torch.cat([self._code(facts), self._code(pair)], dim=1))  # type: ignore[no-any-return]

    def _code(self, symbols: Int[Tensor, "query place"]) -> Float[Tensor, "query width"]:
        # Padding is a learnt symbol there. It takes the vector of “asked”, which this network does not read otherwise.
        return unmasked(self.encoder, self.symbols(symbols.masked_fill(symbols == self.padding, self.asked)))


class PublishedMessages(MessageNetwork):
    """Takes the mean over as many nodes as the largest graph of the batch has."""

    def _read(self, nodes: Float[Tensor, "query entity dim"], rows: GraphRows) -> Float[Tensor, "query target"]:
        ends = nodes.gather(1, rows.goals[:, :, None].expand(-1, -1, nodes.shape[2])).flatten(1)
        return self.projection(torch.cat([nodes.mean(dim=1), ends], dim=1))  # type: ignore[no-any-return]


def unmasked(encoder: SequenceEncoder, symbols: Float[Tensor, "query place dim"]) -> Float[Tensor, "query width"]:
    """Encodes rows as if all were as long as the batch."""
    if isinstance(encoder, UnscaledEncoder):
        return unmasked(encoder.top, encoder.attended(symbols))
    if isinstance(encoder, RecurrentEncoder):
        return encoder.cell(symbols)[0][:, -1]  # type: ignore[no-any-return]
    lengths = torch.full((len(symbols),), symbols.shape[1], device=symbols.device)
    return encoder(symbols, lengths)  # type: ignore[no-any-return]


class PublishedScorer(NetworkScorer):
    """Reads graphs as they are in the file."""

    def instance(self, graph: CanonicalGraph) -> NumberedGraph:
        facts = [(a, self.predicates.id(predicate), b) for a, predicate, b in graph.edges]
        return NumberedGraph(np.array(facts, dtype=np.int64).reshape(-1, 3), graph.query, graph.num_entities)

    def stack(self, instances: Sequence[NumberedGraph], depth: int | None = None) -> GraphRows:
        rows = super().stack(instances, depth)
        return replace(rows, names=torch.arange(rows.names.shape[1]).expand_as(rows.names))


def as_filed(graph: Graph) -> WeightedGraph:
    """Keeps facts in their order, repetitions included, and numbers entities alphabetically."""
    assert graph.label is not None
    names = sorted({name for fact in graph.facts for name in (fact.subject, fact.object)})
    number = {name: i for i, name in enumerate(names)}
    edges = tuple((number[fact.subject], fact.predicate, number[fact.object]) for fact in graph.facts)
    form = CanonicalGraph(len(names), edges, (number[graph.subject], number[graph.object]))
    return WeightedGraph(form, ((graph.label, 1),))


class PublishedTrainer(NetworkTrainer):
    """Tells the label to networks that read goal and facts together, in training and testing; never validates."""

    def __init__(self, config: NetworkConfig, kb: GraphsKB) -> None:
        super().__init__(config, kb, torch.device("cpu"))
        self._targets = torch.tensor([kb.predicates.id(name) for name in kb.targets])

    def _scorer(self) -> PublishedScorer:
        network = super()._scorer().module
        with following(self.generator, self.device):
            if isinstance(network, SequenceNetwork):
                network.__class__ = PublishedSequence
                network.encoder = published_encoder(network.encoder, self.config)
                network.encoder.requires_grad_(not isinstance(network.encoder, UnscaledEncoder))
            else:
                assert isinstance(network, MessageNetwork) and isinstance(self.config, GatConfig | GcnConfig)
                network.__class__ = PublishedMessages
                network.layers, network.nodes.max_norm = published_layers(self.config), MAX_NORM
        network.projection.requires_grad_(False)
        return PublishedScorer(self.config, self.kb.predicates, self.kb.targets, network)

    def _split(self) -> tuple[list[WeightedGraph], list[WeightedGraph]]:
        return [as_filed(graph) for graph in self.kb.splits["train"] if graph.label is not None], []

    def _order(self) -> Int[Tensor, " graph"]:
        return torch.arange(len(self.train.instances))

    def _tell(self, labels: Tensor) -> None:
        self.scorer.module.told = self._targets[labels.argmax(dim=1)]

    def _batch(self, rows: Int[Tensor, " graph"]) -> GraphRows:
        self._tell(self.train.labels[rows])
        return self.rows[rows]

    def loss(self, rows: Int[Tensor, " graph"]) -> Float[Tensor, ""]:
        """Sums over the batch: Adam's epsilon weighs less than with the mean, where losses are tiny."""
        return super().loss(rows) * len(rows)

    def accuracy_on(self, graphs: tuple[Graph, ...]) -> float:
        """The share of rows labelled rightly, in one batch: a graph with two labels is told each of them."""
        examples = Examples.of([as_filed(graph) for graph in graphs], self.scorer, 1.0)
        self._tell(examples.labels)
        return accuracy(self.scorer.scores(self.scorer.stack(examples.instances)), examples)

    def fit_and_test(self, tests: list[tuple[Graph, ...]]) -> list[float]:
        while not self.finished:
            self.train_epoch()
        return [self.accuracy_on(graphs) for graphs in tests]
