"""The embedding as one more part of the score."""

import math

import numpy as np
import pytest
import torch

from ctp_core.config import ComplexConfig, DistMultConfig
from ctp_core.models.factorisation import FACTORISATIONS
from ctp_core.models.hybrid import HybridModel
from ctp_core.symbols import Fact, Goal
from tests.core.models.test_facts_models import FAMILY, HIDDEN, ask, model_of


def test_the_parts_of_a_hybrid_add_up_to_its_logit() -> None:
    for answer in ask(model_of("hybrid"), Goal(*HIDDEN[:2], None))[0]:
        assert answer.score_parts is not None
        assert set(answer.score_parts) == {"bias", "shown", "rest", "num_proofs", "embedding"}
        total = sum(value or 0 for name, value in answer.score_parts.items() if name != "num_proofs")
        assert 1 / (1 + math.exp(-total)) == pytest.approx(answer.score)


def test_an_entity_never_seen_is_answered_from_proofs_alone() -> None:
    hybrid = model_of("hybrid")
    assert isinstance(hybrid, HybridModel)
    facts = (Fact("stranger", "parent", "newcomer"), Fact("newcomer", "parent", HIDDEN.object))
    goal = Goal("stranger", "grandparent", None)
    (answers,), (proved,) = ask(hybrid, goal, facts=facts), ask(hybrid.proofs, goal, facts=facts)
    assert all(answer.score_parts is not None and answer.score_parts["embedding"] is None for answer in answers)
    assert [(a.fact, a.score) for a in answers] == [(a.fact, a.score) for a in proved]


def test_an_embedding_knows_nothing_of_an_entity_never_seen() -> None:
    facts = (Fact("stranger", "parent", FAMILY.parent[0][0]),)
    (answers,) = ask(model_of("complex"), Goal("stranger", "parent", None), facts=facts)
    assert len({answer.score for answer in answers}) == 1
    assert all(answer.score_parts is not None and answer.score_parts["embedding"] is None for answer in answers)


@pytest.mark.parametrize("config", [ComplexConfig(rank=3), DistMultConfig(rank=3)], ids=["complex", "distmult"])
def test_the_averaged_predicate_is_the_mean_of_both_directions(config: ComplexConfig | DistMultConfig) -> None:
    generator = torch.Generator().manual_seed(1)
    module = FACTORISATIONS[config.method]((5, 2), config.rank, generator, torch.device("cpu"))
    for parameter in module.parameters():
        parameter.data.normal_(generator=generator)
    subject, predicate, object_ = torch.tensor([0, 3]), torch.tensor([0, 1]), torch.tensor([4, 1])
    forward, _ = module.queries(subject, predicate, tied=False)
    backward, _ = module.queries(object_, predicate + 2, tied=False)
    one = (forward * module.entities[object_]).sum(-1)
    other = (backward * module.entities[subject]).sum(-1)
    averaged = module.compose(module.entities[subject], module.averaged()[predicate])
    assert torch.allclose((averaged * module.entities[object_]).sum(-1), (one + other) / 2, atol=1e-6)


def test_complex_is_the_product_of_complex_numbers() -> None:
    generator = torch.Generator().manual_seed(2)
    module = FACTORISATIONS["complex"]((3, 1), 4, generator, torch.device("cpu"))
    for parameter in module.parameters():
        parameter.data.normal_(generator=generator)

    def number(vector: torch.Tensor) -> np.ndarray:
        real, imaginary = vector.detach().numpy().reshape(2, 4)
        return np.asarray(real + 1j * imaginary)

    query, _ = module.queries(torch.tensor([1]), torch.tensor([0]), tied=False)
    product = number(module.entities[1]) * number(module.predicates[0]) * number(module.entities[2]).conj()
    assert (query[0] @ module.entities[2]).item() == pytest.approx(product.sum().real, rel=1e-5)
