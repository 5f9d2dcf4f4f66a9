"""SoftSort against the equation of its paper, written out entry by entry."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from truesort.ops import SoftSort


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 3.0])
def test_the_paper_transposed(n: int, temperature: float, power: float) -> None:
    keys = torch.randn(3, n, dtype=torch.float64)
    found = SoftSort(temperature, power).permutation(keys, None, n)
    for row, weights in zip(keys.numpy(), found, strict=True):
        expected = np.stack([softmax(-(abs(value - row) ** power) / temperature) for value in np.sort(row)]).T
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-10, atol=1e-14)


def test_the_largest_weight_of_every_position_is_the_item_sorted_there() -> None:
    keys = torch.randn(20, 30)
    weights = SoftSort(5.0).permutation(keys, None, 30)
    assert torch.equal(weights.argmax(-2), keys.argsort(-1))
