"""The host side of the register kernels of cuda_odd_even.py: which inputs they serve, and how they are launched."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
import triton
from torch import Tensor

from . import cuda_odd_even as kernels

if TYPE_CHECKING:
    from .network import Network

WIRES = 128
"""The most wires a warp holds, four a lane."""
COLUMNS_A_LANE = 4
PAIRS = 4
"""Layers between two checkpoints, in pairs of layers."""
PROGRAMS_A_PROCESSOR = 16


def serves(keys: Tensor, net: "Network") -> bool:
    """Whether the register kernels compute this permutation."""
    return net.layout == "odd_even" and not net.error_free and 2 <= keys.shape[1] <= WIRES


@lru_cache(maxsize=256)
def _shape(n: int) -> tuple[int, int, int]:
    """(lanes along the wires, columns a lane carries, programs a row)."""
    lanes = max(2, triton.next_power_of_2(triton.cdiv(n, 4)))
    groups = 32 // lanes
    columns = min(triton.next_power_of_2(triton.cdiv(n, groups)), COLUMNS_A_LANE)
    return lanes, columns, triton.cdiv(n, columns * groups)


@lru_cache(maxsize=8)
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@lru_cache(maxsize=64)
def _settings(net: "Network", counted: bool, lanes: int) -> tuple[tuple[float, float], dict[str, Any]]:
    steep = torch.tensor(net.steepness, dtype=torch.float32).item()
    return (steep, net.steepness - steep), {"SWAP": net.swap, "ART": net.art, "COUNTED": counted, "K": lanes}


def permutation(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` columns of P."""
    rows, n = keys.shape
    lanes, columns, blocks = _shape(n)
    curve, flags = _settings(net, count is not None, lanes)
    out = keys.new_empty(rows, n, outputs)
    kernels.permutation_soft[(rows * blocks,)](
        keys, out, count, n, outputs, blocks, *keys.stride(), *curve, **flags, D=columns, num_warps=1
    )
    return out


def permutation_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys from that of P."""
    rows, n = keys.shape
    lanes, columns, blocks = _shape(n)
    curve, flags = _settings(net, count is not None, lanes)
    pairs = triton.cdiv(n, 2)
    stretches = triton.cdiv(pairs, PAIRS)
    room = stretches * (PAIRS * 12 * lanes + 4 * columns * 32)
    programs = min(rows * blocks, PROGRAMS_A_PROCESSOR * _processors(keys.device))
    gkeys, scratch = keys.new_empty(rows, n), keys.new_empty(programs * room)
    shares = gaps = None
    if blocks > 1:
        shares = keys.new_empty(rows, blocks, pairs, 4, lanes)
        gaps = keys.new_empty(rows, pairs, 4, lanes)
    kernels.permutation_soft_back[(programs,)](
        keys, grad, gkeys, shares, gaps, scratch, count, n, grad.shape[2], rows, blocks, room, *keys.stride(),
        *grad.stride(), *curve, **flags, D=columns, PAIRS=PAIRS, WHOLE=blocks == 1, num_warps=1,
    )  # fmt: skip
    if blocks > 1:
        kernels.keys_back[(rows,)](
            keys, gkeys, shares, gaps, count, n, blocks, *keys.stride(), *curve, **flags, num_warps=1
        )
    return gkeys
