"""The settings of the CTP on graphs: what is refused, and the presets."""

import random
from dataclasses import replace

import pytest

from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.trainer import CtpGraphsTrainer
from ctp_core.errors import ConfigError
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import Graph
from ctp_core.kb.profile import Profile
from ctp_core.methods import presets
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact
from tests.core.ctp_graphs.small_models import CPU, ask, family_kb, trainer


def test_settings_that_contradict_each_other_are_refused() -> None:
    for settings in (
        {"prover": "tabled", "semiring": "max-mean"},
        {"templates": ("9",)},
        {"rules": ("p(X)",)},
        {"dimm": 3},
    ):
        with pytest.raises(ValueError, match=r"max-mean|template|rule|dimm"):
            CtpGraphsConfig(**settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no template makes a rule"):
        trainer(templates=("0",))


def test_a_theory_too_large_for_its_prover_is_refused_before_it_takes_memory() -> None:
    with pytest.raises(ConfigError, match=r"at train_depth 10 make tables of .* numbers for 16 graphs"):
        trainer(prover="exact", train_depth=10)
    with pytest.raises(ConfigError, match=r"at train_depth 3 make tables .* shorter templates"):
        trainer(prover="exact", train_depth=3, templates=("8",) * 8, dim=50)
    many = tuple(Graph((Fact("a", f"p{i}", "b"),), "a", "b", f"p{i}") for i in range(3000))
    with pytest.raises(ConfigError, match="8 rules over 3,000 predicates are too many"):
        create_trainer(CtpGraphsConfig(prover="tabled", templates=("2",) * 8), graphs_kb({"train": many}), CPU)


def test_presets_fit_the_kb() -> None:
    offered = presets(Profile.of(family_kb()))
    assert set(offered) == {"fast", "best", "paper", "paper-long"}
    paper = offered["paper"]
    assert isinstance(paper, CtpGraphsConfig)
    assert (paper.prover, paper.templates, paper.dim, paper.batch_size) == ("exact", ("2", "2", "2"), 20, 32)
    long = Profile(kind="graphs", num_facts=9, num_entities=0, num_predicates=40, max_length=8)
    deep = presets(long)["fast"]
    assert isinstance(deep, CtpGraphsConfig)
    assert (deep.train_depth, len(deep.templates)) == (6, 32)


def turned(graphs: list[Graph], seed: int) -> list[Graph]:
    """Three facts of ten the other way round, under another name."""
    rng = random.Random(seed)

    def some(fact: Fact) -> Fact:
        return fact if rng.random() < 0.7 else Fact(fact.object, f"{fact.predicate} of", fact.subject)

    return [replace(graph, facts=tuple(map(some, graph.facts))) for graph in graphs]


def test_a_preset_has_the_templates_that_the_graphs_need() -> None:
    chains = family_graphs(50, (2, 3), seed=1)
    assert Profile.of(graphs_kb({"train": chains})).templates == ()
    flipped = graphs_kb({"train": turned(chains, 1)})
    assert Profile.of(flipped).templates == ("1R",)
    single = [Graph((Fact("a", "son", "b"),), "a", "b", "child")] * 5
    parallel = [Graph((Fact("a", "son", "c"), Fact("a", "son", "b"), Fact("b", "son", "c")), "a", "c", "child")] * 5
    assert Profile.of(graphs_kb({"train": chains + parallel})).templates == ()
    both = graphs_kb({"train": turned(chains, 1) + single})
    fast = presets(Profile.of(both))["fast"]
    assert isinstance(fast, CtpGraphsConfig)
    assert set(fast.templates) == {"1", "1R", "2"}
    rare = chains * 10 + single
    assert Profile.of(graphs_kb({"train": rare})).templates == ()


@pytest.mark.slow
def test_the_fast_preset_learns_from_facts_in_either_direction_and_from_single_ones() -> None:
    single = [Graph((Fact("a", name, "b"),), "a", "b", "child") for name in ("son", "daughter")] * 20
    kb = graphs_kb({"train": turned(family_graphs(400, (2, 3), seed=1), 1) + single})
    config = presets(Profile.of(kb))["fast"].model_copy(update={"epochs": 20, "steps": None})
    asked = CtpGraphsTrainer(config, kb, CPU).fit()
    assert isinstance(asked, CtpGraphsModel)
    tests = turned(family_graphs(40, (3,), seed=77), 2) + single[:2]
    best = [ask(asked, g.subject, None, g.object, facts=g.facts, top_k=1, proofs=0).items for g in tests]
    assert sum(bool(a) and a[0].fact.predicate == g.label for a, g in zip(best, tests, strict=True)) >= 38
