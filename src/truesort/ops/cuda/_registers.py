"""The host side of the register kernels for odd-even networks: which inputs they serve, and how they are launched."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
import triton
from torch import Tensor

from . import _odd_even_hard as hard
from . import _odd_even_soft as soft
from ._launch import up

if TYPE_CHECKING:
    from ..network import Network

WIRES = 128
"""The most wires a warp holds, four a lane."""
COLUMNS_A_LANE = 8
PAIRS = 2
"""Layers between two checkpoints, in pairs of layers, where one kernel does everything."""
KEPT = 16
"""float32 differences of a stretch that a lane keeps, by four, where the gradient of P has a kernel of its own."""
KEPT_COLUMNS = 4
PROGRAMS_A_PROCESSOR = 16
"""As many warps as there is room for with the 128 registers of a lane that this takes: one more would run alone."""
FEW = 1056
"""Up to so many programs the kernels that do everything at once are faster: launches are what takes time."""
HARD_WIRES = 1024
"""The most wires of the counting kernel for hard permutations."""


def serves(keys: Tensor, net: "Network") -> bool:
    """Whether the register kernels run this network."""
    return net.layout == "odd_even" and 2 <= keys.shape[1] <= WIRES


@lru_cache(maxsize=256)
def _shape(n: int, most: int = COLUMNS_A_LANE) -> tuple[int, int, int, int]:
    """(lanes along the wires, columns a lane carries, at `most`, blocks of a row, elements of a row's notes)."""
    lanes = max(2, triton.next_power_of_2(up(n, 4)))
    groups = 32 // lanes
    columns = min(triton.next_power_of_2(up(n, groups)), most)
    return lanes, columns, up(n, columns * groups), up(n, 2) * 4 * lanes


@lru_cache(maxsize=8)
def processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


@lru_cache(maxsize=64)
def _settings(net: "Network", counted: bool, lanes: int) -> tuple[tuple[float, float], dict[str, Any]]:
    steep = torch.tensor(net.steepness, dtype=torch.float32).item()
    curve = (steep, net.steepness - steep)
    return curve, {"SWAP": net.swap, "ART": net.art, "COUNTED": counted, "K": lanes, "num_warps": 1}


def permutation(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` columns of the soft P."""
    rows, n = keys.shape
    lanes, columns, blocks, size = _shape(n)
    curve, flags = _settings(net, count is not None, lanes)
    out, folds = keys.new_empty(rows, n, outputs), None
    fused = rows * blocks <= FEW
    if not fused:
        folds = keys.new_empty(rows, size)
        _trace_soft(keys, count, net, folds, None, None)
    soft.permutation_soft[(rows * blocks,)](
        keys, folds, out, count, n, outputs, blocks, *keys.stride(), *curve, **flags, D=columns, FUSED=fused
    )
    return out


def _trace_soft(
    keys: Tensor, count: Tensor | None, net: "Network", folds: Tensor | None, gaps: Tensor | None, values: Tensor | None
) -> None:
    rows, n = keys.shape
    lanes = _shape(n)[0]
    curve, flags = _settings(net, count is not None, lanes)
    soft.trace_soft[(up(rows, 32 // lanes),)](
        keys, folds, gaps, values, count, n, rows, 0 if values is None else values.shape[1], *keys.stride(), *curve,
        **flags,
    )  # fmt: skip


def _trace_hard(
    keys: Tensor, count: Tensor | None, net: "Network"
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """(folded weights, gaps, lower items, higher items) of all comparators, and where the items end."""
    rows, n = keys.shape
    lanes, _, _, size = _shape(n)
    curve, flags = _settings(net, count is not None, lanes)
    folds, gaps = keys.new_empty(2, rows, size)
    lows, highs, places = _met(keys, size, net)
    hard.trace_hard[(up(rows, 32 // lanes),)](
        keys, folds, gaps, lows, highs, places, count, n, rows, *keys.stride(), *curve,
        **flags, MATRIX=net.backward == "matrix",
    )  # fmt: skip
    return folds, gaps, lows, highs, places


def _met(keys: Tensor, size: int, net: "Network") -> tuple[Tensor, Tensor, Tensor | None]:
    """Room for the items that meet in comparators and, if the gradient asks for them, for where all items end."""
    lows, highs = torch.empty(2, len(keys), size, dtype=torch.int8, device=keys.device)
    places = torch.empty(keys.shape, dtype=torch.int32, device=keys.device) if net.backward == "matrix" else None
    return lows, highs, places


def _keys_back(
    keys: Tensor, count: Tensor | None, net: "Network", folds: Tensor, gaps: Tensor, shares: Tensor | None,
    grad: Tensor | None = None,
) -> Tensor:  # fmt: skip
    rows, n = keys.shape
    lanes = _shape(n)[0]
    curve, flags = _settings(net, count is not None, lanes)
    gkeys = keys.new_empty(rows, n)
    strides = (0, 0, 0) if grad is None else (grad.shape[1], *grad.stride())
    soft.keys_back[(up(rows, 32 // lanes),)](
        keys,
        grad,
        folds,
        gaps,
        shares,
        gkeys,
        count,
        n,
        rows,
        strides[0],
        *keys.stride(),
        *strides[1:],
        *curve,
        **flags,
    )
    return gkeys


def permutation_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys from that of P."""
    if net.error_free:
        return _permutation_hard_backward(keys, count, grad, net)
    rows, n = keys.shape
    _, columns, blocks, size = _shape(n)
    if blocks == 1 and rows <= FEW:
        gkeys = keys.new_empty(rows, n)
        _back_soft(keys, count, grad, net, None, gkeys, None, (rows, 1, columns, PAIRS))
        return gkeys
    _, columns, blocks, _ = _shape(n, KEPT_COLUMNS)
    most = PROGRAMS_A_PROCESSOR * processors(keys.device)
    parts = _parts(rows, blocks, most)
    pairs = min(KEPT * 4 // keys.element_size() // columns, triton.next_power_of_2(up(n, 2)))
    folds, gaps, shares = keys.new_empty(rows, size), keys.new_empty(rows, size), keys.new_empty(rows, parts, size)
    _trace_soft(keys, count, net, folds, gaps, None)
    _back_soft(keys, count, grad, net, folds, None, shares, (min(rows * parts, most), parts, columns, pairs))
    return _keys_back(keys, count, net, folds, gaps, shares.sum(1) if parts > 1 else shares)


@lru_cache(maxsize=256)
def _parts(rows: int, blocks: int, programs: int) -> int:
    """Among how many tasks to share the blocks of a row, so that all are done soonest; each costs a row of shares."""
    most = max(1, min(blocks, 8 * programs // rows))
    return min(range(1, most + 1), key=lambda parts: up(rows * parts, programs) * up(blocks, parts))


def _back_soft(
    keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network", folds: Tensor | None, gkeys: Tensor | None,
    shares: Tensor | None, plan: tuple[int, int, int, int],
) -> None:  # fmt: skip
    """`plan` says how many programs, parts of a row, columns a lane, and pairs of layers between checkpoints."""
    programs, parts, columns, pairs = plan
    rows, n = keys.shape
    lanes = _shape(n)[0]
    curve, flags = _settings(net, count is not None, lanes)
    stretches = up(up(n, 2), pairs)
    room = (stretches - 1) * 128 * columns + (stretches * pairs * 8 * lanes if folds is None else 0)
    soft.permutation_soft_back[(programs,)](
        keys, grad, folds, gkeys, shares, keys.new_empty(programs * room), count, n, grad.shape[2], rows,
        up(n, columns * (32 // lanes)), parts, room, *keys.stride(), *grad.stride(), *curve,
        **flags, D=columns, PAIRS=pairs, WHOLE=up(n, 2) % pairs == 0, FUSED=folds is None,
    )  # fmt: skip


def _permutation_hard_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    rows, n = keys.shape
    lanes, columns, blocks, size = _shape(n)
    matrix = net.backward == "matrix"
    if blocks == 1 and rows <= FEW:
        return _hard_backward_at_once(keys, count, grad, net)
    folds, gaps, lows, highs, places = _trace_hard(keys, count, net)
    sizes = (n, grad.shape[2])
    if matrix:
        shares = torch.empty_like(gaps)
        hard.matrix_shares[(up(gaps.numel(), 512),)](
            grad, folds, lows, highs, places, shares, gaps.numel(), size, *sizes, *grad.stride(), TILE=512
        )
    else:
        shares = keys.new_empty(rows, blocks, size)
        hard.permutation_hard_back[(rows * blocks,)](
            grad, folds, lows, highs, shares, *sizes, blocks, *grad.stride(), K=lanes, D=columns, num_warps=1
        )
        shares = shares.sum(1) if blocks > 1 else shares
    return _keys_back(keys, count, net, folds, gaps, shares)


def _hard_backward_at_once(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    rows, n = keys.shape
    lanes, columns, _, size = _shape(n)
    curve, flags = _settings(net, count is not None, lanes)
    gkeys, (folds, gaps, shares) = keys.new_empty(rows, n), keys.new_empty(3, rows, size)
    lows, highs, places = _met(keys, size, net)
    hard.permutation_hard_back_at_once[(rows,)](
        keys, grad, folds, gaps, lows, highs, places, shares, gkeys, count, n, grad.shape[2], size,
        *keys.stride(), *grad.stride(), *curve, **flags, MATRIX=net.backward == "matrix", D=columns, TILE=128,
    )  # fmt: skip
    return gkeys


def permutation_hard(keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
    """The first `outputs` columns of the hard P, whatever the network."""
    rows, n = keys.shape
    wide = triton.next_power_of_2(n)
    items = min(wide, max(1, 2048 // wide))
    blocks, out = up(n, items), keys.new_empty(rows, n, outputs)
    hard.permutation_hard[(rows * blocks,)](
        keys, out, count, n, outputs, blocks, *keys.stride(), count is not None, wide, items,
        num_warps=max(1, min(4, wide * items // 512)),
    )  # fmt: skip
    return out


def sort(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` values of the soft network."""
    values = keys.new_empty(len(keys), outputs)
    _trace_soft(keys, count, net, None, None, values)
    return values


def sort_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys from that of the sorted values."""
    if net.error_free:
        folds, gaps, *_ = _trace_hard(keys, count, net)
    else:
        size = _shape(keys.shape[1])[3]
        folds, gaps = keys.new_empty(len(keys), size), keys.new_empty(len(keys), size)
        _trace_soft(keys, count, net, folds, gaps, None)
    return _keys_back(keys, count, net, folds, gaps, None, grad)
