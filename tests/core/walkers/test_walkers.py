"""NeuralLP and MINERVA: walks that are counted by hand, rules read off attention, and what they learn."""

import numpy as np
import pytest
import torch

from ctp_core.base.edges import atom_tables
from ctp_core.base.goals import GoalIds
from ctp_core.base.model import Answers, Budget, Question
from ctp_core.kb.knowledge_base import FactsKB
from ctp_core.registry import create_trainer
from ctp_core.symbols import Fact, Goal
from ctp_core.walkers.config import MinervaConfig, NeuralLpConfig
from ctp_core.walkers.minerva import MinervaModel, MinervaTrainer, Walker
from ctp_core.walkers.neurallp import NeuralLpModel, OperatorController
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


@pytest.mark.slow
def test_the_rules_of_neurallp_are_what_it_attends_to() -> None:
    family = random_family(3)
    kb = family.kb(("parent", "grandparent"), Fact(family.grandparent[0][0], "grandparent", family.grandparent[0][1]))
    model = create_trainer(NeuralLpConfig(dim=16, length=2, epochs=60, learning_rate=0.02), kb, CPU).fit()
    assert isinstance(model, NeuralLpModel)
    best = next(rule for rule in model.rules() if rule.head.predicate == "grandparent")
    assert best.text == "grandparent(X,Y) :- parent(X,Z), parent(Z,Y)"
    assert best.support == len(family.grandparent) - 1  # one is hidden
    assert best.precision == pytest.approx(best.support / len(family.grandparent))
    assert all(rule.support is not None for rule in model.rules())
    subject, object_ = family.grandparent[0]
    [answers] = model.answer([Question(Goal(subject, "grandparent", None), exclude_known=True)], Budget())
    assert isinstance(answers, Answers)
    assert answers.items[0].fact.object == object_


def test_what_minerva_reaches_is_the_sum_over_all_walks() -> None:
    torch.manual_seed(0)
    walker, tables = Walker(2, MinervaConfig(dim=4)), MinervaModel.tables_of(KB.splits["train"], 3, 2, CPU)
    expected, entropy = torch.zeros(3, 3), 0.0
    with torch.no_grad():
        found, mean_entropy = walker.walk(1, tables, length=3, beam=1000)
        for start in range(3):
            walks = [(start, walker.begin(1), 1.0)]
            for _ in range(3):
                longer = []
                for entity, state, chance in walks:
                    steps = [(int(atom), int(end)) for atom, end in torch.nonzero(tables[:, entity])]
                    wanted = walker.wanted(state, torch.tensor([1]))[0]
                    chances = torch.stack([wanted[atom] for atom, _ in steps]).softmax(dim=0)
                    entropy -= chance * float((chances * chances.log()).sum())
                    for (atom, end), share in zip(steps, chances.tolist(), strict=True):
                        longer.append((end, walker.step(state, torch.tensor([atom])), chance * share))
                walks = longer
            for entity, _, chance in walks:
                expected[start, entity] += chance
    assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(found.sum(dim=1), torch.ones(3), atol=1e-5)
    assert float(mean_entropy) == pytest.approx(entropy / 9, abs=1e-5)


def test_no_walk_is_lost_where_what_is_wanted_most_is_missing() -> None:
    torch.manual_seed(0)
    walker, tables = Walker(2, MinervaConfig(dim=4)), MinervaModel.tables_of(KB.splits["train"], 3, 2, CPU)
    with torch.no_grad():
        walker.atoms.weight *= 1000
        found, _ = walker.walk(1, tables, length=3, beam=1000)
    assert torch.allclose(found.sum(dim=1), torch.ones(3), atol=1e-5)


def test_a_narrow_beam_keeps_the_likeliest_sequences_alone() -> None:
    torch.manual_seed(0)
    walker, tables = Walker(2, MinervaConfig(dim=4)), MinervaModel.tables_of(KB.splits["train"], 3, 2, CPU)
    with torch.no_grad():
        narrow, wide = (walker.walk(0, tables, length=2, beam=beam)[0] for beam in (2, 1000))
    assert bool((narrow <= wide + 1e-6).all())
    assert 0.3 < float(narrow.sum()) < float(wide.sum())


def test_minerva_may_not_follow_the_fact_it_is_asked_for() -> None:
    facts = [Fact(f"a{i}", "p", f"b{i}") for i in range(20)]  # nothing else leads from one to the other
    trainer = create_trainer(MinervaConfig(dim=4, hidden_facts=0.5), FactsKB.from_facts({"train": facts}), CPU)
    assert isinstance(trainer, MinervaTrainer)
    for query in (0, 1):
        logarithms, _ = trainer._walked(query)
        assert len(logarithms) > 0
        assert bool((logarithms < -10).all())


@pytest.mark.slow
def test_minerva_learns_a_walk_of_two_steps() -> None:
    family = random_family(3)
    kb = family.kb(("parent", "grandparent"), Fact(family.grandparent[0][0], "grandparent", family.grandparent[0][1]))
    config = MinervaConfig(dim=16, epochs=60, learning_rate=0.02, batch_size=2)
    model = create_trainer(config, kb, CPU).fit()
    assert isinstance(model, MinervaModel)
    subject, object_ = family.grandparent[0]
    asked = np.array([kb.entities.id(subject)]), np.array([kb.predicates.id("grandparent")])
    logits = model.kb_logits(GoalIds.for_objects(*asked))[0]
    rank = (logits > logits[kb.entities.id(object_)]).sum()
    true = sum(1 for person, _ in family.grandparent if person == subject)
    assert rank < true
