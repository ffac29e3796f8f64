"""NeuralLP and MINERVA: walks that are counted by hand, rules read off attention, and what they learn."""

import itertools

import numpy as np
import pytest
import torch

from ctp_core.config.walkers import MinervaConfig, NeuralLpConfig
from ctp_core.datasets.kb import FactsKB
from ctp_core.models.base import Answers, Budget, Question
from ctp_core.models.facts_model import FactsView
from ctp_core.models.minerva import Actions, MinervaModel, Walker
from ctp_core.models.neurallp import NeuralLpModel, OperatorController
from ctp_core.models.reach import UNCALIBRATED
from ctp_core.models.registry import create_trainer
from ctp_core.provers.edge_list import EdgeList
from ctp_core.provers.evidence import atom_tables
from ctp_core.symbols import Fact, Goal
from ctp_core.training.minerva import MinervaTrainer
from tests.core.families import random_family

CPU = torch.device("cpu")
KB = FactsKB.from_facts({"train": [Fact(*f) for f in (("a", "p", "b"), ("b", "q", "c"), ("a", "q", "c"))]})


def test_what_neurallp_reaches_is_the_sum_over_all_walks() -> None:
    torch.manual_seed(0)
    controller = OperatorController(2, NeuralLpConfig(dim=4, length=3, rank=2))
    tables = atom_tables(KB.splits["train"], 3, 2, CPU)
    with torch.no_grad():
        found = controller(torch.tensor([1]), tables, torch.arange(3))[0]
        expected = torch.zeros(3, 3)
        for walk, weight in controller.walks(1).items():
            product = torch.eye(3)
            for atom in walk:
                product = product @ tables[atom]
            expected += weight * product
    assert torch.allclose(found, expected, atol=1e-6)
    assert sum(controller.walks(1).values()) == pytest.approx(1.0, abs=1e-5)


def test_the_rules_of_neurallp_are_what_it_attends_to() -> None:
    family = random_family(3)
    kb = family.kb(("parent", "grandparent"), Fact(family.grandparent[0][0], "grandparent", family.grandparent[0][1]))
    model = create_trainer(NeuralLpConfig(dim=16, length=2, epochs=60, learning_rate=0.02), kb, CPU).fit()
    assert isinstance(model, NeuralLpModel)
    best = next(rule for rule in model.rules() if rule.head.predicate == "grandparent")
    assert best.text == "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)"
    subject, object_ = family.grandparent[0]
    [answers] = model.answer([Question(Goal(subject, "grandparent", None), exclude_known=True)], Budget())
    assert isinstance(answers, Answers)
    assert answers.items[0].fact.object == object_


def test_a_wide_beam_finds_every_walk() -> None:
    torch.manual_seed(0)
    walker = Walker(2, MinervaConfig(dim=4))
    actions = Actions.of(EdgeList(KB.splits["train"], 3, 2), 10, CPU)
    ends, chances = walker.search(actions, 0, torch.arange(3), length=3, beam=1000)
    assert torch.allclose(chances.exp().sum(dim=1), torch.ones(3), atol=1e-5)
    expected: dict[int, list[float]] = {0: [], 1: [], 2: []}
    degree = (actions.atoms >= 0).sum(dim=1).tolist()
    with torch.no_grad():
        for first, second, third in itertools.product(range(4), repeat=3):
            entity, state, chance = 0, walker.begin(1), 0.0
            for action in (first, second, third):
                if action >= degree[entity]:
                    break
                atoms = actions.atoms[entity][None]
                chance += float(walker.log_policy(state, torch.tensor([0]), atoms)[0, action])
                state, entity = walker.step(state, atoms[:, action]), int(actions.targets[entity, action])
            else:
                expected[entity].append(chance)
    for entity, walks in expected.items():
        assert sorted(chances[0][ends[0] == entity].tolist())[-len(walks) :] == pytest.approx(sorted(walks), abs=1e-5)


def test_minerva_may_not_follow_the_fact_it_is_asked_for() -> None:
    trainer = create_trainer(MinervaConfig(dim=4), KB, CPU)
    assert isinstance(trainer, MinervaTrainer)
    facts = torch.tensor([[0, 0, 1], [1, 2, 0]])  # p(a, b), asked either way round
    for entity in (0, 1):
        at = torch.full((2,), entity)
        atoms, targets = trainer._actions.atoms[at], trainer._actions.targets[at]
        hidden = (trainer._allowed(facts, at, atoms, targets) != atoms).sum(dim=1)
        assert hidden.tolist() == [1, 1]


def test_minerva_learns_a_walk_of_two_steps() -> None:
    family = random_family(3)
    kb = family.kb(("parent", "grandparent"), Fact(family.grandparent[0][0], "grandparent", family.grandparent[0][1]))
    config = MinervaConfig(dim=16, length=2, epochs=40, learning_rate=0.02, batch_size=64, beam=30, entropy=0.02)
    model = create_trainer(config, kb, CPU).fit()
    assert isinstance(model, MinervaModel)
    subject, object_ = family.grandparent[0]
    logits = model.object_logits(np.array([kb.entities.id(subject)]), np.array([kb.predicates.id("grandparent")]))[0]
    rank = (logits > logits[kb.entities.id(object_)]).sum()
    true = sum(1 for person, _ in family.grandparent if person == subject)
    assert rank < true


def test_a_hub_considers_some_of_its_facts_and_the_same_ones_always() -> None:
    facts = FactsKB.from_facts({"train": [Fact("hub", "p", f"leaf{i}") for i in range(50)]})
    view = FactsView.of(facts)
    first, second = (Actions.of(view.edges, 10, CPU) for _ in range(2))
    assert first.atoms.shape == (51, 11)
    assert torch.equal(first.targets, second.targets)
    model = MinervaModel(MinervaConfig(dim=4), facts, Walker(1, MinervaConfig(dim=4)), UNCALIBRATED)
    assert model.reach(view, 0, np.array([0, 3])).shape == (2, 51)
