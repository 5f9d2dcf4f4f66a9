"""NeuralSort (Grover et al., ICLR 2019): the k-th smallest item is the argmax of a score that is linear in the keys.

A softmax in the place of that argmax gives P in one step, without any order being decided on the way. Every output
position is a convex combination of items (the columns of our P sum to 1; in the paper, whose matrix is the transpose of
ours, these are the rows), but an item need not be handed out exactly once: rows of P sum to 1 only in the hard limit.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ._method import Method, block_logits, centred, real_items, require_positive


@dataclass(frozen=True)
class NeuralSort(Method):
    """NeuralSort; `temperature` is in the unit of the keys, and towards 0 the order becomes hard."""

    temperature: float = 1.0

    def __post_init__(self) -> None:
        require_positive("NeuralSort", "temperature", self.temperature)

    def permutation(self, keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
        """The first `outputs` columns of P, (rows, n, outputs); each column sums to 1."""
        real = real_items(keys, count)
        scores = _scores(centred(keys, real), real, outputs)
        return torch.softmax(block_logits(scores / self.temperature, real), dim=-2)


def _scores(keys: Tensor, real: Tensor | None, outputs: int) -> Tensor:
    """(2j + 1 − n) key_i − Σ_k |key_i − key_k|, which for each position j is largest at the item of rank j."""
    apart = (keys.unsqueeze(-1) - keys.unsqueeze(-2)).abs()
    if real is None:
        length = torch.full_like(keys[:, :1], keys.shape[-1])
    else:
        apart = apart * real.unsqueeze(-2)
        length = real.sum(-1, keepdim=True).to(keys.dtype)
    tilt = 2 * torch.arange(outputs, dtype=keys.dtype, device=keys.device) + 1 - length
    return keys.unsqueeze(-1) * tilt.unsqueeze(-2) - apart.sum(-1, keepdim=True)
