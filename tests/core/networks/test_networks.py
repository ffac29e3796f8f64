"""Networks on graphs, every method with both encodings: answers, files, checkpoints, and what must not matter."""

import importlib
import itertools
import math
import time
import warnings
from functools import cache
from typing import Any

import pytest
import torch

from ctp_core.artifact import Artifact, decode, encode
from ctp_core.base.graph_examples import accuracy
from ctp_core.base.model import Answer, Answers, Budget, Question
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.errors import ArtifactError, BadQuestion, ConfigError, UnknownSymbol
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.isomorphism import CanonicalGraph, canonical
from ctp_core.kb.knowledge_base import FactsKB, GraphsKB
from ctp_core.kb.profile import Profile
from ctp_core.methods import methods_of, parse_config, preset_for
from ctp_core.networks.config import NETWORKS, NetworkConfig
from ctp_core.networks.messages import AttentionLayer, ConvolutionLayer, Edges
from ctp_core.networks.model import NetworkModel
from ctp_core.networks.rows import NumberedGraph, walk
from ctp_core.networks.trainer import NetworkTrainer
from ctp_core.registry import MODELS, create_trainer, load_model
from ctp_core.symbols import Fact, Goal, Vocabulary
from tests.variants import slow_but

CPU = torch.device("cpu")
SMALL: dict[str, dict[str, Any]] = {
    **{method: {"dim": 8, "hidden": 8} for method in ("lstm", "gru", "rnn")},
    "cnn": {"dim": 8, "filters": 3},
    "cnnh": {"dim": 8},
    "mha": {"dim": 8, "heads": 2, "hidden": 8},
    "gat": {"dim": 8, "edge_dim": 6, "heads": 2},
    "gcn": {"dim": 8, "edge_dim": 6},
}
VARIANTS = list(itertools.product(NETWORKS, ("joint", "apart")))
variants = pytest.mark.parametrize(("method", "encoding"), slow_but([("lstm", "joint"), ("gcn", "apart")], VARIANTS))
CHAIN = (Fact("a", "brother", "b"), Fact("b", "father", "c"), Fact("c", "sister", "d"), Fact("d", "mother", "e"))
RING = (*CHAIN, Fact("e", "daughter", "a"), Fact("b", "wife", "b"))


@cache
def kb() -> GraphsKB:
    return graphs_kb({"train": family_graphs(120, (2, 3), seed=1)})


def trainer(method: str, encoding: str = "joint", **settings: Any) -> NetworkTrainer:
    values = {"epochs": 3, "validation": 0.1, "eval_every": 1, **SMALL[method], **settings}
    made = create_trainer(parse_config("graphs", {"method": method, "encoding": encoding, **values}), kb(), CPU)
    assert isinstance(made, NetworkTrainer)
    return made


@cache
def model(method: str, encoding: str) -> NetworkModel:
    made = trainer(method, encoding)
    made.fit()
    return made.model()


def ask(asked: NetworkModel, *goal: str | None, facts: tuple[Fact, ...], **more: Any) -> tuple[Answer, ...]:
    [answers] = asked.answer([Question(Goal(*goal), facts, **more)], Budget())
    assert isinstance(answers, Answers), answers
    return answers.items


def test_every_method_of_graphs_is_registered_and_every_network_tested_here() -> None:
    for kind in ("facts", "graphs"):
        assert set(methods_of(kind)) == {method for of, method in MODELS if of == kind}
    assert set(SMALL) == set(NETWORKS)


@variants
def test_answers_are_chances_of_the_labels_without_proofs(method: str, encoding: str) -> None:
    asked = model(method, encoding)
    answers = ask(asked, "a", None, "e", facts=RING, top_k=100)
    assert not asked.explainable
    assert asked.rules() == []
    assert {answer.fact.predicate for answer in answers} == set(kb().targets)
    assert math.isclose(sum(answer.score for answer in answers), 1.0, abs_tol=1e-5)
    assert all(answer.proofs == () and answer.score_parts is None for answer in answers)


