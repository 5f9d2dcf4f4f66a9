"""The convolutions in front of every image scorer.

Pixels are kept channels-last to the end, because that is the layout in which GPUs convolve fastest and in which the
flattening before the first fully-connected layer is a view. Pooling comes before ReLU: the result and its gradient
are the same in either order, at a quarter of the work.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truesort.ops.images import convolve_pool

MOST_LAYERS = 100
"""Of any kind in one scorer; a file from a stranger may ask for more than there is memory to describe them."""


@dataclass(frozen=True)
class Convolutions:
    """Convolutions with ReLU, one for each of `channels`, each followed by 2×2 max-pooling if `pool`."""

    channels: tuple[int, ...]
    kernel: int = 5
    stride: int = 1
    pool: bool = True

    def __post_init__(self) -> None:
        if not 1 <= len(self.channels) <= MOST_LAYERS or min(self.channels) < 1:
            raise ValueError(f"channels must be 1 to {MOST_LAYERS} positive numbers, got {self.channels}")
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd and positive, got {self.kernel}")
        if self.stride < 1:
            raise ValueError(f"stride must be at least 1, got {self.stride}")

    def outputs(self, item_shape: tuple[int, int, int]) -> int:
        """How many numbers come out for one item of shape (C, H, W)."""
        if len(item_shape) != 3 or min(item_shape) < 1:
            raise ValueError(f"item_shape must be (channels, height, width), got {item_shape}")
        _, height, width = item_shape
        for _ in self.channels:
            height, width = self._side(height), self._side(width)
        if height < 1 or width < 1:
            raise ValueError(f"item_shape {item_shape} is too small for {len(self.channels)} shrinking convolutions")
        return self.channels[-1] * height * width

    def _side(self, side: int) -> int:
        side = (side + self.stride - 1) // self.stride
        return side // 2 if self.pool else side


class ImageFeatures(nn.Module):
    """Items (B, n, C, H, W) as flat features (B, n, `outputs`)."""

    def __init__(self, config: Convolutions, item_shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.pool = config.pool
        sizes = zip((item_shape[0], *config.channels[:-1]), config.channels, strict=True)
        self.convolutions = nn.ModuleList(_convolution(config, before, after) for before, after in sizes)

    def forward(self, items: Tensor) -> Tensor:
        """Every item on its own."""
        x = items.flatten(0, 1)
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv2d)
            x = convolve_pool(x, convolution) if self.pool else F.relu(convolution(x))
        return x.permute(0, 2, 3, 1).reshape(*items.shape[:2], -1)


def _convolution(config: Convolutions, before: int, after: int) -> nn.Conv2d:
    convolution = nn.Conv2d(before, after, config.kernel, config.stride, config.kernel // 2)
    convolution.weight.data = convolution.weight.data.contiguous(memory_format=torch.channels_last)
    return convolution
