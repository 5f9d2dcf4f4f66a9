"""Triton kernels for projections onto a permutahedron: one program a row, whatever its length.

Pooling adjacent violators is a chain of decisions, so a program takes it step by step with the two upper blocks of its
stack in registers; laying out, looking up the block of a position and the gradient are done by all its threads. Sums
are in float64, so that a block of thousands keeps the digits of float32.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from ._launch import Kernel, halves, on


@triton.jit
def _both(a, b):
    """log(eᵃ + eᵇ)."""
    return tl.maximum(a, b) + tl.log(1.0 + tl.exp(-tl.abs(a - b)))


@triton.jit
def _start_and_target(keys, order, w, there, middle, strength, KL: tl.constexpr, RANKS: tl.constexpr):
    """What an ascending fit is to take from what, at sorted positions w."""
    key = tl.load(keys + tl.load(order + w, there, 0), there, 0.0).to(tl.float64)
    place = tl.zeros_like(key) + w
    if RANKS:
        start = (key - middle) / strength
        target = tl.log(1.0 + place) if KL else place
    else:
        start, target = place / strength, key
    return start, target


@triton.jit
def _pool(keys, order, size, upper, lower, begin, middle, strength, KL: tl.constexpr, RANKS: tl.constexpr):
    """How many blocks the ascending fit has; block b begins at begin[b], upper and lower sum up start and target."""
    top, first, before_first = 0, 0, 0
    u, v = tl.full((), 0.0, tl.float64), tl.full((), 0.0, tl.float64)
    before_u, before_v = u, v
    for w in range(size):
        if w > 0:
            tl.store(upper + top, u)
            tl.store(lower + top, v)
            tl.store(begin + top, first)
            before_u, before_v, before_first = u, v, first
            top += 1
        first = w
        u, v = _start_and_target(keys, order, w, w >= 0, middle, strength, KL, RANKS)
        wrong = top > 0
        while wrong:
            here, before = u - v, before_u - before_v
            if not KL:
                here, before = here * (first - before_first), before * (w + 1 - first)
            wrong = here < before
            if wrong:
                top -= 1
                first = before_first
                u = _both(before_u, u) if KL else before_u + u
                v = _both(before_v, v) if KL else before_v + v
                wrong = top > 0
                tl.debug_barrier()
                before_u, before_v = tl.load(upper + top - 1, wrong, 0.0), tl.load(lower + top - 1, wrong, 0.0)
                before_first = tl.load(begin + top - 1, wrong, 0)
    tl.store(upper + top, u)
    tl.store(lower + top, v)
    tl.store(begin + top, first)
    tl.store(begin + top + 1, size)
    tl.debug_barrier()
    return top + 1


@Kernel
def _project(
    keys, order, count, out, firsts, lasts, sums, begins, n, halvings, strong, rest,
    KL: tl.constexpr, RANKS: tl.constexpr, COUNTED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Soft ranks or values; the block of position w is [firsts[w], lasts[w]), empty for padding, −1 in a bad row."""
    row = tl.program_id(0).to(tl.int64)
    keys, order, out, firsts, lasts = keys + row * n, order + row * n, out + row * n, firsts + row * n, lasts + row * n
    upper, lower, begin = sums + row * 2 * n, sums + (row * 2 + 1) * n, begins + row * (n + 1)
    strength = tl.full((), strong, tl.float64) + tl.full((), rest, tl.float64)
    size = tl.full((), n, tl.int32)
    if COUNTED:
        size = tl.load(count + row).to(tl.int32)
    last = tl.load(order + n - 1)
    largest = tl.load(keys + last)
    bad = (largest != largest) & (last < size)  # nan sorts last
    middle = tl.full((), 0.0, tl.float64)
    if RANKS & (size > 0):
        middle = 0.5 * tl.load(keys + tl.load(order)).to(tl.float64)
        middle += 0.5 * tl.load(keys + tl.load(order + size - 1)).to(tl.float64)
    pools = _pool(keys, order, tl.where(bad, 0, size), upper, lower, begin, middle, strength, KL, RANKS)
    for at in range(0, n, TILE):
        w = at + tl.arange(0, TILE)
        real = w < size
        low, high = tl.zeros((TILE,), tl.int32), tl.zeros((TILE,), tl.int32) + pools - 1
        for _ in range(halvings):
            half = (low + high + 1) // 2
            further = tl.load(begin + half) <= w
            low, high = tl.where(further, half, low), tl.where(further, high, half - 1)
        first, end = tl.load(begin + low), tl.load(begin + low + 1)
        start, _target = _start_and_target(keys, order, w, real, middle, strength, KL, RANKS)
        fit = tl.load(upper + low) - tl.load(lower + low)
        if KL:
            value = start - fit
        else:
            value = start - fit / tl.maximum(end - first, 1)
        if RANKS:
            value = tl.exp(value) - 1.0 if KL else value
            padding, to = w.to(tl.float64), tl.load(order + w, w < n, 0)
        else:
            padding, to = tl.load(keys + w, w < n, 0.0).to(tl.float64), w.to(tl.int64)
        value = tl.where(bad, float("nan"), tl.where(real, value, padding))
        tl.store(out + tl.where(real, to, w), value.to(out.dtype.element_ty), w < n)
        tl.store(firsts + w, tl.where(bad, -1, tl.where(real, first, 0)), w < n)
        tl.store(lasts + w, tl.where(real, end, 0), w < n)


