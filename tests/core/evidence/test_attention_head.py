"""The evidence head against a count of paths one by one."""

from itertools import product
from typing import Any, get_args

import numpy as np
import pytest
import torch

from ctp_core.base.edges import atom_tables
from ctp_core.evidence.attention_counts import AskedFacts, chain, mix
from ctp_core.evidence.attention_head import AttentionHead, half_count, saturate
from ctp_core.evidence.config import Counting
from ctp_core.rules import UNARY, Template
from tests.variants import slow_but

NUM_ENTITIES, NUM_PREDICATES = 4, 2


def random_facts(seed: int) -> np.ndarray:
    """About half of all possible facts, loops included."""
    everything = np.array(list(product(range(NUM_ENTITIES), range(NUM_PREDICATES), range(NUM_ENTITIES))))
    return everything[np.random.default_rng(seed).random(len(everything)) < 0.5]


EVERY_TEMPLATE = {Template(1): 2, **dict.fromkeys(UNARY, 2), Template(2): 3, Template(3): 2, Template(4): 1}
Attention = list[list[float]]  # [place, atom]
How = dict[str, Any]  # the settings that say how groundings are counted
ways = pytest.mark.parametrize("how", [{}, {"saturation": 0.2}, {"counting": "share"}], ids=str)


def new_head(seed: int = 0, how: How | None = None, templates: dict[Template, int] = EVERY_TEMPLATE) -> AttentionHead:
    generator = torch.Generator().manual_seed(seed)
    return AttentionHead(NUM_PREDICATES, templates, generator, torch.device("cpu"), 2.0, **how or {}).double()


def count_one_by_one(attention: Attention, facts: set[tuple[int, int, int]], subject: int, object_: int) -> float:
    """Weighted number of paths, by trying every atom and entity at every place."""
    if not attention:
        return float(subject == object_)
    total = 0.0
    for atom, entity in product(range(2 * NUM_PREDICATES), range(NUM_ENTITIES)):
        inverse = atom >= NUM_PREDICATES
        fact = (entity, atom - NUM_PREDICATES, subject) if inverse else (subject, atom, entity)
        if fact in facts:
            total += attention[0][atom] * count_one_by_one(attention[1:], facts, entity, object_)
    return total


def count_template(
    template: Template, attention: Attention, facts: set[tuple[int, int, int]], subject: int, object_: int
) -> float:
    if not template.unary:
        return count_one_by_one(attention, facts, subject, object_)
    about = subject if template == UNARY[0] else object_
    return sum(count_one_by_one(attention, facts, about, other) for other in range(NUM_ENTITIES))


def tables_of(facts: np.ndarray) -> torch.Tensor:
    return atom_tables(facts, NUM_ENTITIES, NUM_PREDICATES, torch.device("cpu")).double()


@pytest.mark.parametrize("template", slow_but([Template(2)], [Template(1), Template(2), Template(3)]), ids=str)
def test_counts_are_those_of_all_paths(template: Template) -> None:
    facts = random_facts(1)
    attention = new_head().attention(template, torch.arange(NUM_PREDICATES))
    counts = chain(mix(attention, tables_of(facts)))
    known, weights = {tuple(fact) for fact in facts.tolist()}, attention.tolist()
    for goal, g, s, o in np.ndindex(*counts.shape):
        assert counts[goal, g, s, o].item() == pytest.approx(count_one_by_one(weights[goal][g], known, s, o))


def evidence_of(
    template: Template, attention: Attention, facts: set[tuple[int, int, int]], pair: tuple[int, int], how: How
) -> float:
    """h of one reformulator."""
    count = count_template(template, attention, facts, *pair)
    if how.get("counting") != "share" or template.length == 1:
        return float(saturate(torch.tensor(count, dtype=torch.float64), half_count(template, how.get("saturation"))))
    return count / (1 + sum(count_template(template, attention, facts, pair[0], o) for o in range(NUM_ENTITIES)))


@pytest.mark.slow
@ways
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_fact_asked_for_while_training_proves_nothing_of_itself(seed: int, how: How) -> None:
    facts, head = random_facts(seed), new_head(seed, how)
    goals = torch.tensor([1, 0])
    subject, predicate, object_ = torch.from_numpy(facts).unbind(1)
    asked = AskedFacts(1 - predicate, predicate, subject, object_)
    logits = head.logits(tables_of(facts), goals, asked)
    known = {tuple(fact) for fact in facts.tolist()}
    for s, p, o in facts.tolist():
        expected = head.bias[p] + (head.loop_bias[p] if s == o else 0)
        for template in head.templates:
            attention = head.attention(template, torch.tensor([p]))[0].tolist()
            evidence = [evidence_of(template, row, known - {(s, p, o)}, (s, o), how) for row in attention]
            expected = expected + head.strength(template, torch.tensor([p]))[0] @ torch.tensor(
                evidence, dtype=torch.float64
            )
        assert logits[1 - p, s, o].item() == pytest.approx(expected.item(), abs=1e-9)


