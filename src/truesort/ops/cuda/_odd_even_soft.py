"""Triton kernels for soft odd-even networks, on the registers of _odd_even.py.

Few rows are served by one kernel each way (FUSED), because launches are what they wait for. For many, the keys run
alone first, several rows a warp, and leave the folded weights of every comparator for all columns of P to read; the
gradient's shares are summed over the columns and carried down the keys by a last kernel.
"""

import triton
import triton.language as tl

from ._launch import Kernel
from ._odd_even import (
    _carry_keys_back,
    _gradient_pair,
    _identity,
    _item_and_wire,
    _joined,
    _key_pair,
    _keys_back_pair,
    _lane,
    _load_keys,
    _load_wires,
    _moving,
    _parted,
    _payload_pair,
    _read_quads,
    _state_pair,
    _store_keys,
    _store_quads,
)


@Kernel
def trace_soft(
    keys, folds, gaps, values, count, n, rows, outputs, stride_row, stride_wire, steep, rest,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Folded weights and gaps (rows, pairs of layers, 4, K), or the sorted values, of 32 / K rows a warp."""
    row = tl.program_id(0).to(tl.int64) * (32 // K) + _lane() // K
    dtype = keys.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    pairs, k = (n + 1) // 2, _lane() % K
    there = row < rows
    x0, x1, x2, x3, real, bad = _load_keys(keys, row, there, count, n, stride_row, stride_wire, COUNTED, K)
    for pair in range(pairs):
        x0, x1, x2, x3, f0, f1, f2, f3, d0, d1, d2, d3 = _key_pair(x0, x1, x2, x3, pair, real, steepness, SWAP, ART, K)
        to = (row * pairs + pair) * 4 * K + k
        if folds is not None:
            _store_quads(folds + to, f0, f1, f2, f3, K, there)
        if gaps is not None:
            _store_quads(gaps + to, d0, d1, d2, d3, K, there)
    if values is not None:
        y0, y1, y2, y3 = _load_wires(keys + row * stride_row, stride_wire, tl.where(there, n, 0), K)
        to = values + row * outputs
        _store_value(to, x0, y0, 0, real, bad, there, outputs, K)
        _store_value(to, x1, y1, 1, real, bad, there, outputs, K)
        _store_value(to, x2, y2, 2, real, bad, there, outputs, K)
        _store_value(to, x3, y3, 3, real, bad, there, outputs, K)


@triton.jit
def _store_value(ptr, x, padding, slot: tl.constexpr, real, bad, there, outputs, K: tl.constexpr):
    wire = 4 * (_lane() % K) + slot
    value = tl.where(bad, float("nan"), tl.where(wire < real, x, padding))
    tl.store(ptr + wire, value, there & (wire < outputs))


@Kernel
def permutation_soft(
    keys, folds, out, count, n, outputs, blocks, stride_row, stride_wire, steep, rest,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
    FUSED: tl.constexpr,
):  # fmt: skip
    """P (rows, n, outputs) of D·groups items of a row, from folded weights or (FUSED) from the keys alone."""
    task = tl.program_id(0)
    row, block = (task // blocks).to(tl.int64), task % blocks
    dtype = out.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    pairs = (n + 1) // 2
    x0, x1, x2, x3, real, bad = _load_keys(keys, row, _lane() >= 0, count, n, stride_row, stride_wire, COUNTED, K)
    a0, a1, a2, a3 = _identity(block, dtype, D, K)
    for pair in range(pairs):
        if FUSED:
            x0, x1, x2, x3, f0, f1, f2, f3, _d0, _d1, _d2, _d3 = _key_pair(
                x0, x1, x2, x3, pair, real, steepness, SWAP, ART, K
            )
        else:
            f0, f1, f2, f3 = _read_quads(folds + (row * pairs + pair) * 4 * K + _lane() % K, K, _lane() >= 0)
        a0, a1, a2, a3 = _payload_pair(a0, a1, a2, a3, f0, f1, f2, f3, K)
    nan = tl.where(bad, float("nan"), 0.0)
    item, wire = _item_and_wire(block, D, K)
    result = _joined(a0 + nan, a1 + nan, a2 + nan, a3 + nan, D)
    tl.store(out + (row * n + item) * outputs + wire, result, (item < n) & (wire < outputs))


@Kernel
def permutation_soft_back(
    keys, grad, folds, gkeys, shares, scratch, count, n, outputs, rows, blocks, parts, room,
    stride_row, stride_wire, grad_row, grad_item, grad_wire, steep, rest,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
    PAIRS: tl.constexpr, WHOLE: tl.constexpr, FUSED: tl.constexpr,
):  # fmt: skip
    """The gradient of P back through the network: the shares of comparators, or (FUSED) the gradient of the keys.

    A task is a part of a row's blocks, one after the other, whose shares add up. A program has `room` elements of
    scratch: checkpoints [stretches − 1, 4, D, 32], then, FUSED, weights and gaps [pairs, 8, K], which otherwise come
    folded from trace_soft. WHOLE says that no stretch is cut short.
    """
    dtype = scratch.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    k, own = _lane() % K, tl.arange(0, D)[:, None] * 32 + _lane()
    always, pairs = _lane() >= 0, (n + 1) // 2
    stretches = tl.cdiv(pairs, PAIRS)
    marks = scratch + tl.program_id(0).to(tl.int64) * room
    notes = marks + (stretches - 1) * 128 * D + k
    STEP: tl.constexpr = 8 * K if FUSED else 4 * K
    for task in range(tl.program_id(0), rows * parts, tl.num_programs(0)):
        row, part = (task // parts).to(tl.int64), task % parts
        if FUSED:
            x0, x1, x2, x3, real, bad = _load_keys(keys, row, always, count, n, stride_row, stride_wire, COUNTED, K)
        else:
            notes = folds + row * pairs * 4 * K + k
        for block in range(part, blocks, parts):
            a0, a1, a2, a3 = _identity(block, dtype, D, K)
            for stretch in range(stretches):
                if stretch > 0:
                    _store_quads(marks + (stretch - 1) * 128 * D + own, a0, a1, a2, a3, D * 32, own >= 0)
                for pair in range(stretch * PAIRS, stretch * PAIRS + PAIRS):
                    if FUSED:
                        x0, x1, x2, x3, f0, f1, f2, f3, d0, d1, d2, d3 = _key_pair(
                            x0, x1, x2, x3, pair, real, steepness, SWAP, ART, K
                        )
                        _store_quads(notes + pair * STEP, f0, f1, f2, f3, K, always)
                        _store_quads(notes + pair * STEP + 4 * K, d0, d1, d2, d3, K, always)
                        t0, t1, t2, t3, v3 = _moving(f0, f1, f2, f3, K)
                        a0, a1, a2, a3, _e0, _e1, _e2, _e3 = _state_pair(a0, a1, a2, a3, t0, t1, t2, t3, v3, K)
                    elif stretch + 1 < stretches:
                        f0, f1, f2, f3 = _read_quads(notes + pair * STEP, K, always)
                        t0, t1, t2, t3, v3 = _moving(f0, f1, f2, f3, K)
                        a0, a1, a2, a3, _e0, _e1, _e2, _e3 = _state_pair(a0, a1, a2, a3, t0, t1, t2, t3, v3, K)
            tl.debug_barrier()
            item, wire = _item_and_wire(block, D, K)
            above = grad + row * grad_row + item * grad_item + wire * grad_wire
            g0, g1, g2, g3 = _parted(tl.load(above, (item < n) & (wire < outputs), 0.0), D)
            zero = tl.zeros((1, 32), dtype)
            h0, h1, h2, h3 = zero, zero, zero, zero
            for back in range(stretches):
                stretch = stretches - 1 - back
                if stretch > 0:
                    a0, a1, a2, a3 = _read_quads(marks + (stretch - 1) * 128 * D + own, D * 32, own >= 0)
                else:
                    a0, a1, a2, a3 = _identity(block, dtype, D, K)
                kept = ()
                for step in tl.static_range(PAIRS):
                    pair = stretch * PAIRS + step
                    inside = always if WHOLE else _lane() * 0 + pair < pairs
                    f0, f1, f2, f3 = _read_quads(notes + pair * STEP, K, inside)
                    t0, t1, t2, t3, v3 = _moving(f0, f1, f2, f3, K)
                    a0, a1, a2, a3, e0, e1, e2, e3 = _state_pair(a0, a1, a2, a3, t0, t1, t2, t3, v3, K)
                    kept = kept + (e0, e1, e2, e3)  # type: ignore[assignment]
                for step in tl.static_range(PAIRS):
                    pair = stretch * PAIRS + PAIRS - 1 - step
                    inside = always if WHOLE else _lane() * 0 + pair < pairs
                    f0, f1, f2, f3 = _read_quads(notes + pair * STEP, K, inside)
                    t0, t1, t2, t3, v3 = _moving(f0, f1, f2, f3, K)
                    g0, g1, g2, g3, share0, share1, share2, share3 = _gradient_pair(
                        g0, g1, g2, g3, t0, t1, t2, t3, v3, kept[4 * (PAIRS - 1 - step)],
                        kept[4 * (PAIRS - step) - 3], kept[4 * (PAIRS - step) - 2], kept[4 * (PAIRS - step) - 1], K,
                    )  # fmt: skip
                    if FUSED:
                        d0, d1, d2, d3 = _read_quads(notes + pair * STEP + 4 * K, K, inside)
                        h0, h1, h2, h3 = _keys_back_pair(
                            h0, h1, h2, h3, f0, f1, f2, f3, d0, d1, d2, d3,
                            share0, share1, share2, share3, pair, real, steepness, SWAP, ART, K,
                        )  # fmt: skip
                    else:
                        to = shares + ((row * parts + part) * pairs + pair) * 4 * K + k
                        more = inside & (_lane() * 0 + block > part)
                        so_far0, so_far1, so_far2, so_far3 = _read_quads(to, K, more)
                        share0, share1 = share0 + so_far0, share1 + so_far1
                        _store_quads(to, share0, share1, share2 + so_far2, share3 + so_far3, K, inside)
            if FUSED:
                _store_keys(gkeys + row * n, keys + row * stride_row, stride_wire, h0, h1, h2, h3, n, bad, always, K)
            tl.debug_barrier()


@Kernel
def keys_back(
    keys, grad, folds, gaps, shares, gkeys, count, n, rows, outputs, stride_row, stride_wire, grad_row, grad_wire,
    steep, rest, SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The gradient of the keys of 32 / K rows from that of the sorted values, `grad`, or the comparators' shares."""
    row = tl.program_id(0).to(tl.int64) * (32 // K) + _lane() // K
    _carry_keys_back(
        keys, grad, folds, gaps, shares, gkeys, count, row, row < rows, n, outputs, stride_row, stride_wire,
        grad_row, grad_wire, steep, rest, SWAP, ART, COUNTED, K,
    )  # fmt: skip