@variants
@pytest.mark.parametrize("facts", [CHAIN, RING], ids=["chain", "ring"])
def test_a_fact_has_one_score_whichever_place_was_asked_for(
    method: str, encoding: str, facts: tuple[Fact, ...]
) -> None:
    asked = model(method, encoding)
    for answer in ask(asked, "a", None, "e", facts=facts, top_k=3):
        subject, predicate, object_ = answer.fact
        [closed] = ask(asked, *answer.fact, facts=facts)
        objects = {a.fact: a.score for a in ask(asked, subject, predicate, None, facts=facts, top_k=100)}
        subjects = {a.fact: a.score for a in ask(asked, None, predicate, object_, facts=facts, top_k=100)}
        for score in (closed.score, objects[answer.fact], subjects[answer.fact]):
            assert score == pytest.approx(answer.score, abs=1e-6)
        assert len(objects) == len(subjects) == 5


@variants
def test_neither_names_nor_the_order_of_facts_matter(method: str, encoding: str) -> None:
    asked = model(method, encoding)
    shuffled = tuple(Fact(f.subject.upper(), f.predicate, f.object.upper()) for f in reversed(RING))
    first = {a.fact.predicate: a.score for a in ask(asked, "a", None, "e", facts=RING, top_k=100)}
    second = {a.fact.predicate: a.score for a in ask(asked, "A", None, "E", facts=shuffled, top_k=100)}
    assert second == pytest.approx(first, abs=1e-6)


@variants
def test_a_row_does_not_see_the_other_rows_of_its_batch(method: str, encoding: str) -> None:
    """Padding is no part of a graph."""
    scorer = model(method, encoding).scorer
    graphs = [
        scorer.instance(CanonicalGraph(2, ((0, "father", 1),), (0, 1))),
        scorer.instance(CanonicalGraph(3, ((0, "father", 2), (2, "son", 1)), (0, 1))),
        scorer.instance(CanonicalGraph(9, tuple((i, "sister", i + 1) for i in range(8)), (0, 8))),
    ]
    together = scorer.scores(scorer.stack(graphs))
    for row, graph in enumerate(graphs):
        assert torch.allclose(scorer.scores(scorer.stack([graph]))[0], together[row], atol=1e-6)


@variants
def test_a_saved_model_answers_the_same(method: str, encoding: str) -> None:
    asked = model(method, encoding)
    again = load_model(decode(encode(asked.to_artifact())), CPU)
    assert isinstance(again, NetworkModel)
    assert again.config == asked.config
    assert ask(again, "a", None, "e", facts=RING) == ask(asked, "a", None, "e", facts=RING)
    with pytest.raises(ArtifactError):
        load_model(Artifact(asked.to_artifact().manifest, {}), CPU)


@variants
def test_training_goes_on_to_the_same_bits(method: str, encoding: str) -> None:
    straight, interrupted, resumed = (trainer(method, encoding, epochs=2) for _ in range(3))
    interrupted.train_epoch()
    resumed.restore(decode(encode(interrupted.checkpoint())))
    torch.rand(3)  # what else draws random numbers in the process must not matter
    resumed.fit()
    straight.fit()
    expected, found = straight.model().to_artifact().tensors, resumed.model().to_artifact().tensors
    assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
    with pytest.raises(ArtifactError, match="another config"):
        trainer(method, encoding, epochs=2, seed=7).restore(interrupted.checkpoint())


def test_training_leaves_the_generator_of_torch_alone() -> None:
    before = torch.random.get_rng_state()
    trainer("gat").train_epoch()
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lstm", "cnn", "gcn"])
def test_a_network_learns_to_label_its_graphs(method: str) -> None:
    settings = {"dim": 32, "epochs": 25, "learning_rate": 0.02, "validation": 0.0, "steps": None}
    made = trainer(method, **settings, **({"hidden": 32} if method == "lstm" else {}))
    made.fit()
    scorer = made.model().scorer
    assert accuracy(scorer.scores(scorer.stack(made.train.instances)), made.train) > 0.8


