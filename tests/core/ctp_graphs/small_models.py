"""Small CTPs on graphs of families, trained once for all tests that ask them."""

import itertools
from functools import cache
from typing import Any

import torch

from ctp_core.base.model import Answers, Budget, Question
from ctp_core.benchmarks.family_graphs import family_graphs
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.ctp_graphs.model import CtpGraphsModel
from ctp_core.ctp_graphs.trainer import CtpGraphsTrainer
from ctp_core.kb.graphs import graphs_kb
from ctp_core.kb.knowledge_base import GraphsKB
from ctp_core.registry import create_trainer
from ctp_core.select.registry import VARIANTS as SELECTS
from ctp_core.symbols import Fact, Goal

CPU = torch.device("cpu")
VARIANTS = list(itertools.product(SELECTS, ("tabled", "exact")))


@cache
def family_kb() -> GraphsKB:
    return graphs_kb({"train": family_graphs(120, (2, 3), seed=1)})


def trainer(**settings: Any) -> CtpGraphsTrainer:
    config = CtpGraphsConfig(
        **{"templates": ("2",) * 3, "dim": 8, "epochs": 2, "distinct": True, "depth": None, **settings}
    )
    made = create_trainer(config, family_kb(), CPU)
    assert isinstance(made, CtpGraphsTrainer)
    return made


@cache
def model(select: str = "attentive", prover: str = "tabled", semiring: str = "max-product") -> CtpGraphsModel:
    # By Łukasiewicz doubts add up: with vectors and gates as they start, nothing would be proved at all.
    doubting = semiring == "max-lukasiewicz"
    gate, slope = prover == "tabled" and not doubting, 0.01 if doubting else 1.0
    made = trainer(select=select, prover=prover, semiring=semiring, gate=gate, slope=slope)
    made.fit()
    return made.model()


def ask(asked: CtpGraphsModel, *goal: str | None, facts: tuple[Fact, ...], **more: Any) -> Answers:
    [answers] = asked.answer([Question(Goal(*goal), facts, **more)], Budget())
    assert isinstance(answers, Answers), answers
    return answers


CHAIN = (Fact("a", "brother", "b"), Fact("b", "father", "c"), Fact("c", "sister", "d"), Fact("d", "mother", "e"))
RING = (*CHAIN, Fact("e", "daughter", "a"), Fact("b", "wife", "b"))
