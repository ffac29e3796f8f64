"""Every `select`: shapes, what it generates, gradients."""

import pytest
import torch

from ctp_core.kernels import ExponentialKernel
from ctp_core.rules import Template
from ctp_core.select.attentive import AttentiveSelect
from ctp_core.select.base import Select, SelectOptions
from ctp_core.select.linear import LinearSelect
from ctp_core.select.memory import MemorySelect
from ctp_core.select.registry import VARIANTS, select_class

DIM, PREDICATES = 5, 4
TEMPLATES = tuple(map(Template.parse, ("0", "2", "1R", "2", "3")))
EVERY = pytest.mark.parametrize("name", VARIANTS)


def make(name: str, **changes: object) -> tuple[Select, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    options = SelectOptions(TEMPLATES, DIM, PREDICATES, ExponentialKernel(), **changes)  # type: ignore[arg-type]
    return select_class(name)(options, generator), torch.randn(PREDICATES, DIM, generator=generator)


@EVERY
@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("gate", [False, True])
def test_one_expansion_per_template_with_its_reformulators_side_by_side(name: str, head: bool, gate: bool) -> None:
    select, predicates = make(name, head=head, gate=gate)
    expansions = select(predicates, predicates)
    assert [(str(e.template), e.bodies.shape[1], e.bodies.shape[2]) for e in expansions] == [
        ("2", 2, 2),
        ("1R", 1, 1),
        ("3", 1, 3),
    ]
    for expansion in expansions:
        assert expansion.bodies.shape[0] == (1 if name in ("ntp", "gntp") else PREDICATES)
        assert (expansion.heads is not None) == (head or name in ("ntp", "gntp"))
        assert (expansion.gates is not None) == gate
        for guard in (expansion.heads, expansion.gates):
            if guard is not None:
                assert guard.shape == (PREDICATES, expansion.bodies.shape[1])
                assert ((guard >= 0) & (guard <= 1)).all()


@EVERY
def test_every_parameter_gets_a_gradient_and_none_starts_at_zero(name: str) -> None:
    select, predicates = make(name, head=True, gate=True, top_k=10)
    expansions = select(predicates, predicates)
    guards = [part for e in expansions for part in (e.heads, e.gates) if part is not None]
    (sum(e.bodies.pow(2).sum() for e in expansions) + sum(guard.sum() for guard in guards)).backward()
    for key, parameter in select.named_parameters():
        assert parameter.abs().max() > 0, key
        assert parameter.grad is not None, key
        assert parameter.grad.abs().max() > 0, key


def test_linear_maps_are_applied_place_by_place() -> None:
    select, predicates = make("linear")
    assert isinstance(select, LinearSelect)
    weights = select.weights["2"].view(DIM, 2, 2, DIM)
    biases = select.biases["2"].view(2, 2, DIM)
    bodies = select(predicates, predicates)[0].bodies
    expected = predicates[3] @ weights[:, 1, 0] + biases[1, 0]
    torch.testing.assert_close(bodies[3, 1, 0], expected)


def test_attentive_bodies_are_mixtures_of_the_predicate_vectors() -> None:
    select, predicates = make("attentive")
    assert isinstance(select, AttentiveSelect)
    attention = select.attention(TEMPLATES[1], predicates)
    assert attention is not None
    torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention[..., 0]))
    torch.testing.assert_close(select(predicates, predicates)[0].bodies, attention @ predicates)


def test_memory_is_shared_by_reformulators_of_equal_length_and_attention_by_places() -> None:
    select, predicates = make("memory", memory=3)
    assert isinstance(select, MemorySelect)
    assert set(select.memories) == {"1", "2", "3"}
    alpha = select.rule_attention(TEMPLATES[1], predicates)  # [goal, reformulator, rule]
    expected = torch.einsum("grm,mad->grad", alpha, select.stored(TEMPLATES[1]))
    torch.testing.assert_close(select(predicates, predicates)[0].bodies, expected)


def test_rules_of_a_memory_start_as_far_from_zero_as_is_asked_for() -> None:
    far, near = (make("memory", memory_start=start)[0] for start in (1.0, 0.1))
    assert isinstance(far, MemorySelect)
    assert isinstance(near, MemorySelect)
    torch.testing.assert_close(near.stored(TEMPLATES[1]), 0.1 * far.stored(TEMPLATES[1]))
    assert torch.equal(near.weights["2"], far.weights["2"])  # the attention is the same


def test_gntp_keeps_the_k_best_heads_over_all_templates() -> None:
    every, predicates = make("ntp")
    greedy, _ = make("gntp", top_k=2)
    heads = torch.cat([e.heads for e in every(predicates, predicates) if e.heads is not None], dim=1)
    kept = torch.cat([e.heads for e in greedy(predicates, predicates) if e.heads is not None], dim=1)
    for all_heads, best in zip(heads, kept, strict=True):
        assert sorted(best[best > 0].tolist()) == sorted(all_heads.topk(2).values.tolist())


@pytest.mark.parametrize("name", ["ntp", "gntp"])
def test_fixed_rules_start_apart_but_nearer_to_predicates_than_these_are_to_each_other(name: str) -> None:
    select, predicates = make(name)
    rules = torch.cat([vectors.detach().reshape(-1, DIM) for vectors in select.parameters()])
    assert torch.pdist(rules).min() > 0
    assert torch.cdist(rules, predicates).mean() < 0.8 * torch.pdist(predicates).mean()


@EVERY
def test_the_same_seed_makes_the_same_parameters(name: str) -> None:
    first, second = make(name)[0].state_dict(), make(name)[0].state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