@Kernel
def _project_back(
    keys, order, firsts, lasts, result, grad, gkeys, totals, n, strong, rest,
    KL: tl.constexpr, RANKS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The gradient of the keys: within a block that of a mean or, KL, of a softmax, from running totals of the row."""
    row = tl.program_id(0).to(tl.int64)
    keys, order, firsts, lasts = keys + row * n, order + row * n, firsts + row * n, lasts + row * n
    result, grad, gkeys = result + row * n, grad + row * n, gkeys + row * n
    weighed, weight = totals + row * 2 * (n + 1), totals + (row * 2 + 1) * (n + 1)
    scale = 1.0 / (tl.full((), strong, tl.float64) + tl.full((), rest, tl.float64))
    so_far, weight_so_far = tl.full((), 0.0, tl.float64), tl.full((), 0.0, tl.float64)
    tl.store(weighed, so_far)
    tl.store(weight, so_far)
    for at in range(0, n, TILE):
        w = at + tl.arange(0, TILE)
        share, given, _first, _last, _to = _shares(keys, order, firsts, lasts, grad, w, n, scale, KL, RANKS)
        known = tl.cumsum(share * given if RANKS else given, 0) + so_far
        shares = tl.cumsum(share, 0) + weight_so_far
        tl.store(weighed + w + 1, known, w < n)
        tl.store(weight + w + 1, shares, w < n)
        so_far, weight_so_far = so_far + tl.sum(share * given if RANKS else given), weight_so_far + tl.sum(share)
    tl.debug_barrier()
    for at in range(0, n, TILE):
        w = at + tl.arange(0, TILE)
        share, given, first, last, to = _shares(keys, order, firsts, lasts, grad, w, n, scale, KL, RANKS)
        real = (w < n) & (last > first) & (first >= 0)
        mean = tl.load(weighed + last, real, 0.0) - tl.load(weighed + first, real, 0.0)
        mean /= tl.where(real, tl.load(weight + last, real, 1.0) - tl.load(weight + first, real, 0.0), 1.0)
        if RANKS:
            gain = (tl.load(result + to, real, 0.0).to(tl.float64) + 1.0) * scale if KL else scale
            turn = tl.where(real, gain * (given - mean), 0.0)
        else:
            padding = tl.where(first < 0, 0.0, tl.load(grad + w, w < n, 0.0).to(tl.float64))
            turn = tl.where(real, share * mean, padding)
        tl.store(gkeys + tl.where(real, to, w), turn.to(gkeys.dtype.element_ty), w < n)


@triton.jit
def _shares(keys, order, firsts, lasts, grad, w, n, scale, KL: tl.constexpr, RANKS: tl.constexpr):
    """Of positions w: the share of the item in its block, up to a factor; the gradient; block and item."""
    first, last = tl.load(firsts + w, w < n, 0), tl.load(lasts + w, w < n, 0)
    real = (w < n) & (last > first) & (first >= 0)
    to = tl.load(order + w, real, 0)
    given = tl.load(grad + (to if RANKS else w), real, 0.0).to(tl.float64)
    share = tl.where(real, 1.0, 0.0).to(tl.float64)
    if KL:
        largest = tl.load(keys + tl.load(order + last - 1, real, 0), real, 0.0).to(tl.float64)
        ahead = tl.load(keys + to, real, 0.0).to(tl.float64) - largest
        share = tl.where(real, tl.exp(ahead * scale if RANKS else ahead), 0.0)
    return share, given, first, last, to


def project(keys: Tensor, count: Tensor | None, strength: float, kl: bool, ranks: bool) -> tuple[Tensor, ...]:
    """The permutahedron's soft ranks or values, (rows, n); and order and blocks, for `project_backward`."""
    rows, n = keys.shape
    keys = keys.contiguous()
    out = torch.empty_like(keys)
    if not keys.numel():
        return out, *keys.new_empty(3, rows, n, dtype=torch.int32)
    with on(keys):
        real = None if count is None else torch.arange(n, device=keys.device) < count[:, None]
        order = (keys if real is None else keys.masked_fill(~real, torch.inf)).argsort(dim=1, stable=True)
        first, last = keys.new_empty(2, rows, n, dtype=torch.int32)
        sums = keys.new_empty(rows, 2, n, dtype=torch.float64)
        begins = keys.new_empty(rows, n + 1, dtype=torch.int32)
        _project[(rows,)](
            keys, order, count, out, first, last, sums, begins, n, n.bit_length(), *halves(strength),
            KL=kl, RANKS=ranks, COUNTED=count is not None, TILE=_positions_at_once(n), num_warps=1,
        )  # fmt: skip
    return out, order, first, last


def project_backward(
    keys: Tensor, count: Tensor | None, strength: float, kl: bool, ranks: bool,
    order: Tensor, first: Tensor, last: Tensor, result: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of the keys, given what `project` answered."""
    rows, n = keys.shape
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    if not keys.numel():
        return out
    with on(keys):
        totals = keys.new_empty(rows, 2, n + 1, dtype=torch.float64)
        _project_back[(rows,)](
            keys.contiguous(), order, first, last, result, grad.contiguous(), out, totals, n, *halves(strength),
            KL=kl, RANKS=ranks, TILE=_positions_at_once(n), num_warps=1 if n <= 256 else 4,
        )  # fmt: skip
    return out


def _positions_at_once(n: int) -> int:
    return min(1024, max(32, 1 << (n - 1).bit_length()))
