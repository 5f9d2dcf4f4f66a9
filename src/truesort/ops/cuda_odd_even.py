"""Triton kernels for odd-even networks of up to 128 wires: one warp carries a row's wires in registers.

A lane holds four neighbouring wires, so a layer of even comparators and half of a layer of odd ones happen within it
and the rest needs one shuffle up and one down. K lanes hold the wires of one column of the payload, and 32 / K such
groups stand side by side: wire 4k + s of column d·groups + g is element [d, g·K + k] of the s-th of four tensors
[D, 32], the weights of comparators likewise four tensors [1, 32], for (0,1), (2,3), then (1,2), (3, 0 of the next).
Naming lanes ourselves leaves Triton no layout to choose, so nothing is ever moved through shared memory. The gradient
needs what met in every comparator: the payload goes forward once, leaving a checkpoint every few layers, and again
through each stretch on the way back, its differences then kept in registers.
"""

import triton
import triton.language as tl

from .cuda_curves import gap_of, mix, slope, weights


@triton.jit
def _lane():
    return tl.arange(0, 32)[None, :]


@triton.jit
def _load_quads(ptr, wire_stride, there, other, K: tl.constexpr):
    """Four tensors [1, 32] of the wires at ptr + wire·wire_stride that are `there` or more."""
    wire = 4 * (_lane() % K)
    x0 = tl.load(ptr + wire * wire_stride, wire < there, other)
    x1 = tl.load(ptr + (wire + 1) * wire_stride, wire + 1 < there, other)
    x2 = tl.load(ptr + (wire + 2) * wire_stride, wire + 2 < there, other)
    x3 = tl.load(ptr + (wire + 3) * wire_stride, wire + 3 < there, other)
    return x0, x1, x2, x3


@triton.jit
def _keys(keys, row, count, n, stride_row, stride_wire, COUNTED: tl.constexpr, K: tl.constexpr):
    """A row's keys as four tensors, how many are real, and whether one of them is nan (then all are zero)."""
    real = n
    if COUNTED:
        real = tl.load(count + row).to(tl.int32)
    x0, x1, x2, x3 = _load_quads(keys + row * stride_row, stride_wire, real, 0.0, K)
    wrong = (x0 != x0) | (x1 != x1) | (x2 != x2) | (x3 != x3)
    bad = tl.max(wrong.to(tl.int32)) > 0
    x0, x1 = tl.where(bad, 0.0, x0), tl.where(bad, 0.0, x1)
    x2, x3 = tl.where(bad, 0.0, x2), tl.where(bad, 0.0, x3)
    return x0, x1, x2, x3, real, bad


@triton.jit
def _up(x, K: tl.constexpr):
    """What the next four wires hold."""
    lane = _lane()
    return tl.gather(x, tl.broadcast_to(tl.where(lane % K + 1 < K, lane + 1, lane), x.shape), 1)


@triton.jit
def _down(x, K: tl.constexpr):
    """What the four wires before hold."""
    lane = _lane()
    return tl.gather(x, tl.broadcast_to(tl.where(lane % K > 0, lane - 1, lane), x.shape), 1)


@triton.jit
def _live(pair, real, K: tl.constexpr):
    """Which comparators of a pair of layers work among the first `real` wires."""
    wire = 4 * (_lane() % K)
    even, odd = 2 * pair < real, 2 * pair + 1 < real
    return even & (wire + 1 < real), even & (wire + 3 < real), odd & (wire + 2 < real), odd & (wire + 4 < real)


@triton.jit
def _swap_quads(x0, x1, x2, x3, s0, t0, s1, t1):
    """The even layer."""
    return s0 * x0 + t0 * x1, s0 * x1 + t0 * x0, s1 * x2 + t1 * x3, s1 * x3 + t1 * x2


@triton.jit
def _swap_odd(x0, x1, x2, x3, above, below, s2, t2, s3, t3, u3, v3):
    """The odd layer; `above` is x0 of the next four, `below` x3 of those before, u3 and v3 the weights towards them."""
    return u3 * x0 + v3 * below, s2 * x1 + t2 * x2, s2 * x2 + t2 * x1, s3 * x3 + t3 * above


