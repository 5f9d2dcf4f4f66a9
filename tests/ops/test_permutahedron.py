"""Permutahedron against scikit-learn's isotonic regression and the conditions that mark a projection."""

import numpy as np
import pytest
import torch
from sklearn.isotonic import isotonic_regression
from torch import Tensor

from truesort.ops import Permutahedron

STRENGTHS = [0.01, 0.3, 1.0, 20.0]


def is_projection(point: np.ndarray, onto: np.ndarray, slope: np.ndarray) -> None:
    """The point is a mixture of the orders of `onto`, and no order of it lies further along the downward slope."""
    below = np.cumsum(np.sort(point)) - np.cumsum(np.sort(onto))
    scale = 1 + np.abs(onto).max() * (1 + np.abs(slope).max()) * len(onto)
    assert (below >= -1e-12 * scale).all()
    assert abs(below[-1]) <= 1e-12 * scale
    assert np.sort(slope) @ np.sort(onto) - slope @ point <= 1e-12 * scale


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("n", [2, 7, 40])
def test_isotonic_regression(strength: float, n: int) -> None:
    keys, positions = torch.randn(4, n, dtype=torch.float64) * 3, np.arange(n)
    method = Permutahedron(strength)
    for row, values, ranks in zip(keys.numpy(), method.sort(keys, None, n), method.rank(keys, None), strict=True):
        start = positions / strength
        np.testing.assert_allclose(values, start - isotonic_regression(start - np.sort(row)), atol=1e-10)
        start = np.sort(row) / strength
        expected = (start - isotonic_regression(start - positions))[row.argsort().argsort()]
        np.testing.assert_allclose(ranks, expected, atol=1e-9)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_projections(strength: float, n: int, spread: float) -> None:
    keys, positions = torch.randn(4, n, dtype=torch.float64) * spread, np.arange(n)
    for row in keys:
        one, x = row.unsqueeze(0), row.numpy()
        ranks = Permutahedron(strength).rank(one, None)[0].numpy()
        is_projection(ranks, positions, x / strength - ranks)
        ranks = Permutahedron(strength, "kl").rank(one, None)[0].numpy() + 1
        is_projection(ranks, positions + 1, x / strength - np.log(ranks))
        values = Permutahedron(strength).sort(one, None, n)[0].numpy()
        is_projection(values, x, positions / strength - values)
        values = Permutahedron(strength, "kl").sort(one, None, n)[0].numpy()
        is_projection(np.exp(values), np.exp(x), positions / strength - values)


def test_exactly_hard_below_some_strength() -> None:
    keys = torch.tensor([[3.0, -1.0, 0.5, 7.0]])
    assert Permutahedron(1.0).rank(keys, None).tolist() == [[2.0, 0.0, 1.0, 3.0]]
    assert Permutahedron(0.1).sort(keys, None, 4).tolist() == [[-1.0, 0.5, 3.0, 7.0]]
    torch.testing.assert_close(Permutahedron(0.5, "kl").rank(keys, None), torch.tensor([[2.0, 0.0, 1.0, 3.0]]))
    torch.testing.assert_close(Permutahedron(0.1, "kl").sort(keys, None, 4), torch.tensor([[-1.0, 0.5, 3.0, 7.0]]))


def test_infinite_strength_gives_means() -> None:
    keys = torch.randn(3, 5, dtype=torch.float64)
    for regularization in ("l2", "kl"):
        ranks = Permutahedron(1e12, regularization).rank(keys, None)  # type: ignore[arg-type]
        torch.testing.assert_close(ranks, torch.full_like(keys, 2.0))
    values = Permutahedron(1e12).sort(keys, None, 5)
    torch.testing.assert_close(values, keys.mean(-1, keepdim=True).expand(3, 5))
    values = Permutahedron(1e12, "kl").sort(keys, None, 5)
    torch.testing.assert_close(values, keys.exp().mean(-1, keepdim=True).log().expand(3, 5))


@pytest.mark.parametrize(
    "call", [lambda m, x: m.permutation(x, None, 2), lambda m, x: m.reorder(x, x[..., None], None)]
)
def test_there_is_no_matrix(call: object) -> None:
    with pytest.raises(
        TypeError, match=r"Permutahedron, which has no permutation matrix.*Network, NeuralSort, SoftSort"
    ):
        call(Permutahedron(), torch.zeros(1, 2))  # type: ignore[operator]


@pytest.mark.parametrize("offset", [-900.0, 0.0, 900.0])
def test_exponentials_neither_overflow_nor_vanish(offset: float) -> None:
    keys = torch.tensor([[-400.0, 0.0, 400.0, 401.0, 900.0]]) + offset
    method = Permutahedron(0.001, "kl")
    torch.testing.assert_close(method.sort(keys, torch.tensor([4]), 5), keys)
    torch.testing.assert_close(method.rank(keys, torch.tensor([4])), torch.arange(5.0)[None])


def chain(n: int) -> Tensor:
    """Keys whose last block eats all others one by one, the slowest case for pooling in rounds."""
    return torch.cat([1.5 * torch.arange(0.7 * n), torch.full((n - int(0.7 * n),), 1.05 * n)]).double()


def test_the_slowest_case_is_exact_too() -> None:
    keys = chain(200)
    expected = keys.numpy() - isotonic_regression(keys.numpy() - np.arange(200))
    found = Permutahedron(1.0).rank(keys[None], None)[0]
    block = torch.full((60,), found[-1].item(), dtype=torch.float64)
    torch.testing.assert_close(found[-60:], block)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("method", [Permutahedron(1.0), Permutahedron(0.01, "kl")], ids=str)
def test_nothing_of_size_n_by_n_is_made(method: Permutahedron) -> None:
    keys = torch.randn(1, 60_000, requires_grad=True)  # n² numbers would take 14 GB
    (method.rank(keys, None).square().mean() + method.sort(keys, None, 60_000).square().mean()).backward()
    assert keys.grad is not None
    assert keys.grad.isfinite().all()