def test_questions_that_cannot_be_asked_say_why() -> None:
    asked = model("lstm", "joint")
    questions = [
        Question(Goal("a", None, "e")),
        Question(Goal("a", None, None), CHAIN),
        Question(Goal("a", "wife", "e"), CHAIN),
        Question(Goal("a", None, "x"), CHAIN),
        Question(Goal("a", None, "e"), (Fact("a", "boss", "e"),)),
    ]
    errors = asked.answer(questions, Budget())
    assert [type(error) for error in errors] == [BadQuestion, BadQuestion, BadQuestion, UnknownSymbol, UnknownSymbol]
    assert "father-in-law" in str(errors[2])
    [warned] = asked.answer([Question(Goal("a", None, "e"), (*CHAIN, Fact("a", "boss", "e")))], Budget())
    assert isinstance(warned, Answers)
    assert "'boss' is unknown" in warned.warnings[0]
    [late] = asked.answer([Question(Goal("a", None, "e"), CHAIN)], Budget(seconds=-1))
    assert isinstance(late, Answers)
    assert late.truncated


def test_a_graph_may_have_more_entities_than_there_are_names() -> None:
    asked = trainer("gat", names=3).model()
    assert len(ask(asked, "a", None, "e", facts=RING, top_k=100)) == len(kb().targets)


def test_a_network_needs_graphs() -> None:
    with pytest.raises(ConfigError, match="kind 'facts'"):
        create_trainer(parse_config("graphs", {"method": "lstm"}), FactsKB.from_facts({"train": [CHAIN[0]]}), CPU)


def test_facts_are_read_along_the_chain_whichever_way_they_point() -> None:
    graph = CanonicalGraph(4, ((0, "p", 3), (2, "q", 3), (1, "r", 2)), (0, 1))
    assert walk(graph) == [(0, "p", 3), (2, "q", 3), (1, "r", 2)]
    numbered = NumberedGraph.of(graph, Vocabulary("predicate", "pqr"))
    assert numbered.facts.tolist() == [[0, 0, 1], [2, 1, 1], [3, 2, 2]]
    assert numbered.goal == (0, 3)
    assert sorted(numbered.names(10, few=True).tolist()) == [0, 1, 2, 3]
    assert numbered.names(10, few=False).tolist() == numbered.names(10, few=False).tolist()
    assert set(numbered.names(3, few=False).tolist()) == {0, 1, 2}


def test_each_fact_begins_where_the_one_before_ended_though_the_way_comes_back_to_an_entity() -> None:
    # a, the first by predicate, would lead from 0 to the end at once.
    edges = ((0, "a", 4), (0, "b", 1), (1, "c", 2), (2, "d", 0), (2, "e", 2))
    way = walk(CanonicalGraph(5, edges, (0, 4)))
    assert [edge[1] for edge in way] == ["b", "c", "e", "d", "a"]


def test_facts_that_no_walk_reaches_are_read_last() -> None:
    graph = CanonicalGraph(4, ((0, "b", 1), (2, "a", 3)), (0, 1))
    assert walk(graph) == [(0, "b", 1), (2, "a", 3)]


