"""The paper's four propositions, its study of repeated swaps and its figure of accuracy without a model."""

import pytest
import torch
from torch import Tensor

import truesort as ts
from truesort.metrics import exact_match, permutation_exact_match
from truesort.networks import LAYOUTS
from truesort.relaxations import CURVES

LENGTHS = (3, 5, 7, 9, 15, 32)
every_swap = pytest.mark.parametrize("swap", CURVES)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def gaps(swap: str, starts: list[float], swaps: int, steepness: float = 1.0) -> Tensor:
    """The gaps of pairs (start, 0) before and after each of so many soft swaps, (swaps + 1, pairs)."""
    method = ts.Network(swap=swap, steepness=steepness, error_free=False)
    pairs = torch.tensor([[start, 0.0] for start in starts], dtype=torch.float64)
    left = [pairs.diff().abs()]
    for _ in range(swaps):
        pairs = ts.sort(pairs, method)
        left.append(pairs.diff())
    return torch.cat(left, 1).T


@every_layout
@every_swap
@pytest.mark.parametrize("error_free", [False, True])
def test_proposition_1_every_matrix_is_doubly_stochastic(layout: str, swap: str, error_free: bool) -> None:
    method = ts.Network(layout, swap, steepness=2.0, error_free=error_free)
    for n in (1, 2, 5, 9):
        P = ts.permutation(torch.randn(20, n, dtype=torch.float64), method)
        torch.testing.assert_close(P.sum(-1), torch.ones(20, n, dtype=torch.float64))
        torch.testing.assert_close(P.sum(-2), torch.ones(20, n, dtype=torch.float64))
        assert (P >= 0).all()
        assert not error_free or ((P == 0) | (P == 1)).all()


@every_swap
def test_proposition_2_soft_swaps_close_a_gap_to_half_of_it_on_each_side(swap: str) -> None:
    gap = gaps(swap, [4.0, 8.0, -2.5], 300, steepness=0.3)
    rounding = 4 * torch.finfo(gap.dtype).eps * gap[0].abs()
    assert ((gap[1:] < gap[:-1]) | (gap[:-1] <= rounding)).all()
    assert (gap >= -rounding).all()
    error = (gap[0] - gap[-1]) / 2
    torch.testing.assert_close(error, gap[0] / 2)


@pytest.mark.parametrize(("start", "swaps"), [(4.0, 9), (8.0, 15)])
def test_cauchy_swaps_close_a_pair_when_the_paper_says(start: float, swaps: int) -> None:
    gap = gaps("cauchy", [start], swaps)[:, 0]
    assert gap[-1] < 0.001 <= gap[-2]


@every_layout
@every_swap
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_proposition_3_error_free_swaps_err_by_nothing_however_often(
    layout: str, swap: str, dtype: torch.dtype
) -> None:
    x = (torch.randn(50, 8) * 3).to(dtype)
    method, swapped = ts.Network(layout, swap), x
    for _ in range(3):
        swapped = ts.sort(swapped, method)
    assert torch.equal(swapped, x.sort().values)
    carried = ts.reorder(x, x.unsqueeze(-1), method).squeeze(-1)
    assert torch.equal(carried, x.sort().values)


@every_layout
def test_proposition_4_a_split_keeps_the_relative_order_and_stays_a_permutation(layout: str) -> None:
    method = ts.Network(layout)
    scores = torch.randn(30, 7)
    whole = ts.permutation(scores, method)
    for cut in range(1, 7):
        for block in (slice(0, cut), slice(cut, 7)):
            own = ts.permutation(scores[:, block], method)
            assert ((own.sum(-1) == 1) & (own.sum(-2) == 1)).all()
            torch.testing.assert_close(own, without_empty_columns(whole[:, block]), rtol=0, atol=0)


def without_empty_columns(rows: Tensor) -> Tensor:
    """The rows of some items in P, the columns that other items take left out."""
    return torch.stack([r[:, r.sum(0) > 0] for r in rows])


def test_a_soft_matrix_cannot_be_split() -> None:
    P = ts.permutation(torch.randn(7), ts.Network(steepness=1.0, error_free=False))
    assert (P[:4].sum(0) - 1).abs().min() > 1e-3


@pytest.mark.parametrize("layout", ["odd_even", "bitonic"])
def test_without_a_model_error_free_networks_are_always_right_and_soft_ones_fail_with_length(layout: str) -> None:
    soft = {swap: [] for swap in CURVES}
    for n in LENGTHS:
        x = torch.rand(10_000, n) * 20 - 10
        error_free = ts.Network(layout)
        assert exact_match(ts.rank(x, error_free), x).all()
        few = x[:500]
        assert permutation_exact_match(ts.permutation(few, error_free), few).all()
        for swap, right in soft.items():
            P = ts.permutation(few, ts.Network(layout, swap, steepness=1.0, error_free=False))
            right.append(permutation_exact_match(P, few).mean().item())
    for right in soft.values():
        assert right[0] > 0.9
        assert right[-1] < 0.05
        assert right == sorted(right, reverse=True)
