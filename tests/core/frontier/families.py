"""Two worlds of families whose people have nothing in common, and a model that was trained on one of them."""

from functools import cache

import torch

from ctp_core.frontier.config import FrontierConfig
from ctp_core.frontier.model import FrontierModel
from ctp_core.frontier.trainer import FrontierTrainer
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.symbols import Fact
from tests.core.families import random_family

CPU = torch.device("cpu")
PREDICATES = ("parent", "sister", "grandparent")
CONFIG = FrontierConfig(steps=3, dim=16, epochs=20, batch_size=16, learning_rate=0.01, eval_every=20, dropout=0.0)
FAMILIES = 4  # in a world


def renamed(prefix: str, facts: list[Fact]) -> list[Fact]:
    return [Fact(prefix + fact.subject, fact.predicate, prefix + fact.object) for fact in facts]


def facts_of(seed: int) -> list[Fact]:
    family = random_family(seed)
    return [Fact(a, predicate, b) for predicate in PREDICATES for a, b in getattr(family, predicate)]


@cache
def family_kb(world: int) -> FactsKB:
    """Families with some of their grandparents to be found."""
    facts = [
        fact
        for seed in range(world * FAMILIES, (world + 1) * FAMILIES)
        for fact in renamed(f"family{seed}-", facts_of(seed))
    ]
    grand = [fact for fact in facts if fact.predicate == "grandparent"]
    held_out = {"valid": grand[::6], "test": grand[3::6]}
    hidden = {*held_out["valid"], *held_out["test"]}
    return FactsKB.from_facts({"train": [fact for fact in facts if fact not in hidden], **held_out})


@cache
def trained() -> FrontierModel:
    model = FrontierTrainer(CONFIG, family_kb(1), CPU).fit()
    assert isinstance(model, FrontierModel)
    return model