@pytest.mark.parametrize(
    ("method", "preset", "values"),
    [
        ("lstm", "paper", {"dim": 50, "hidden": 64, "encoding": "joint"}),
        ("lstm", "paper-long", {"dim": 100, "hidden": 512, "encoding": "apart"}),
        ("rnn", "paper-long", {"dim": 500, "hidden": 512, "encoding": "joint"}),
        ("gru", "paper-long", {"dim": 200, "hidden": 512, "encoding": "joint"}),
        ("cnn", "paper-long", {"dim": 200, "filters": 4, "encoding": "joint"}),
        ("cnnh", "paper-long", {"dim": 200, "highway": 1, "encoding": "joint"}),
        ("mha", "paper", {"dim": 500, "heads": 10, "encoding": "joint"}),
        ("gat", "paper-long", {"dim": 50, "edge_dim": 500, "heads": 10}),
        ("gcn", "paper", {"dim": 50, "edge_dim": 500}),
    ],
)
def test_the_presets_are_those_of_the_appendix(method: str, preset: str, values: dict[str, Any]) -> None:
    config = preset_for(Profile.of(kb()), preset, method, None)
    assert isinstance(config, NetworkConfig)
    assert (config.method, config.few_names) == (method, True)
    assert {name: getattr(config, name) for name in values} == values
    better = preset_for(Profile.of(kb()), "fast", method, None)
    assert isinstance(better, NetworkConfig)
    assert not better.few_names


@pytest.mark.slow
@pytest.mark.parametrize("attentive", [True, False], ids=["gat", "gcn"])
def test_without_predicates_the_layers_are_those_of_pytorch_geometric(attentive: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it compiles itself with what torch calls deprecated
        geometric = importlib.import_module("torch_geometric.nn")
    torch.manual_seed(0)
    ends = torch.tensor([[0, 1, 2, 0, 3], [1, 2, 0, 3, 3 - 1]])
    nodes, itself = torch.randn(4, 5), torch.arange(4)
    edges = Edges(torch.cat([ends[0], itself]), torch.cat([ends[1], itself]), torch.zeros(9, 2), 4)
    if attentive:
        ours, theirs = AttentionLayer(5, 2, 3), geometric.GATConv(5, 5, 3, concat=False, bias=False)
        theirs.lin.weight.data = ours.weight.weight.data
        theirs.att_src.data, theirs.att_dst.data = ours.to_message.data[None, :, :5], ours.to_target.data[None]
    else:
        ours, theirs = ConvolutionLayer(5, 2), geometric.GCNConv(5, 5, bias=False)
        theirs.lin.weight.data = ours.weight.weight.data
    assert torch.allclose(ours.arriving(nodes, edges)[:, :5], theirs(nodes, ends), atol=1e-6)


class Ending(Budget):
    """Ends after so many looks at it."""

    def __init__(self, looks: int) -> None:
        object.__setattr__(self, "looks", [True] + [False] * looks)

    @property
    def expired(self) -> bool:
        left: list[bool] = self.__dict__["looks"]
        return left.pop() if len(left) > 1 else True


def test_an_open_question_is_scored_some_pairs_at_a_time_until_its_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = model("rnn", "joint")
    whole = ask(asked, "a", "brother", None, facts=RING, top_k=100)
    monkeypatch.setattr("ctp_core.networks.model.FACTS_AT_ONCE", 12)  # two pairs over six facts
    assert [a.fact for a in ask(asked, "a", "brother", None, facts=RING, top_k=100)] == [a.fact for a in whole]
    [answers] = asked.answer([Question(Goal("a", "brother", None), RING, top_k=100)], Ending(3))
    assert isinstance(answers, Answers)
    assert answers.truncated
    assert len(answers.items) == 2


def test_a_question_that_makes_too_many_facts_is_refused_with_the_limit() -> None:
    facts = tuple(Fact(f"p{i}", "father", f"p{i + 1}") for i in range(1500))
    [error] = model("rnn", "joint").answer([Question(Goal("p0", "father", None), facts)], Budget())
    assert isinstance(error, BadQuestion)
    assert "1,000,000 facts" in str(error)


@pytest.mark.slow
def test_a_very_long_chain_keeps_its_order_instead_of_taking_hours() -> None:
    edges = tuple((i, "father", i + 1) for i in range(2000))
    long = CanonicalGraph(2001, edges, (0, 2000))
    started = time.process_time()
    assert canonical(long) == long
    assert time.process_time() - started < 20