@triton.jit
def _below_weights(s3, t3, K: tl.constexpr):
    """The weights of the comparator that ends on wire 4k."""
    first = _lane() % K == 0
    return tl.where(first, 1.0, _down(s3, K)), tl.where(first, 0.0, _down(t3, K))


@triton.jit
def _key_pair(
    x0, x1, x2, x3, pair, real, steepness, SWAP: tl.constexpr, ART: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    """The keys through two layers; also their weights and gaps."""
    live0, live1, live2, live3 = _live(pair, real, K)
    d0, d1 = gap_of(x0, x1), gap_of(x2, x3)
    s0, t0 = weights(d0, live0, steepness, ART, SWAP)
    s1, t1 = weights(d1, live1, steepness, ART, SWAP)
    x0, x1 = mix(x0, x1, s0, t0), mix(x1, x0, s0, t0)
    x2, x3 = mix(x2, x3, s1, t1), mix(x3, x2, s1, t1)
    above, below = _up(x0, K), _down(x3, K)
    d2, d3 = gap_of(x1, x2), gap_of(x3, above)
    s2, t2 = weights(d2, live2, steepness, ART, SWAP)
    s3, t3 = weights(d3, live3, steepness, ART, SWAP)
    u3, v3 = _below_weights(s3, t3, K)
    x1, x2 = mix(x1, x2, s2, t2), mix(x2, x1, s2, t2)
    x0, x3 = mix(x0, below, u3, v3), mix(x3, above, s3, t3)
    return x0, x1, x2, x3, s0, t0, s1, t1, s2, t2, s3, t3, d0, d1, d2, d3


@triton.jit
def _payload_pair(x0, x1, x2, x3, s0, t0, s1, t1, s2, t2, s3, t3, K: tl.constexpr):
    """The payload through two layers; also what differed in their comparators."""
    e0, e1 = x0 - x1, x2 - x3
    x0, x1, x2, x3 = _swap_quads(x0, x1, x2, x3, s0, t0, s1, t1)
    above, below = _up(x0, K), _down(x3, K)
    u3, v3 = _below_weights(s3, t3, K)
    e2, e3 = x1 - x2, x3 - above
    x0, x1, x2, x3 = _swap_odd(x0, x1, x2, x3, above, below, s2, t2, s3, t3, u3, v3)
    return x0, x1, x2, x3, e0, e1, e2, e3


@triton.jit
def _sum(x, K: tl.constexpr):
    """The sum over all columns, in every lane of a wire."""
    lane = _lane()
    total = tl.sum(x, 0, keep_dims=True)
    if K <= 16:
        total += tl.gather(total, lane ^ 16, 1)
    if K <= 8:
        total += tl.gather(total, lane ^ 8, 1)
    if K <= 4:
        total += tl.gather(total, lane ^ 4, 1)
    if K <= 2:
        total += tl.gather(total, lane ^ 2, 1)
    return total


@triton.jit
def _gradient_pair(g0, g1, g2, g3, s0, t0, s1, t1, s2, t2, s3, t3, e0, e1, e2, e3, K: tl.constexpr):
    """The gradient back through two layers, and the shares Σ (G_i − G_j)·e of their comparators."""
    above, below = _up(g0, K), _down(g3, K)
    u3, v3 = _below_weights(s3, t3, K)
    share2, share3 = _sum((g1 - g2) * e2, K), _sum((g3 - above) * e3, K)
    g0, g1, g2, g3 = _swap_odd(g0, g1, g2, g3, above, below, s2, t2, s3, t3, u3, v3)
    share0, share1 = _sum((g0 - g1) * e0, K), _sum((g2 - g3) * e1, K)
    g0, g1, g2, g3 = _swap_quads(g0, g1, g2, g3, s0, t0, s1, t1)
    return g0, g1, g2, g3, share0, share1, share2, share3


@triton.jit
def _turn(low, high, share, gap, live, steepness, SWAP: tl.constexpr, ART: tl.constexpr):
    """How a comparator's dL/dσ turns the gradient of its keys: from the low one, onto the high one."""
    steep = tl.where(live, slope(gap, steepness, ART, SWAP), 0.0)
    share += tl.where(gap == 0, 0.0, (high - low) * gap)
    return tl.where(steep == 0, 0.0, steep * share)


@triton.jit
def _keys_back_pair(
    g0, g1, g2, g3, s0, t0, s1, t1, s2, t2, s3, t3, d0, d1, d2, d3, share0, share1, share2, share3,
    pair, real, steepness, SWAP: tl.constexpr, ART: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The gradient of the keys back through two layers."""
    live0, live1, live2, live3 = _live(pair, real, K)
    first = _lane() % K == 0
    above, below = _up(g0, K), _down(g3, K)
    u3, v3 = _below_weights(s3, t3, K)
    turn2 = _turn(g1, g2, share2, d2, live2, steepness, SWAP, ART)
    turn3 = _turn(g3, above, share3, d3, live3, steepness, SWAP, ART)
    g0, g1, g2, g3 = _swap_odd(g0, g1, g2, g3, above, below, s2, t2, s3, t3, u3, v3)
    g1, g2, g3 = g1 - turn2, g2 + turn2, g3 - turn3
    g0 += tl.where(first, 0.0, _down(turn3, K))
    turn0 = _turn(g0, g1, share0, d0, live0, steepness, SWAP, ART)
    turn1 = _turn(g2, g3, share1, d1, live1, steepness, SWAP, ART)
    g0, g1, g2, g3 = _swap_quads(g0, g1, g2, g3, s0, t0, s1, t1)
    return g0 - turn0, g1 + turn0, g2 - turn1, g3 + turn1


@triton.jit
def _joined(x0, x1, x2, x3, D: tl.constexpr):
    """[D, 128] of the four tensors: element [d, 4·lane + s] is element [d, lane] of the s-th."""
    return tl.reshape(tl.join(tl.join(x0, x2), tl.join(x1, x3)), (D, 128))


@triton.jit
def _parted(x, D: tl.constexpr):
    """The four tensors of [D, 128]."""
    even, odd = tl.split(tl.reshape(x, (D, 32, 2, 2)))
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    return x0, x1, x2, x3


@triton.jit
def _item_and_wire(block, D: tl.constexpr, K: tl.constexpr):
    """Which item (the column) and wire element [d, 4·lane + s] of the joined tensor is."""
    element, groups = tl.arange(0, 128)[None, :], 32 // K
    return (block * D + tl.arange(0, D)[:, None]) * groups + element // (4 * K), element % (4 * K)


@triton.jit
def _identity(block, dtype, D: tl.constexpr, K: tl.constexpr):
    """The payload of P: wire w carries 1 in column w."""
    item = (block * D + tl.arange(0, D)[:, None]) * (32 // K) + _lane() // K
    wire = 4 * (_lane() % K)
    x0, x1 = (item == wire).to(dtype), (item == wire + 1).to(dtype)
    return x0, x1, (item == wire + 2).to(dtype), (item == wire + 3).to(dtype)


@triton.jit
def permutation_soft(
    keys, out, count, n, outputs, blocks, stride_row, stride_wire, steep, rest,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """P (rows, n, outputs) of D·groups items of a row."""
    task = tl.program_id(0)
    row, block = (task // blocks).to(tl.int64), task % blocks
    dtype = out.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    x0, x1, x2, x3, real, bad = _keys(keys, row, count, n, stride_row, stride_wire, COUNTED, K)
    a0, a1, a2, a3 = _identity(block, dtype, D, K)
    for pair in range((real + 1) // 2):
        x0, x1, x2, x3, s0, t0, s1, t1, s2, t2, s3, t3, _d0, _d1, _d2, _d3 = _key_pair(
            x0, x1, x2, x3, pair, real, steepness, SWAP, ART, K
        )
        a0, a1, a2, a3, _e0, _e1, _e2, _e3 = _payload_pair(a0, a1, a2, a3, s0, t0, s1, t1, s2, t2, s3, t3, K)
    result = tl.where(bad, float("nan"), _joined(a0, a1, a2, a3, D))
    item, wire = _item_and_wire(block, D, K)
    tl.store(out + (row * n + item) * outputs + wire, result, (item < n) & (wire < outputs))


@triton.jit
def _store_quads(ptr, x0, x1, x2, x3, stride, there):
    tl.store(ptr, x0, there)
    tl.store(ptr + stride, x1, there)
    tl.store(ptr + 2 * stride, x2, there)
    tl.store(ptr + 3 * stride, x3, there)


@triton.jit
def _read_quads(ptr, stride):
    return tl.load(ptr), tl.load(ptr + stride), tl.load(ptr + 2 * stride), tl.load(ptr + 3 * stride)


@triton.jit
def permutation_soft_back(
    keys, grad, gkeys, shares, gaps, scratch, count, n, outputs, rows, blocks, room,
    stride_row, stride_wire, grad_row, grad_item, grad_wire, steep, rest,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
    PAIRS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The gradient of the keys from that of P, if one program holds the WHOLE row; else the shares of its items.

    `scratch` has `room` elements a program: weights and gaps [pairs, 12, K], then checkpoints [stretches, 4, D, 32].
    """
    dtype = scratch.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    k = _lane() % K
    own = tl.arange(0, D)[:, None] * 32 + _lane()
    pairs = (n + 1) // 2
    noted = scratch + tl.program_id(0).to(tl.int64) * room + k
    marks = scratch + tl.program_id(0).to(tl.int64) * room + tl.cdiv(pairs, PAIRS) * PAIRS * 12 * K + own
    for task in range(tl.program_id(0), rows * blocks, tl.num_programs(0)):
        row, block = (task // blocks).to(tl.int64), task % blocks
        item, wire = _item_and_wire(block, D, K)
        x0, x1, x2, x3, real, bad = _keys(keys, row, count, n, stride_row, stride_wire, COUNTED, K)
        a0, a1, a2, a3 = _identity(block, dtype, D, K)
        stretches = tl.cdiv((real + 1) // 2, PAIRS)
        for stretch in range(stretches):
            _store_quads(marks + stretch * 4 * D * 32, a0, a1, a2, a3, D * 32, own >= 0)
            for pair in range(stretch * PAIRS, stretch * PAIRS + PAIRS):
                x0, x1, x2, x3, s0, t0, s1, t1, s2, t2, s3, t3, d0, d1, d2, d3 = _key_pair(
                    x0, x1, x2, x3, pair, real, steepness, SWAP, ART, K
                )
                note = noted + pair * 12 * K
                _store_quads(note, s0, s1, s2, s3, K, k >= 0)
                _store_quads(note + 4 * K, t0, t1, t2, t3, K, k >= 0)
                _store_quads(note + 8 * K, d0, d1, d2, d3, K, k >= 0)
                if stretch + 1 < stretches:
                    a0, a1, a2, a3, _e0, _e1, _e2, _e3 = _payload_pair(
                        a0, a1, a2, a3, s0, t0, s1, t1, s2, t2, s3, t3, K
                    )
        tl.debug_barrier()
        above = grad + row * grad_row + item * grad_item + wire * grad_wire
        given = tl.load(above, (item < n) & (wire < outputs), 0.0)
        g0, g1, g2, g3 = _parted(given, D)
        zero = tl.zeros((1, 32), dtype)
        h0, h1, h2, h3 = zero, zero, zero, zero
        for back in range(stretches):
            stretch = stretches - 1 - back
            a0, a1, a2, a3 = _read_quads(marks + stretch * 4 * D * 32, D * 32)
            kept = ()
            for step in tl.static_range(PAIRS):
                note = noted + (stretch * PAIRS + step) * 12 * K
                s0, s1, s2, s3 = _read_quads(note, K)
                t0, t1, t2, t3 = _read_quads(note + 4 * K, K)
                a0, a1, a2, a3, e0, e1, e2, e3 = _payload_pair(a0, a1, a2, a3, s0, t0, s1, t1, s2, t2, s3, t3, K)
                kept = kept + (e0, e1, e2, e3)
            for step in tl.static_range(PAIRS):
                pair = stretch * PAIRS + PAIRS - 1 - step
                note = noted + pair * 12 * K
                s0, s1, s2, s3 = _read_quads(note, K)
                t0, t1, t2, t3 = _read_quads(note + 4 * K, K)
                g0, g1, g2, g3, share0, share1, share2, share3 = _gradient_pair(
                    g0, g1, g2, g3, s0, t0, s1, t1, s2, t2, s3, t3, kept[4 * (PAIRS - 1 - step)],
                    kept[4 * (PAIRS - step) - 3], kept[4 * (PAIRS - step) - 2], kept[4 * (PAIRS - step) - 1], K,
                )  # fmt: skip
                d0, d1, d2, d3 = _read_quads(note + 8 * K, K)
                if WHOLE:
                    h0, h1, h2, h3 = _keys_back_pair(
                        h0, h1, h2, h3, s0, t0, s1, t1, s2, t2, s3, t3, d0, d1, d2, d3,
                        share0, share1, share2, share3, pair, real, steepness, SWAP, ART, K,
                    )  # fmt: skip
                else:
                    there = (k >= 0) & (pair < pairs)
                    to = shares + (((row * blocks + block) * pairs + pair) * 4) * K + k
                    _store_quads(to, share0, share1, share2, share3, K, there)
                    to = gaps + ((row * pairs + pair) * 4) * K + k
                    _store_quads(to, d0, d1, d2, d3, K, there & (block == 0))
        if WHOLE:
            _store_keys(gkeys + row * n, keys + row * stride_row, stride_wire, h0, h1, h2, h3, n, real, bad, K)
        tl.debug_barrier()


@triton.jit
def _store_keys(gkeys, keys, stride_wire, h0, h1, h2, h3, n, real, bad, K: tl.constexpr):
    """The gradient of a row's keys; none to infinities, nor in a row with a nan."""
    x0, x1, x2, x3 = _load_quads(keys, stride_wire, real, 0.0, K)
    _store_gradient(gkeys, x0, h0, 0, n, bad, K)
    _store_gradient(gkeys, x1, h1, 1, n, bad, K)
    _store_gradient(gkeys, x2, h2, 2, n, bad, K)
    _store_gradient(gkeys, x3, h3, 3, n, bad, K)


@triton.jit
def _store_gradient(gkeys, x, h, slot: tl.constexpr, n, bad, K: tl.constexpr):
    wire = 4 * (_lane() % K) + slot
    tl.store(gkeys + wire, tl.where(bad | (tl.abs(x) == float("inf")), 0.0, h), wire < n)


@triton.jit
def keys_back(
    keys, gkeys, shares, gaps, count, n, blocks, stride_row, stride_wire, steep, rest,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The gradient of the keys from the shares that the programs of a row left."""
    row = tl.program_id(0).to(tl.int64)
    dtype = gaps.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    k = _lane() % K
    pairs = (n + 1) // 2
    _x0, _x1, _x2, _x3, real, bad = _keys(keys, row, count, n, stride_row, stride_wire, COUNTED, K)
    zero = tl.zeros((1, 32), dtype)
    h0, h1, h2, h3 = zero, zero, zero, zero
    last = (real + 1) // 2
    for step in range(last):
        pair = last - 1 - step
        live0, live1, live2, live3 = _live(pair, real, K)
        d0, d1, d2, d3 = _read_quads(gaps + (row * pairs + pair) * 4 * K + k, K)
        share0, share1, share2, share3 = _read_quads(shares + (row * blocks * pairs + pair) * 4 * K + k, K)
        for block in range(1, blocks):
            more0, more1, more2, more3 = _read_quads(shares + ((row * blocks + block) * pairs + pair) * 4 * K + k, K)
            share0, share1, share2, share3 = share0 + more0, share1 + more1, share2 + more2, share3 + more3
        s0, t0 = weights(d0, live0, steepness, ART, SWAP)
        s1, t1 = weights(d1, live1, steepness, ART, SWAP)
        s2, t2 = weights(d2, live2, steepness, ART, SWAP)
        s3, t3 = weights(d3, live3, steepness, ART, SWAP)
        h0, h1, h2, h3 = _keys_back_pair(
            h0, h1, h2, h3, s0, t0, s1, t1, s2, t2, s3, t3, d0, d1, d2, d3, share0, share1, share2, share3,
            pair, real, steepness, SWAP, ART, K,
        )  # fmt: skip
    _store_keys(gkeys + row * n, keys + row * stride_row, stride_wire, h0, h1, h2, h3, n, real, bad, K)
