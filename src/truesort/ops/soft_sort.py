"""SoftSort (Prillo and Eisenschlos, ICML 2020): each position asks which items lie near the value sorted there.

One hard sort and one softmax over distances: the simplest P there is. Every output position is a convex combination of
items (the columns of our P sum to 1; in the paper, whose matrix is the transpose of ours, these are the rows), but an
item need not be handed out exactly once: rows of P sum to 1 only in the hard limit.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ._method import Method, block_logits, centred, real_items, require_positive, without_padding


@dataclass(frozen=True)
class SoftSort(Method):
    """SoftSort by |sorted_j − key_i|**power / temperature; towards temperature 0 the order becomes hard."""

    temperature: float = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        require_positive("SoftSort", "temperature", self.temperature)
        require_positive("SoftSort", "power", self.power)

    def permutation(self, keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
        """The first `outputs` columns of P, (rows, n, outputs); each column sums to 1."""
        real = real_items(keys, count)
        keys = centred(keys, real)
        order = without_padding(keys.detach(), real, torch.inf).argsort(dim=-1, stable=True)
        ordered = keys.gather(-1, order[:, :outputs])
        distance = _power(keys.unsqueeze(-1) - ordered.unsqueeze(-2), self.power)
        return torch.softmax(block_logits(-distance / self.temperature, real), dim=-2)


def _power(gap: Tensor, power: float) -> Tensor:
    """|gap|**power, flat at 0: there powers below 2 have no second and those below 1 no first derivative to give."""
    tie = gap == 0
    return gap.masked_fill(tie, 1).abs().pow(power).masked_fill(tie, 0)
