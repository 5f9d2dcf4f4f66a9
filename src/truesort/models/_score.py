"""The last layer of a scorer, always in float32.

A soft sort turns differences of scores into probabilities; in bfloat16, with its two to three decimal digits, many
scores of one sequence would be equal.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Where autocast is off for the device of `x`, if that has an autocast."""
    if not torch.amp.is_autocast_available(x.device.type):
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


class Score(nn.Linear):
    """From features to one number, outside autocast."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) to (...)."""
        with full_precision(x):
            return super().forward(x.to(self.weight.dtype)).squeeze(-1)
