"""The engine makes every tensor on the device it is told: checked on torch's meta device, and by watching the CPU."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.overrides import TorchFunctionMode

from ctp_core.aggregations import Best
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.ctp_graphs import exact, tabled
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.trainer import CtpGraphsTrainer
from ctp_core.kb.graphs import graphs_kb
from ctp_core.select.registry import VARIANTS
from ctp_core.symbols import Goal
from ctp_core.tnorm.registry import TNORMS
from tests.core.ctp_graphs.worlds import edges, instance, theory

META = torch.device("meta")
FACTORIES = {
    *(torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.rand, torch.randn, torch.randperm),
    *(torch.tensor, torch.as_tensor, torch.eye, torch.linspace, torch.randint),
}


class ExplicitDevices(TorchFunctionMode):
    """Fails where our own code calls a factory and leaves the device to the default."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        caller = Path(sys._getframe(1).f_code.co_filename)
        ours = "ctp_core" in caller.parts or caller.name == Path(__file__).name
        if ours and func in FACTORIES and (kwargs or {}).get("device") is None:
            raise AssertionError(f"{caller.name} calls {func.__name__} without a device")
        return func(*args, **(kwargs or {}))


def test_the_watch_itself_sees_a_missing_device() -> None:
    with pytest.raises(AssertionError, match="calls zeros without a device"), ExplicitDevices():
        torch.zeros(3)


@pytest.mark.slow
@pytest.mark.parametrize("prover", ["tabled", "exact"])
@pytest.mark.parametrize("select", VARIANTS)
def test_training_and_answering_leave_no_device_to_the_default(select: str, prover: str) -> None:
    kb = graphs_kb({"train": family_graphs(60, (2, 3), seed=1)})
    config = CtpGraphsConfig(
        select=select,
        prover=prover,
        templates=("2", "1R"),
        dim=4,
        epochs=1,
        depth=None,
        validation=0.1,
        semiring="max-product",
        distinct=True,
        rules=("father(X,Y) :- brother(X,Z), father(Z,Y).",),
    )
    with ExplicitDevices():
        trainer = CtpGraphsTrainer(config, kb, torch.device("cpu"))
        model = trainer.fit()
        trainer.restore(trainer.checkpoint())
        [graph] = family_graphs(1, (3,), seed=2)
        question = Question(Goal(graph.subject, None, graph.object), graph.facts, proofs=2)
        for depth in (None, 2):
            [answers] = model.answer([replace(question, depth=depth)], Budget())
            assert isinstance(answers, Answers)
            assert answers.items[0].proofs


@pytest.mark.slow
@pytest.mark.parametrize("select", VARIANTS)
def test_both_provers_run_on_the_meta_device(select: str) -> None:
    """Shapes alone: any tensor made on another device would not mix with these."""
    made = theory(select, "2 1R", head=True, gate=True).to(META)
    graph = instance(edges(4, 6, seed=0), 4)
    layered = exact.ExactProver(made.templates).stack([graph, graph], 2, META)
    scores = exact.prove(layered, exact.grow(made, made.vectors, 2, Best(TNORMS["max-min"])), Best(TNORMS["max-min"]))
    assert (scores.device, scores.shape) == (META, (32, 3))
    stepped = tabled.TabledProver(made.templates).stack([graph, graph], 2, META)
    scores = tabled.prove(stepped, tabled.close(made, TNORMS["max-product"], select == "attentive"), tabled.TRAINING)
    assert (scores.device, scores.shape) == (META, (32, 3))
    scores.sum().backward()
    assert all(parameter.grad is not None for parameter in made.parameters())
