"""Convolution, pooling and ReLU of image scorers: torch's own operators, or fused ones where a GPU gains by them.

In bfloat16 on a GPU these layers are bound by memory: torch writes the whole convolution, reads it to pool, writes
64-bit indices, and reads and writes everything again on the way back. The fused operators keep a byte for each pooled
position and touch the large tensor once each way; with few input channels it never exists at all.
"""

from functools import cache
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW_CHANNELS = 3
"""Up to here a convolution is so little arithmetic that computing it again is cheaper than storing it."""


def convolve_pool(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """ReLU of the 2×2 max-pooled convolution of (N, C, H, W); pooling first is the same at a quarter of the work."""
    if not _fusable(x, layer):
        return F.relu(F.max_pool2d(layer(x), 2))
    assert layer.bias is not None
    if x.shape[1] <= FEW_CHANNELS and not x.requires_grad and not x.shape[2] % 2 and not x.shape[3] % 2:
        return _first(torch.ops.truesort.convolve_pool(x.contiguous(), layer.weight, layer.bias))
    whole = F.conv2d(x, layer.weight, None, padding=layer.padding)
    whole = whole.contiguous(memory_format=torch.channels_last)
    return _first(torch.ops.truesort.bias_pool(whole, layer.bias))


def _first(both: tuple[Tensor, Tensor]) -> Tensor:
    return both[0]


def _fusable(x: Tensor, layer: nn.Conv2d) -> bool:
    """Whether the fused operators are there and mean the same as the layer."""
    half = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
    kernel, padding = layer.kernel_size[0], layer.padding[0]
    plain = layer.stride == (1, 1) and padding == kernel // 2 and layer.bias is not None
    return x.is_cuda and half and plain and not layer.out_channels & (layer.out_channels - 1) and _ready()


@cache
def _ready() -> bool:
    if find_spec("triton") is None:
        return False
    from .cuda import _images  # noqa: F401 - defines the operators

    return True
