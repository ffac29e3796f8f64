"""The networks as the published code has them, to see whether that explains the published figures.

It differs from what the paper says, and from ours, in five places:
- Goal and facts are linearised with the predicate that each has, and the goal's is the label.
- Rows are padded to the longest of the batch and read without a mask. A recurrent network is read off at the last
  place: there the direction that runs backwards has seen a single symbol, and the label, which is among the first
  three, has to be carried through all facts. Nodes that a graph does not have count in the mean of all.
- Batches are made once and never shuffled, and the files of CLUTRR have the shortest graphs first: but for two or three
  batches all rows of one are equally long, so that next to no padding is seen, and every epoch ends with the longest.
- The last linear map is made when it is first called, after the optimiser was given its parameters: it stays as drawn.
- So does the whole of MHA but the vectors of its symbols: a function that calls two modules registers neither.
"""

import torch

from ctp_core.config.networks import NetworkConfig
from ctp_core.datasets.kb import Graph, GraphsKB
from ctp_core.networks.attention import AttentionEncoder
from ctp_core.networks.messages import MessageNetwork
from ctp_core.networks.recurrent import RecurrentEncoder
from ctp_core.networks.rows import GraphRows
from ctp_core.networks.sequence import SequenceEncoder, SequenceNetwork
from ctp_core.shapes import Float, Int, Tensor
from ctp_core.training.graph_examples import Examples, accuracy, read_graphs
from ctp_core.training.networks import NetworkTrainer

MAX_NORM = 1.0  # of the vector of a node


class PublishedSequence(SequenceNetwork):
    """Reads `told`, one predicate for each row of the next batch, where it should read that it is asked."""

    told: Int[Tensor, " query"]

    def forward(self, rows: GraphRows) -> Float[Tensor, "query target"]:
        subject, _, object_ = self._goal(rows).unbind(dim=1)
        goal = torch.stack([subject, self.num_names + self.told, object_], dim=1)
        symbols = torch.cat([goal, self._facts(rows)], dim=1)
        # Padding is one more symbol that is learnt: the one that nobody reads here says that a place is asked for.
        vectors = self.symbols(symbols.masked_fill(symbols == self.padding, self.asked))
        return self.projection(unmasked(self.encoder, vectors))  # type: ignore[no-any-return]


class PublishedMessages(MessageNetwork):
    """The mean is over as many nodes as the largest graph of the batch has."""

    def _read(self, nodes: Float[Tensor, "query entity dim"], rows: GraphRows) -> Float[Tensor, "query target"]:
        ends = nodes.gather(1, rows.goals[:, :, None].expand(-1, -1, nodes.shape[2])).flatten(1)
        return self.projection(torch.cat([nodes.mean(dim=1), ends], dim=1))  # type: ignore[no-any-return]


def unmasked(encoder: SequenceEncoder, symbols: Float[Tensor, "query place dim"]) -> Float[Tensor, "query width"]:
    """The code of rows that are all as long as the batch."""
    if isinstance(encoder, AttentionEncoder):
        attended, _ = encoder.attention(symbols, symbols, symbols, need_weights=False)
        return unmasked(encoder.top, symbols + attended)
    if isinstance(encoder, RecurrentEncoder):
        return encoder.cell(symbols)[0][:, -1]  # type: ignore[no-any-return]
    lengths = torch.full((len(symbols),), symbols.shape[1], device=symbols.device)
    return encoder(symbols, lengths)  # type: ignore[no-any-return]


class PublishedTrainer(NetworkTrainer):
    """Tells sequence networks every label, while training and while testing; the same weights, read otherwise."""

    def __init__(self, config: NetworkConfig, kb: GraphsKB) -> None:
        super().__init__(config, kb, torch.device("cpu"))
        network = self.scorer.module
        if isinstance(network, SequenceNetwork):
            network.__class__ = PublishedSequence
            network.encoder.requires_grad_(not isinstance(network.encoder, AttentionEncoder))
        else:
            assert isinstance(network, MessageNetwork)
            network.__class__ = PublishedMessages
            network.nodes.max_norm = MAX_NORM
        network.projection.requires_grad_(False)
        self._targets = torch.tensor([kb.predicates.id(name) for name in kb.targets])

    def _order(self) -> Int[Tensor, " graph"]:
        return torch.arange(len(self.train.instances))

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
        """Row by row: graphs with two labels are told each of them."""
        examples = Examples.of(read_graphs(graphs, merge=False), self.scorer, 1.0)
        return accuracy(self._told_scores(examples), examples)

    def fit_and_test(self, tests: list[tuple[Graph, ...]]) -> list[float]:
        while not self.finished:
            self.train_epoch()
        return [self.accuracy_on(graphs) for graphs in tests]
