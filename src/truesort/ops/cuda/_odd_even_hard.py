"""Triton kernels for odd-even networks whose forward pass is hard, on the registers of _odd_even.py.

Hard results come from counting how many keys are smaller, without a network; the network runs in the backward pass
alone, where two known items meet at each comparator and no payload has to travel.
"""

import triton
import triton.language as tl

from ._curves import folded, gap_of, unfolded
from ._launch import Kernel
from ._odd_even import (
    _carry_keys_back,
    _down,
    _item_and_wire,
    _lane,
    _live,
    _load_keys,
    _moving,
    _parted,
    _read_quads,
    _store_quads,
    _sum,
    _up,
)


@Kernel
def permutation_hard(
    keys, out, count, n, outputs, blocks, stride_row, stride_wire,
    COUNTED: tl.constexpr, WIDE: tl.constexpr, ITEMS: tl.constexpr,
):  # fmt: skip
    """The hard P of ITEMS items of a row: 1 at the number of keys that come before."""
    row, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    other, item = tl.arange(0, WIDE)[None, :], block * ITEMS + tl.arange(0, ITEMS)[:, None]
    real = n
    if COUNTED:
        real = tl.load(count + row).to(tl.int32)
    keys += row * stride_row
    theirs, own = (
        tl.load(keys + other * stride_wire, other < real, 0.0),
        tl.load(keys + item * stride_wire, item < real, 0.0),
    )
    bad = tl.max((theirs != theirs).to(tl.int32)) > 0
    before = (other < real) & ((theirs < own) | ((theirs == own) & (other < item)))
    place = tl.where(item < real, tl.sum(before.to(tl.int32), 1, keep_dims=True), item)
    result = (place == other).to(out.dtype.element_ty) + tl.where(bad, float("nan"), 0.0)
    tl.store(out + (row * n + item) * outputs + other, result, (item < n) & (other < outputs))


@triton.jit
def _swap_hard(a, b, p, q, live):
    """Hard comparators of keys a, b with items p, q: stable, so equal keys stay in the order of their items."""
    swap = live & ((b < a) | ((a == b) & (q < p)))
    low, high = tl.where(swap, b, a), tl.where(swap, a, b)
    return low, high, tl.where(swap, q, p), tl.where(swap, p, q), swap


@triton.jit
def _fold_hard(gap, swap, live, steepness, MATRIX: tl.constexpr, SWAP: tl.constexpr, ART: tl.constexpr):
    """The folded weights the gradient passes: the soft ones, or those of the hard swap."""
    if MATRIX:
        zero = tl.zeros_like(gap)
        fold = tl.where(swap, zero * -1.0, zero)
    else:
        fold = folded(gap, live, steepness, ART, SWAP)
    return fold


