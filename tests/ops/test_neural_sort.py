"""NeuralSort against the equation of its paper, written out entry by entry."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from truesort.ops import NeuralSort


def paper(keys: np.ndarray, temperature: float) -> np.ndarray:
    """Row i, from 1, is softmax(((n + 1 − 2i) s − A 1) / τ): descending, and rows are positions."""
    n = len(keys)
    spread = [sum(abs(a - b) for b in keys) for a in keys]
    return np.stack([softmax(((n + 1 - 2 * i) * keys - spread) / temperature) for i in range(1, n + 1)])


@pytest.mark.parametrize("n", [1, 2, 3, 8])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 7.0])
def test_the_paper_mirrored_and_transposed(n: int, temperature: float) -> None:
    keys = torch.randn(3, n, dtype=torch.float64)
    found = NeuralSort(temperature).permutation(keys, None, n)
    for row, weights in zip(keys.numpy(), found, strict=True):
        expected = paper(row, temperature)[::-1].T
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-10, atol=1e-14)


def test_far_from_zero_in_single_precision() -> None:
    keys = torch.tensor([[3.0, 1.0, 2.0, 2.5]])
    far = keys + 4096
    assert torch.equal(NeuralSort(0.3).permutation(far, None, 4), NeuralSort(0.3).permutation(keys, None, 4))