@ways
@pytest.mark.parametrize("template", [Template(5), Template(6)], ids=str)
def test_nor_does_it_by_bodies_too_long_to_count_one_by_one(template: Template, how: How) -> None:
    facts, head = random_facts(4), new_head(how=how, templates={template: 2})
    goals = torch.arange(NUM_PREDICATES)
    subject, predicate, object_ = torch.from_numpy(facts).unbind(1)
    logits = head.logits(tables_of(facts), goals, AskedFacts(predicate, predicate, subject, object_))
    for row, (s, p, o) in enumerate(facts.tolist()):
        without = head.logits(tables_of(np.delete(facts, row, axis=0)), goals)
        assert logits[p, s, o].item() == pytest.approx(without[p, s, o].item(), abs=1e-9)


@ways
def test_pairs_that_are_no_facts_are_not_masked(how: How) -> None:
    facts, head = random_facts(3), new_head(how=how)
    goals = torch.arange(NUM_PREDICATES)
    subject, predicate, object_ = torch.from_numpy(facts).unbind(1)
    masked = head.logits(tables_of(facts), goals, AskedFacts(predicate, predicate, subject, object_))
    plain = head.logits(tables_of(facts), goals)
    absent = tables_of(facts)[:NUM_PREDICATES] == 0
    assert torch.equal(masked[absent], plain[absent])
    assert (masked[~absent] <= plain[~absent]).all() or "counting" in how  # there rivals may lose paths too


def test_by_share_one_path_of_one_says_more_than_two_of_three() -> None:
    """0 - 1 - 2 alone; 3 leads to 2 over 4 and 5, and over 6 to 7."""
    edges = [(0, 1), (1, 2), (3, 4), (3, 5), (3, 6), (4, 2), (5, 2), (6, 7)]
    facts = np.array([[subject, 0, object_] for subject, object_ in edges])
    generator = torch.Generator().manual_seed(0)
    logits = {}
    for counting in get_args(Counting):
        head = AttentionHead(1, {Template(2): 1}, generator, torch.device("cpu"), counting=counting)
        with torch.no_grad():
            head.attention_logits["2"][..., 0] = 50.0
            logits[counting] = (
                head.logits(atom_tables(facts, 8, 1, torch.device("cpu")), torch.tensor([0]))[0] - head.bias
            )
    strength = torch.log(torch.tensor(2.0))
    assert torch.allclose(logits["number"][[0, 3, 3], [2, 2, 7]], strength * torch.tensor([1 / 2, 2 / 3, 1 / 2]))
    assert torch.allclose(logits["share"][[0, 3, 3], [2, 2, 7]], strength * torch.tensor([1 / 2, 2 / 4, 1 / 4]))


def test_with_a_low_saturation_one_fact_says_almost_as_much_as_two() -> None:
    """Attention of half and half: c is .5 for one of the facts and 1 for both, h(c) 5/7 and 10/12."""
    head = AttentionHead(3, {Template(1): 1}, torch.Generator(), torch.device("cpu"), saturation=0.2)
    with torch.no_grad():
        head.attention_logits["1"].fill_(-1e9)
        head.attention_logits["1"][0, 0, 0, [1, 2]] = 0
    facts = np.array([[0, 1, 1], [0, 1, 2], [0, 2, 2]])  # one between 0 and 1, two between 0 and 2
    logits = head.logits(atom_tables(facts, 3, 3, torch.device("cpu")), torch.tensor([0]))[0, 0] - head.bias[0]
    strength = head.strength(Template(1), torch.tensor([0])).item()
    assert logits.tolist() == pytest.approx([0, strength * 5 / 7, strength * 10 / 12], abs=1e-6)


def test_only_the_identity_gets_no_attention() -> None:
    attention = new_head().attention(Template(1), torch.arange(NUM_PREDICATES))
    for predicate in range(NUM_PREDICATES):
        assert (attention[predicate, :, 0, predicate] == 0).all()
        assert (attention[predicate, :, 0, predicate + NUM_PREDICATES] > 0).all()


@pytest.mark.slow
@ways
def test_gradients_through_the_mask_are_exact(how: How) -> None:
    facts, head = random_facts(4), new_head(how=how, templates=dict.fromkeys(EVERY_TEMPLATE, 1))
    subject, predicate, object_ = torch.from_numpy(facts).unbind(1)
    asked = AskedFacts(predicate, predicate, subject, object_)
    parameters = dict(head.named_parameters())

    def logits(*values: torch.Tensor) -> torch.Tensor:
        named = dict(zip(parameters, values, strict=True))
        result = torch.func.functional_call(head, named, (tables_of(facts), torch.arange(NUM_PREDICATES), asked))
        assert isinstance(result, torch.Tensor)
        return result

    assert torch.autograd.gradcheck(logits, tuple(parameters.values()), fast_mode=True)