@triton.jit
def _trace(
    keys, folds, gaps, lows, highs, places, count, row, there, n, stride_row, stride_wire, steep, rest,
    MATRIX: tl.constexpr, SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Hard comparators on one row for each K lanes."""
    dtype = keys.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    pairs, k = (n + 1) // 2, _lane() % K
    x0, x1, x2, x3, real, _bad = _load_keys(keys, row, there, count, n, stride_row, stride_wire, COUNTED, K)
    i0 = 4 * k
    i1, i2, i3 = i0 + 1, i0 + 2, i0 + 3
    for pair in range(pairs):
        live0, live1, live2, live3 = _live(pair, real, K)
        to = (row * pairs + pair) * 4 * K + k
        d0, d1, p0, q0, p1, q1 = gap_of(x0, x1), gap_of(x2, x3), i0, i1, i2, i3
        x0, x1, i0, i1, swap0 = _swap_hard(x0, x1, i0, i1, live0)
        x2, x3, i2, i3, swap1 = _swap_hard(x2, x3, i2, i3, live1)
        above, below, i_above, i_below = _up(x0, K), _down(x3, K), _up(i0, K), _down(i3, K)
        d2, d3, p2, q2, p3, q3 = gap_of(x1, x2), gap_of(x3, above), i1, i2, i3, i_above
        _store_quads(lows + to, p0.to(tl.int8), p1.to(tl.int8), p2.to(tl.int8), p3.to(tl.int8), K, there)
        _store_quads(highs + to, q0.to(tl.int8), q1.to(tl.int8), q2.to(tl.int8), q3.to(tl.int8), K, there)
        x1, x2, i1, i2, swap2 = _swap_hard(x1, x2, i1, i2, live2)
        from_below = (_down(live3.to(tl.int32), K) > 0) & (k > 0)
        _lower, x0, _item, i0, _swap = _swap_hard(below, x0, i_below, i0, from_below)
        x3, _upper, i3, _other, swap3 = _swap_hard(x3, above, i3, i_above, live3)
        f0 = _fold_hard(d0, swap0, live0, steepness, MATRIX, SWAP, ART)
        f1 = _fold_hard(d1, swap1, live1, steepness, MATRIX, SWAP, ART)
        f2 = _fold_hard(d2, swap2, live2, steepness, MATRIX, SWAP, ART)
        f3 = _fold_hard(d3, swap3, live3, steepness, MATRIX, SWAP, ART)
        _store_quads(folds + to, f0, f1, f2, f3, K, there)
        _store_quads(gaps + to, d0, d1, d2, d3, K, there)
    if MATRIX:
        tl.store(places + row * n + i0, 4 * k, there & (4 * k < n))
        tl.store(places + row * n + i1, 4 * k + 1, there & (4 * k + 1 < n))
        tl.store(places + row * n + i2, 4 * k + 2, there & (4 * k + 2 < n))
        tl.store(places + row * n + i3, 4 * k + 3, there & (4 * k + 3 < n))


@Kernel
def trace_hard(
    keys, folds, gaps, lows, highs, places, count, n, rows, stride_row, stride_wire, steep, rest,
    MATRIX: tl.constexpr, SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """As trace_soft for hard comparators; also the items that met, `lows` and `highs`; if MATRIX, where each ended."""
    row = tl.program_id(0).to(tl.int64) * (32 // K) + _lane() // K
    _trace(
        keys, folds, gaps, lows, highs, places, count, row, row < rows, n, stride_row, stride_wire, steep, rest,
        MATRIX, SWAP, ART, COUNTED, K,
    )  # fmt: skip


@triton.jit
def _meeting(item, p, q, difference, K: tl.constexpr):
    """Σ difference·(e_p − e_q) over the columns."""
    return _sum(tl.where(item == p, difference, tl.where(item == q, -difference, 0.0)), K)


@triton.jit
def _shares_of_block(
    grad, folds, lows, highs, shares, row, block, n, outputs, grad_row, grad_item, grad_wire,
    K: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """The gradient of P of some items back through the soft weights of a row: dL/dσ where two known items met."""
    k, always, pairs = _lane() % K, _lane() >= 0, (n + 1) // 2
    column = (block * D + tl.arange(0, D)[:, None]) * (32 // K) + _lane() // K
    item, wire = _item_and_wire(block, D, K)
    above = grad + row * grad_row + item * grad_item + wire * grad_wire
    g0, g1, g2, g3 = _parted(tl.load(above, (item < n) & (wire < outputs), 0.0), D)
    for step in range(pairs):
        at = (row * pairs + pairs - 1 - step) * 4 * K + k
        f0, f1, f2, f3 = _read_quads(folds + at, K, always)
        p0, p1, p2, p3 = _read_quads(lows + at, K, always)
        q0, q1, q2, q3 = _read_quads(highs + at, K, always)
        t0, t1, t2, t3, v3 = _moving(f0, f1, f2, f3, K)
        d2, d3 = g1 - g2, g3 - _up(g0, K)
        share2, share3 = _meeting(column, p2, q2, d2, K), _meeting(column, p3, q3, d3, K)
        g0, g1, g2, g3 = g0 + v3 * _down(d3, K), g1 - t2 * d2, g2 + t2 * d2, g3 - t3 * d3
        d0, d1 = g0 - g1, g2 - g3
        share0, share1 = _meeting(column, p0, q0, d0, K), _meeting(column, p1, q1, d1, K)
        g0, g1, g2, g3 = g0 - t0 * d0, g1 + t0 * d0, g2 - t1 * d1, g3 + t1 * d1
        to = shares + (pairs - 1 - step) * 4 * K + k
        _store_quads(to, share0, share1, share2, share3, K, always)


@Kernel
def permutation_hard_back(
    grad, folds, lows, highs, shares, n, outputs, blocks, grad_row, grad_item, grad_wire,
    K: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """The shares (rows, blocks, pairs of layers, 4, K) of hard comparators."""
    task = tl.program_id(0).to(tl.int64)
    shares += task * ((n + 1) // 2) * 4 * K
    _shares_of_block(
        grad, folds, lows, highs, shares, task // blocks, task % blocks, n, outputs, grad_row, grad_item, grad_wire,
        K, D,
    )  # fmt: skip


@triton.jit
def _shares_of_matrix(
    grad, folds, lows, highs, places, shares, at, total, row, n, outputs, grad_row, grad_item, grad_wire
):
    """dL/dσ of hard comparators from P's gradient carried back hard: four entries each."""
    inside = at < total
    p, q = tl.load(lows + at, inside, 0).to(tl.int64), tl.load(highs + at, inside, 0).to(tl.int64)
    stay, _leave = unfolded(tl.load(folds + at, inside, 0.0))
    here, there = tl.where(stay == 0, q, p), tl.where(stay == 0, p, q)
    real = inside & (p < n) & (q < n)
    at_i = tl.load(places + row * n + here, real, 0).to(tl.int64)
    at_j = tl.load(places + row * n + there, real, 0).to(tl.int64)
    seen_i, seen_j = real & (at_i < outputs), real & (at_j < outputs)
    grad += row * grad_row
    share = tl.load(grad + p * grad_item + at_i * grad_wire, seen_i, 0.0)
    share -= tl.load(grad + q * grad_item + at_i * grad_wire, seen_i, 0.0)
    share -= tl.load(grad + p * grad_item + at_j * grad_wire, seen_j, 0.0)
    share += tl.load(grad + q * grad_item + at_j * grad_wire, seen_j, 0.0)
    tl.store(shares + at, share, inside)


@Kernel
def matrix_shares(
    grad, folds, lows, highs, places, shares, total, each, n, outputs, grad_row, grad_item, grad_wire,
    TILE: tl.constexpr,
):  # fmt: skip
    """The shares of hard comparators, `each` of them a row."""
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    _shares_of_matrix(
        grad, folds, lows, highs, places, shares, at, total, at // each, n, outputs, grad_row, grad_item, grad_wire
    )


@Kernel
def permutation_hard_back_at_once(
    keys, grad, folds, gaps, lows, highs, places, shares, gkeys, count, n, outputs, each,
    stride_row, stride_wire, grad_row, grad_item, grad_wire, steep, rest,
    MATRIX: tl.constexpr, SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr,
    D: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Everything from keys and the gradient of P to the gradient of the keys, one row a program."""
    row = tl.program_id(0).to(tl.int64)
    rows, own = row + 0 * _lane(), _lane() < K
    _trace(
        keys, folds, gaps, lows, highs, places, count, rows, own, n, stride_row, stride_wire, steep, rest,
        MATRIX, SWAP, ART, COUNTED, K,
    )  # fmt: skip
    tl.debug_barrier()
    if MATRIX:
        for begin in range(0, each, TILE):
            at = row * each + begin + tl.arange(0, TILE)
            _shares_of_matrix(
                grad, folds, lows, highs, places, shares, at, (row + 1) * each, row + 0 * at, n, outputs,
                grad_row, grad_item, grad_wire,
            )  # fmt: skip
    else:
        _shares_of_block(
            grad, folds, lows, highs, shares + row * each, row, 0, n, outputs, grad_row, grad_item, grad_wire, K, D
        )
    tl.debug_barrier()
    _carry_keys_back(
        keys, None, folds, gaps, shares, gkeys, count, rows, own, n, 0, stride_row, stride_wire,
        0, 0, steep, rest, SWAP, ART, COUNTED, K,
    )  # fmt: skip
