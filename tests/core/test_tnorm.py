"""How scores combine: ⊗ on tensors, arrays, numbers and distances, and ⊕."""

import itertools
import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from ctp_core.aggregations import Aggregation, Best, CappedSum, NoisyOr
from ctp_core.ctp_facts.config import CtpFactsConfig
from ctp_core.ctp_graphs.config import CtpGraphsConfig
from ctp_core.tnorm.base import TNorm
from ctp_core.tnorm.registry import ON_DISTANCES, TNORMS, on_distances

AGGREGATIONS: dict[str, Aggregation] = {
    **{name: Best(tnorm) for name, tnorm in TNORMS.items()},
    "sum": CappedSum(),
    "noisy-or": NoisyOr(),
}
ALL = pytest.mark.parametrize("aggregation", AGGREGATIONS.values(), ids=AGGREGATIONS)
EVERY = pytest.mark.parametrize("tnorm", TNORMS.values(), ids=TNORMS)


def scores(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


@ALL
def test_scatter_is_plus_over_the_rows_that_share_an_index(aggregation: Aggregation) -> None:
    rows, index = scores(7, 3) / 4, torch.tensor([0, 2, 2, 0, 2, 3, 3])
    out = aggregation.scatter(rows, index, 5)
    for i in (0, 2, 3):
        expected = aggregation.reduce(rows[index == i], dim=0)
        torch.testing.assert_close(out[i], expected)
    assert (out[[1, 4]] == aggregation.zero).all()


@ALL
def test_contract_is_the_matrix_product_by_plus_and_times(aggregation: Aggregation) -> None:
    left, right = scores(4, 3) / 4, scores(3, 5)
    out = aggregation.contract(left, right)
    for i, j in itertools.product(range(4), range(5)):
        torch.testing.assert_close(out[i, j], aggregation.reduce(aggregation.times(left[i], right[:, j]), dim=0))
    assert aggregation.contract(left[:0], right).shape == (0, 5)


@ALL
def test_plus_reduces_two(aggregation: Aggregation) -> None:
    left, right = scores(4, 3) / 2, scores(1, 3) / 2
    expected = aggregation.reduce(torch.stack([left, right.expand(4, 3)]), dim=0)
    torch.testing.assert_close(aggregation.plus(left, right), expected)


@pytest.mark.parametrize("name", [name for name, tnorm in TNORMS.items() if tnorm.associative])
def test_what_is_associative_obeys_the_laws_of_a_t_norm(name: str) -> None:
    tnorm, best = TNORMS[name], Best(TNORMS[name])
    a, b, c = scores(5, 1).double(), scores(5, 4).double(), scores(5, 2, 1, 1).double()
    torch.testing.assert_close(tnorm.times(a, tnorm.times(b, c)), tnorm.times(tnorm.times(a, b), c))
    torch.testing.assert_close(tnorm.times(a, b), tnorm.times(b, a))
    distributed = best.plus(tnorm.times(a, b), tnorm.times(a, c))
    torch.testing.assert_close(tnorm.times(a, best.plus(b, c)), distributed)
    assert (tnorm.times(a, torch.full_like(a, tnorm.one)) == a).all()  # to the bit: circles must not raise a score
    assert (tnorm.times(a, b) <= torch.minimum(a, b)).all()
    assert (tnorm.times(a, torch.full_like(a, tnorm.zero)) == tnorm.zero).all()
    assert torch.equal(tnorm.times(a, a), a.expand_as(a)) == tnorm.idempotent


@EVERY
def test_times_is_the_same_on_tensors_arrays_and_numbers(tnorm: TNorm) -> None:
    parts = [scores(6).double(), scores(1, 5)[0, 0].expand(6).double(), scores(6, 2)[:, 1].double()]
    expected = tnorm.product(parts)
    arrays = tnorm.arrays(tnorm.arrays(parts[0].numpy(), parts[1].numpy()), parts[2].numpy())
    np.testing.assert_allclose(arrays, expected.numpy(), rtol=1e-12, atol=1e-15)
    for place, score in enumerate(expected.tolist()):
        numbers = [part[place].item() for part in parts]
        assert tnorm.of(numbers) == pytest.approx(score, abs=1e-15)
        assert tnorm.numbers(tnorm.numbers(*numbers[:2]), numbers[2]) == pytest.approx(score, abs=1e-15)


@EVERY
def test_an_unfinished_proof_is_the_total_of_what_is_closed_and_what_is_open(tnorm: TNorm) -> None:
    """(a ⊗ (b ⊗ c)) as a search sees it: a closed, b and c open below it."""
    a, b, c = 0.9, 0.8, 0.7
    outer = tnorm.weights(2, 1.0)
    inner = tnorm.weights(2, outer[1])
    closed = tnorm.join(tnorm.start, a, outer[0])
    rest = tnorm.join(tnorm.join(tnorm.start, c, inner[1]), b, inner[0])
    assert tnorm.combine(closed, rest) == pytest.approx(tnorm.numbers(a, tnorm.numbers(b, c)))


@pytest.mark.parametrize("name", ON_DISTANCES)
def test_times_on_distances_is_times_on_their_scores(name: str) -> None:
    tnorm, slope = TNORMS[name], 0.7
    times = on_distances(name)
    left, right = 3 * scores(5).double(), 3 * scores(5, 3)[:, 0].double()
    expected = tnorm.times((-slope * left).exp(), (-slope * right).exp())
    joined = times.arrays(left.numpy(), right.numpy(), out=np.empty(5))
    torch.testing.assert_close((-slope * times.tensors(left, right)).exp(), expected)
    torch.testing.assert_close((-slope * torch.from_numpy(joined)).exp(), expected)
    found, decisive = times.down(torch.stack([left, right]))
    torch.testing.assert_close(found, times.tensors(left, right))
    if decisive is not None:
        assert torch.equal(torch.stack([left, right]).gather(0, decisive[None])[0], found)


@EVERY
def test_a_kb_of_facts_refuses_what_does_not_work_on_distances_before_training(tnorm: TNorm) -> None:
    assert CtpGraphsConfig(semiring=tnorm.name).semiring == tnorm.name
    if tnorm.distances is not None:
        assert CtpFactsConfig(semiring=tnorm.name).semiring == tnorm.name
        return
    with pytest.raises(ValidationError, match=f"{tnorm.name}.*use {' or '.join(ON_DISTANCES)}"):
        CtpFactsConfig(semiring=tnorm.name)


def test_by_lukasiewicz_doubts_add_up() -> None:
    tnorm = TNORMS["max-lukasiewicz"]
    assert tnorm.of([0.9, 0.8, 0.9]) == pytest.approx(0.6)
    assert tnorm.of([0.5, 0.6, 0.7]) == 0
    assert math.isclose(tnorm.of([0.3, 1.0]), 0.3, rel_tol=0)
