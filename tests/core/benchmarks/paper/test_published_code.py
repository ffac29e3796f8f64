"""The networks as the published code has them."""

from typing import Any

import pytest
import torch

from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.benchmarks.paper.cells import ROWS
from ctp_core.benchmarks.paper.published_code import PublishedTrainer, unmasked
from ctp_core.benchmarks.paper.published_layers import DepartingLayer, UnscaledEncoder
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import Graph, GraphsKB
from ctp_core.networks.config import NETWORKS, NetworkConfig, network_preset
from ctp_core.networks.messages import ConvolutionLayer, Edges
from ctp_core.networks.sequence import RecurrentEncoder
from ctp_core.presets import PRESETS
from ctp_core.symbols import Fact
from tests.core.benchmarks.paper.small_kbs import small

TINY = {"epochs": 10, "steps": None, "eval_every": 5, "learning_rate": 0.02, "batch_size": 32, "dim": 16}


def published(method: str, **settings: Any) -> tuple[PublishedTrainer, GraphsKB]:
    config, kb = small(method, **{**TINY, "dim": 20, **settings})
    assert isinstance(config, NetworkConfig)
    return PublishedTrainer(config, kb), kb


def test_the_published_network_is_told_the_label_in_training_and_testing() -> None:
    trainer, kb = published("cnn")
    tests = tuple(family_graphs(5, (4,), seed=3))
    names, read = list(kb.predicates), list[list[str]]()
    trainer.scorer.module.register_forward_pre_hook(
        lambda module, _: read.append([names[i] for i in module.told.tolist()])
    )
    trainer.loss(torch.arange(4))
    trainer.accuracy_on(tests)
    assert read == [[graph.label for graph in kb.splits["train"][:4]], [graph.label for graph in tests]]
    scores = []
    for labels in (trainer.train.labels[:4], trainer.train.labels[:4].roll(1, dims=1)):
        trainer._tell(labels)
        scores.append(trainer.scorer.scores(trainer.scorer.stack(trainer.train.instances[:4])))
    assert not scores[0].equal(scores[1])  # what is told is read


def test_the_published_network_reads_facts_as_the_file_tells_them() -> None:
    told = [Fact("Eve", "son", "Bob"), Fact("Bob", "aunt", "Dan"), Fact("Dan", "son", "Bob"), Fact("Bob", "son", "Al")]
    graph = Graph((*told, told[0]), "Eve", "Al", "aunt")
    trainer = PublishedTrainer(network_preset("cnn", PRESETS["paper"]), graphs_kb({"train": [graph] * 2}))
    rows = trainer._batch(torch.arange(2))
    aunt, son = (trainer.kb.predicates.id(name) for name in ("aunt", "son"))
    walk = [[3, son, 1], [1, aunt, 2], [2, son, 1], [1, son, 0], [3, son, 1]]  # Al, Bob, Dan, Eve; none is merged
    assert rows.named_facts.tolist() == [walk, walk]
    assert rows.named_goals.tolist() == [[3, 0], [3, 0]]


def test_published_attention_looks_at_one_place_where_vectors_differ_much() -> None:
    encoder = published("mha", dim=500)[0].scorer.module.encoder
    assert isinstance(encoder, UnscaledEncoder)
    with torch.no_grad():
        for comparison in (encoder.wanted, encoder.offered):
            comparison.weight.copy_(torch.eye(500))
        symbols = torch.randn(1, 6, 500, generator=torch.Generator().manual_seed(0))
        found = encoder.attended(symbols) - symbols  # each symbol is by far the most like itself
        assert torch.allclose(found, encoder.values(symbols), atol=1e-3)


def test_published_convolutions_count_the_facts_that_start_at_a_node() -> None:
    layer = published("gcn")[0].scorer.module.layers[0]
    assert isinstance(layer, DepartingLayer)
    edges = Edges(torch.tensor([0, 0, 0, 1, 2]), torch.tensor([1, 2, 0, 1, 2]), torch.zeros(5, 1), 3)
    assert layer.degrees(edges).tolist() == [3, 1, 1]
    assert ConvolutionLayer.degrees(layer, edges).tolist() == [1, 2, 2]


def test_published_attention_over_facts_has_three_heads_in_its_second_layer() -> None:
    layers = published("gat", heads=5)[0].scorer.module.layers
    assert [layer.heads for layer in layers] == [5, 3]


def test_the_published_network_is_told_nothing_where_goal_and_facts_are_encoded_apart() -> None:
    trainer, _ = published("lstm", encoding="apart")
    rows, scores = trainer._batch(torch.arange(4)), []
    for label in (0, 1):
        trainer.scorer.module.told = torch.full((4,), label)
        scores.append(trainer.scorer.scores(rows))
    assert scores[0].equal(scores[1])


@pytest.mark.slow
@pytest.mark.parametrize("method", NETWORKS)
def test_the_published_network_never_trains_its_last_map_and_of_attention_only_vectors(method: str) -> None:
    trainer, _ = published(method, epochs=1)
    before = {name: tensor.clone() for name, tensor in trainer.scorer.module.state_dict().items()}
    trainer.train_epoch()
    changed = {name for name, tensor in trainer.scorer.module.state_dict().items() if not tensor.equal(before[name])}
    assert changed
    assert not [name for name in changed if name.startswith("projection")]
    if method == "mha":
        assert changed == {"symbols.weight"}


def test_the_published_network_takes_rows_in_the_order_of_the_file() -> None:
    kb = graphs_kb({"train": [*family_graphs(6, (2,), seed=1), *family_graphs(6, (3,), seed=2)]})
    config = network_preset("gcn", PRESETS["paper"]).model_copy(update={**ROWS, "batch_size": 4, "epochs": 2})
    trainer, seen = PublishedTrainer(config, kb), list[list[int]]()
    trainer.scorer.module.register_forward_pre_hook(lambda _, given: seen.append(given[0].present.sum(dim=1).tolist()))
    trainer.train_epoch()
    trainer.train_epoch()
    assert seen == 2 * [[2, 2, 2, 2], [2, 2, 3, 3], [3, 3, 3, 3]]


def test_the_published_network_reads_the_direction_that_runs_backwards_at_its_first_step() -> None:
    encoder = published("lstm")[0].scorer.module.encoder
    assert isinstance(encoder, RecurrentEncoder)
    symbols = torch.randn(1, 9, 20)
    forwards, backwards = unmasked(encoder, symbols).chunk(2, dim=1)
    last = encoder.cell(symbols[:, -1:])[0][:, 0].chunk(2, dim=1)[1]
    assert torch.allclose(backwards, last)
    assert torch.allclose(forwards, encoder(symbols, torch.tensor([9])).chunk(2, dim=1)[0])
