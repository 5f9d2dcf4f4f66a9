"""The layers of a small encoder, all at once, where a GPU gains by it.

With vectors of 16 numbers a layer is nothing but launches: torch takes some seventy for one layer forward and backward.
The fused operator takes four and never writes the hidden activations, which are all the memory there is to save.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from ._backend import transformed

WIDTHS = (16, 32, 64)
WIDEST_HEAD = 16
EPS = 1e-5
"""What torch's layer normalisation adds to a variance."""
LONGEST = 64
"""The longest sequence whose attention is one tile."""
MOST = 1 << 31
"""Numbers are counted in 32 bits."""


def encode(x: Tensor, mask: Tensor | None, parameters: Sequence[Tensor], heads: int, dropout: float) -> Tensor | None:
    """What layers with these parameters, twelve each, make of (B, n, width); None where torch's own have to do it.

    Attention sees the items at which `mask` (B, n) is True, and itself. Which numbers dropout takes is drawn anew at
    every call from torch's generator of the device, also in each replay of a captured graph.
    """
    if not _serves(x, parameters, heads):
        return None
    shape = (len(parameters) // 12, 4)
    if dropout:
        seeds = torch.randint(torch.iinfo(torch.int64).max, shape, device=x.device)
    else:
        seeds = torch.empty(shape, dtype=torch.int64, device=x.device)
    seen = None if mask is None else mask.contiguous().view(torch.uint8)
    out: Tensor = torch.ops.truesort.encode(x.contiguous(), seen, seeds, parameters, heads, dropout, EPS)[0]
    return out


def _serves(x: Tensor, parameters: Sequence[Tensor], heads: int) -> bool:
    """Whether the fused operator is there and its kernels are made for these sizes."""
    if not x.is_cuda or transformed() or not x.numel() or x.shape[1] > LONGEST or x.shape[2] not in WIDTHS:
        return False
    hidden = parameters[6].shape[0]
    plain = all(p.dtype == torch.float32 and p.is_contiguous() and p.device == x.device for p in (*parameters, x[:0]))
    fits = hidden >= 128 and not hidden & (hidden - 1) and x.numel() * max(heads, hidden // 64) < MOST
    return plain and fits and x.shape[2] // heads <= WIDEST_HEAD and _ready(x.device)


@cache
def _ready(device: torch.device) -> bool:
    if find_spec("triton") is None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    from .cuda import _encoder  # noqa: F401 - defines the operators

    return True
