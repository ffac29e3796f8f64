"""How scores combine."""

import itertools

import pytest
import torch

from ctp_core.semiring import SEMIRINGS, Semiring

ALL = pytest.mark.parametrize("semiring", SEMIRINGS.values(), ids=SEMIRINGS)


def scores(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


@ALL
def test_scatter_is_plus_over_the_rows_that_share_an_index(semiring: Semiring) -> None:
    rows, index = scores(7, 3) / 4, torch.tensor([0, 2, 2, 0, 2, 3, 3])
    out = semiring.scatter(rows, index, 5)
    for i in (0, 2, 3):
        expected = semiring.reduce(rows[index == i], dim=0)
        torch.testing.assert_close(out[i], expected)
    assert (out[[1, 4]] == semiring.zero).all()


@ALL
def test_contract_is_the_matrix_product_of_the_semiring(semiring: Semiring) -> None:
    left, right = scores(4, 3) / 4, scores(3, 5)
    out = semiring.contract(left, right)
    for i, j in itertools.product(range(4), range(5)):
        torch.testing.assert_close(out[i, j], semiring.reduce(semiring.times(left[i], right[:, j]), dim=0))
    assert semiring.contract(left[:0], right).shape == (0, 5)


@ALL
def test_plus_reduces_two(semiring: Semiring) -> None:
    left, right = scores(4, 3) / 2, scores(1, 3) / 2
    expected = semiring.reduce(torch.stack([left, right.expand(4, 3)]), dim=0)
    torch.testing.assert_close(semiring.plus(left, right), expected)


@pytest.mark.parametrize("name", ["max-min", "max-product"])
def test_semirings_that_answer_obey_the_laws(name: str) -> None:
    semiring = SEMIRINGS[name]
    a, b, c = scores(50), scores(50).flip(0), scores(51)[:50]
    torch.testing.assert_close(semiring.times(a, semiring.times(b, c)), semiring.times(semiring.times(a, b), c))
    distributed = semiring.plus(semiring.times(a, b), semiring.times(a, c))
    torch.testing.assert_close(semiring.times(a, semiring.plus(b, c)), distributed)
    torch.testing.assert_close(semiring.times(a, torch.full_like(a, semiring.one)), a)
    assert (semiring.times(a, torch.full_like(a, semiring.zero)) == semiring.zero).all()


def test_mean_folds_from_the_left_and_never_forgives_a_missing_part() -> None:
    mean = SEMIRINGS["max-mean"]
    parts = [torch.tensor(x) for x in (1.0, 0.5, 0.25)]
    assert mean.product(parts).item() == ((1.0 + 0.5) / 2 + 0.25) / 2
    assert mean.product([parts[0], torch.tensor(mean.zero)]).item() == float("-inf")


def test_noisy_or_counts_scores_far_below_the_precision_of_one() -> None:
    noisy_or, tiny = SEMIRINGS["noisy-or"], torch.full((3, 2), 1e-11, requires_grad=True)
    together = noisy_or.reduce(tiny, dim=0)
    torch.testing.assert_close(together, torch.full((2,), 3e-11), rtol=1e-5, atol=0)
    torch.testing.assert_close(noisy_or.scatter(tiny, torch.zeros(3, dtype=torch.long), 1)[0], together)
    together.sum().backward()
    torch.testing.assert_close(tiny.grad, torch.ones(3, 2))


def test_noisy_or_has_a_gradient_at_a_sure_score() -> None:
    scores = torch.tensor([1.0, 0.25], requires_grad=True)
    either = SEMIRINGS["noisy-or"].reduce(scores, dim=0)
    either.backward()
    assert either.item() == pytest.approx(1.0, abs=2e-6)
    torch.testing.assert_close(scores.grad, torch.tensor([0.75, 0.0]), rtol=0.1, atol=1e-5)
