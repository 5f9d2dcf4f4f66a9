"""The curves are sigmoids in the paper's sense, their slopes are their derivatives, and their tails stay useful."""

import math

import pytest
import torch
from torch import Tensor

from truesort.relaxations import CURVES, sigma, slope

GAPS = torch.tensor([0.0, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.02, 0.3, 1.0, 3.0, 50.0, 1e4], dtype=torch.float64)
BOTH = torch.cat([-GAPS.flip(0), GAPS])
FORMULAS = {
    "logistic": lambda d, s: 1 / (1 + torch.exp(-s * d)),
    "logistic_art": lambda d, s: 1 / (1 + torch.exp(-s * d / (d.abs() ** 0.25 + 1e-10))),
    "reciprocal": lambda d, s: 0.5 + 0.5 * s * d / (2 + (s * d).abs()),
    "cauchy": lambda d, s: 0.5 + torch.atan(s * d) / math.pi,
    "gaussian": lambda d, s: torch.distributions.Normal(0, 1).cdf(s * d),
}
every_swap = pytest.mark.parametrize("swap", CURVES)
every_steepness = pytest.mark.parametrize("steepness", [1e-3, 1.0, 10.0, 124.0, 1e4])


def derivative(swap: str, d: Tensor, steepness: float) -> tuple[Tensor, Tensor]:
    d = d.clone().requires_grad_()
    (first,) = torch.autograd.grad(sigma(swap, d, steepness).sum(), d, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), d)
    return first.detach(), second


@every_swap
@every_steepness
class TestCurves:
    def test_the_five_properties(self, swap: str, steepness: float) -> None:
        d = torch.linspace(-30, 30, 2001, dtype=torch.float64) / steepness
        y = sigma(swap, d, steepness)
        assert (y.diff() >= 0).all()
        assert (y.diff()[900:1100] > 0).all()
        far = torch.tensor([1e12, torch.inf], dtype=torch.float64)
        torch.testing.assert_close(sigma(swap, far, steepness), torch.ones(2, dtype=torch.float64), atol=1e-3, rtol=0)
        torch.testing.assert_close(sigma(swap, -far, steepness), torch.zeros(2, dtype=torch.float64), atol=1e-3, rtol=0)
        assert sigma(swap, torch.zeros(1), steepness) == 0.5
        torch.testing.assert_close(y + sigma(swap, -d, steepness), torch.ones_like(y), atol=1e-15, rtol=0)

    def test_slope_is_the_derivative(self, swap: str, steepness: float) -> None:
        first, second = derivative(swap, BOTH, steepness)
        torch.testing.assert_close(slope(swap, BOTH, steepness), first, rtol=1e-12, atol=1e-35)
        assert first.isfinite().all()
        assert second.isfinite().all()
        inner = BOTH[(BOTH.abs() > 1e-4) & (BOTH.abs() * steepness < 5)]
        wide = inner.abs() * 1e-4
        numeric = (sigma(swap, inner + wide, steepness) - sigma(swap, inner - wide, steepness)) / (2 * wide)
        torch.testing.assert_close(slope(swap, inner, steepness), numeric, rtol=1e-3, atol=1e-9)

    def test_single_precision_keeps_the_small_side(self, swap: str, steepness: float) -> None:
        d = BOTH[BOTH.abs() <= 1e3].float()
        exact = sigma(swap, d.double(), steepness)
        torch.testing.assert_close(sigma(swap, d, steepness).double(), exact, rtol=2e-4, atol=0)
        torch.testing.assert_close(
            slope(swap, d, steepness).double(), slope(swap, d.double(), steepness), rtol=2e-4, atol=0
        )

    def test_infinite_gaps_are_decided_and_flat(self, swap: str, steepness: float) -> None:
        d = torch.tensor([-torch.inf, torch.inf])
        assert sigma(swap, d, steepness).tolist() == [0, 1]
        first, _ = derivative(swap, d, steepness)
        assert (first == 0).all()
        assert (slope(swap, d, steepness) == 0).all()


@pytest.mark.parametrize("swap", FORMULAS)
@pytest.mark.parametrize("steepness", [0.5, 10.0])
def test_values_are_those_of_the_published_formulas(swap: str, steepness: float) -> None:
    d = torch.linspace(-2, 2, 401, dtype=torch.float64)
    d = d[d.abs() > 0.019]  # closer to a tie `logistic_art` is smoothed, which the next test is about
    torch.testing.assert_close(sigma(swap, d, steepness), FORMULAS[swap](d, steepness), rtol=2e-5, atol=1e-12)


def test_optimal_is_the_papers_equation() -> None:
    for d, expected in [
        (-1, 1 / 160),
        (-0.025, 0.25),
        (-0.01, 0.4),
        (0, 0.5),
        (0.02, 0.7),
        (0.025, 0.75),
        (1, 1 - 1 / 160),
    ]:
        assert sigma("optimal", torch.tensor([d], dtype=torch.float64), 10.0).item() == pytest.approx(
            expected, rel=1e-12
        )


def test_art_has_a_bounded_slope_where_the_published_formula_explodes() -> None:
    d = torch.tensor([0.0, 1e-12, 1e-9, 1e-6], dtype=torch.float64)
    assert (slope("logistic_art", d, 10.0) <= 10 / 4 / 1e-4**0.25 + 1e-9).all()
    published = 10 * 0.75 * 1e-9**-0.25 / 4
    assert published > 300


@pytest.mark.parametrize("art", [0.0, 0.5, 0.9])
def test_art_exponent_matters_only_to_art(art: float) -> None:
    d = torch.tensor([0.4, -2.0], dtype=torch.float64)
    for swap in CURVES:
        assert torch.equal(sigma(swap, d, 3.0, art), sigma(swap, d, 3.0)) == (swap != "logistic_art")
    if art == 0:
        torch.testing.assert_close(sigma("logistic_art", d, 3.0, 0.0), sigma("logistic", d, 3.0))


def test_unknown_swap_lists_the_choices() -> None:
    for function in (sigma, slope):
        with pytest.raises(ValueError, match=r"swap is 'step'; choose one of 'logistic', .*'optimal'"):
            function("step", torch.zeros(1))
