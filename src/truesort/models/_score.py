"""The last layer of a scorer, always in float32.

A soft sort turns differences of scores into probabilities; in bfloat16, with its two to three decimal digits, many
scores of one sequence would be equal.
"""

import torch
from torch import Tensor, nn


class Score(nn.Linear):
    """From features to one number, outside autocast."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) to (...)."""
        if not torch.amp.is_autocast_available(x.device.type):
            return super().forward(x).squeeze(-1)
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.to(self.weight.dtype)).squeeze(-1)
