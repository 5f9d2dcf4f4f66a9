"""Sinkhorn against matrix scaling in its simplest form, and what it says when it does not converge."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from truesort.ops import ConvergenceWarning, Sinkhorn


def scaled(keys: np.ndarray, temperature: float) -> np.ndarray:
    """Divide the Gibbs kernel of (key − position)² by its row and column sums until they are 1."""
    kernel = np.exp(-((keys[:, None] - np.arange(len(keys))) ** 2) / temperature)
    for _ in range(20_000):
        kernel /= kernel.sum(1, keepdims=True)
        kernel /= kernel.sum(0, keepdims=True)
    return kernel


@pytest.mark.parametrize("gradient", ["implicit", "unrolled"])
@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_matrix_scaling(gradient: str, temperature: float) -> None:
    keys = torch.randn(2, 6, dtype=torch.float64) * 2
    method = Sinkhorn(temperature, iterations=20_000, gradient=gradient, tolerance=1e-11)  # type: ignore[arg-type]
    for row, weights in zip(keys.numpy(), method.permutation(keys, None, 6), strict=True):
        np.testing.assert_allclose(weights.numpy(), scaled(row, temperature), rtol=1e-8, atol=1e-10)


def derivatives(method: Sinkhorn, keys: Tensor, count: Tensor, weight: Tensor) -> list[Tensor]:
    found = method.permutation(keys, count, keys.shape[-1])
    (slope,) = torch.autograd.grad((found * weight).sum(), keys, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sin().sum(), keys)
    return [found, slope, bend]


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_the_implicit_gradient_is_that_of_infinitely_many_sweeps(temperature: float) -> None:
    keys, count = torch.randn(3, 6, dtype=torch.float64, requires_grad=True), torch.tensor([6, 4, 2])
    weight = torch.randn(3, 6, 6, dtype=torch.float64)
    implicit = Sinkhorn(temperature)
    unrolled = replace(implicit, gradient="unrolled", iterations=5000, tolerance=1e-13)
    pairs = zip(derivatives(implicit, keys, count, weight), derivatives(unrolled, keys, count, weight), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("n", [2, 10, 60])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_defaults_converge_without_a_warning(spread: float, n: int, dtype: torch.dtype) -> None:
    clusters = torch.randint(0, 3, (8, n)) * 5
    keys = torch.cat([torch.randn(8, n), clusters + 0.1 * torch.randn(8, n)]).to(dtype) * spread
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights = Sinkhorn().permutation(keys.requires_grad_(), None, n)
    for side in (-1, -2):
        torch.testing.assert_close(weights.sum(side), torch.ones(16, n, dtype=dtype), rtol=0, atol=3e-6)
    (slope,) = torch.autograd.grad(weights.clamp_min(1e-30).log().sum(), keys)
    assert slope.isfinite().all()


def test_an_unfinished_result_says_so_and_what_to_change() -> None:
    keys = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 1.2]])
    method = Sinkhorn(0.5, iterations=2, gradient="unrolled")
    with pytest.warns(ConvergenceWarning) as caught:
        weights = method.permutation(keys, None, 3)
    assert len(caught) == 1
    text = str(caught[0].message)
    named = float(text.split("off by up to ")[1].split(",")[0])
    assert named == pytest.approx((weights.sum(-1) - 1).abs().max().item(), rel=0.06)
    assert "in 1 of 2 rows: after iterations=2 " in text
    assert "tolerance=1e-06; raise iterations, tolerance or temperature (now 0.5) or use gradient='implicit'" in text


def test_unrolled_gradients_are_those_of_the_sweeps_taken() -> None:
    keys = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    method = Sinkhorn(0.5, iterations=3, gradient="unrolled", tolerance=1e-15)
    with pytest.warns(ConvergenceWarning):
        assert torch.autograd.gradcheck(lambda x: method.permutation(x, None, 4), keys)
