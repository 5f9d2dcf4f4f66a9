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

from ._curves import folded, gap_of, mix, slope, unfolded


@triton.jit
def _lane():
    return tl.arange(0, 32)[None, :]


@triton.jit
def _read_quads(ptr, stride, there):
    """Four tensors of numbers, `stride` apart."""
    x0, x1 = tl.load(ptr, there, 0), tl.load(ptr + stride, there, 0)
    return x0, x1, tl.load(ptr + 2 * stride, there, 0), tl.load(ptr + 3 * stride, there, 0)


@triton.jit
def _store_quads(ptr, x0, x1, x2, x3, stride, there):
    tl.store(ptr, x0, there)
    tl.store(ptr + stride, x1, there)
    tl.store(ptr + 2 * stride, x2, there)
    tl.store(ptr + 3 * stride, x3, there)


@triton.jit
def _load_wires(ptr, stride, end, K: tl.constexpr):
    """Four tensors of the wires at ptr + wire·stride; 0 from wire `end` on."""
    wire = 4 * (_lane() % K)
    x0, x1 = tl.load(ptr + wire * stride, wire < end, 0), tl.load(ptr + (wire + 1) * stride, wire + 1 < end, 0)
    x2 = tl.load(ptr + (wire + 2) * stride, wire + 2 < end, 0)
    return x0, x1, x2, tl.load(ptr + (wire + 3) * stride, wire + 3 < end, 0)


@triton.jit
def _anywhere(true, K: tl.constexpr):
    """Whether it is true in one of a row's K lanes."""
    lane = _lane()
    count = true.to(tl.int32)
    count += tl.gather(count, lane ^ 1, 1)
    if K >= 4:
        count += tl.gather(count, lane ^ 2, 1)
    if K >= 8:
        count += tl.gather(count, lane ^ 4, 1)
    if K >= 16:
        count += tl.gather(count, lane ^ 8, 1)
    if K >= 32:
        count += tl.gather(count, lane ^ 16, 1)
    return count > 0


@triton.jit
def _load_keys(keys, row, there, count, n, stride_row, stride_wire, COUNTED: tl.constexpr, K: tl.constexpr):
    """Keys as four tensors, how many are real, and whether one of their row is nan (then all are zero).

    `row` is a number, or one for each lane if a warp has several rows.
    """
    real = tl.where(there, n, 0)
    if COUNTED:
        real = tl.load(count + row + 0 * _lane(), there, 0).to(tl.int32)
    x0, x1, x2, x3 = _load_wires(keys + row * stride_row, stride_wire, real, K)
    bad = _anywhere((x0 != x0) | (x1 != x1) | (x2 != x2) | (x3 != x3), K)
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
def _below(fold3, K: tl.constexpr):
    """The weights of the comparator that ends on wire 4k."""
    return unfolded(tl.where(_lane() % K == 0, 0.0, _down(fold3, K)))


@triton.jit
def _key_pair(
    x0, x1, x2, x3, pair, real, steepness, SWAP: tl.constexpr, ART: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    """The keys through two soft layers; also the folded weights and the gaps of their comparators."""
    live0, live1, live2, live3 = _live(pair, real, K)
    d0, d1 = gap_of(x0, x1), gap_of(x2, x3)
    f0, f1 = folded(d0, live0, steepness, ART, SWAP), folded(d1, live1, steepness, ART, SWAP)
    s0, t0 = unfolded(f0)
    s1, t1 = unfolded(f1)
    x0, x1 = mix(x0, x1, s0, t0), mix(x1, x0, s0, t0)
    x2, x3 = mix(x2, x3, s1, t1), mix(x3, x2, s1, t1)
    above, below = _up(x0, K), _down(x3, K)
    d2, d3 = gap_of(x1, x2), gap_of(x3, above)
    f2, f3 = folded(d2, live2, steepness, ART, SWAP), folded(d3, live3, steepness, ART, SWAP)
    s2, t2 = unfolded(f2)
    s3, t3 = unfolded(f3)
    u3, v3 = _below(f3, K)
    x1, x2 = mix(x1, x2, s2, t2), mix(x2, x1, s2, t2)
    x0, x3 = mix(x0, below, u3, v3), mix(x3, above, s3, t3)
    return x0, x1, x2, x3, f0, f1, f2, f3, d0, d1, d2, d3


@triton.jit
def _payload_pair(x0, x1, x2, x3, f0, f1, f2, f3, K: tl.constexpr):
    """The payload through two layers; small entries keep all their digits."""
    s0, t0 = unfolded(f0)
    s1, t1 = unfolded(f1)
    s2, t2 = unfolded(f2)
    s3, t3 = unfolded(f3)
    x0, x1, x2, x3 = _swap_quads(x0, x1, x2, x3, s0, t0, s1, t1)
    above, below = _up(x0, K), _down(x3, K)
    u3, v3 = _below(f3, K)
    return _swap_odd(x0, x1, x2, x3, above, below, s2, t2, s3, t3, u3, v3)


@triton.jit
def _moving(f0, f1, f2, f3, K: tl.constexpr):
    """What part moves in the four comparators of a lane's two layers, and in the one that ends on its first wire."""
    _s0, t0 = unfolded(f0)
    _s1, t1 = unfolded(f1)
    _s2, t2 = unfolded(f2)
    _s3, t3 = unfolded(f3)
    return t0, t1, t2, t3, tl.where(_lane() % K == 0, 0.0, _down(t3, K))


@triton.jit
def _state_pair(x0, x1, x2, x3, t0, t1, t2, t3, v3, K: tl.constexpr):
    """The payload through two layers where its differences are what matters; these too."""
    e0, e1 = x0 - x1, x2 - x3
    x0, x1, x2, x3 = x0 - t0 * e0, x1 + t0 * e0, x2 - t1 * e1, x3 + t1 * e1
    e2, e3 = x1 - x2, x3 - _up(x0, K)
    return x0 + v3 * _down(e3, K), x1 - t2 * e2, x2 + t2 * e2, x3 - t3 * e3, e0, e1, e2, e3


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
def _gradient_pair(g0, g1, g2, g3, t0, t1, t2, t3, v3, e0, e1, e2, e3, K: tl.constexpr):
    """The gradient back through two layers, and the shares Σ (G_i − G_j)·e of their comparators."""
    d2, d3 = g1 - g2, g3 - _up(g0, K)
    share2, share3 = _sum(d2 * e2, K), _sum(d3 * e3, K)
    g0, g1, g2, g3 = g0 + v3 * _down(d3, K), g1 - t2 * d2, g2 + t2 * d2, g3 - t3 * d3
    d0, d1 = g0 - g1, g2 - g3
    share0, share1 = _sum(d0 * e0, K), _sum(d1 * e1, K)
    return g0 - t0 * d0, g1 + t0 * d0, g2 - t1 * d1, g3 + t1 * d1, share0, share1, share2, share3


@triton.jit
def _turn(low, high, share, gap, live, steepness, SWAP: tl.constexpr, ART: tl.constexpr):
    """How a comparator's dL/dσ turns the gradient of its keys: from the low one, onto the high one."""
    steep = tl.where(live, slope(gap, steepness, ART, SWAP), 0.0)
    share += tl.where(gap == 0, 0.0, (high - low) * gap)
    return tl.where(steep == 0, 0.0, steep * share)


@triton.jit
def _keys_back_pair(
    g0, g1, g2, g3, f0, f1, f2, f3, d0, d1, d2, d3, share0, share1, share2, share3,
    pair, real, steepness, SWAP: tl.constexpr, ART: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """The gradient of the keys back through two layers."""
    s0, t0 = unfolded(f0)
    s1, t1 = unfolded(f1)
    s2, t2 = unfolded(f2)
    s3, t3 = unfolded(f3)
    live0, live1, live2, live3 = _live(pair, real, K)
    first = _lane() % K == 0
    above, below = _up(g0, K), _down(g3, K)
    u3, v3 = _below(f3, K)
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
def _store_keys(gkeys, keys, stride_wire, h0, h1, h2, h3, n, bad, there, K: tl.constexpr):
    """The gradient of a row's keys; none to infinities, nor in a row with a nan."""
    x0, x1, x2, x3 = _load_wires(keys, stride_wire, tl.where(there, n, 0), K)
    _store_gradient(gkeys, x0, h0, 0, n, bad, there, K)
    _store_gradient(gkeys, x1, h1, 1, n, bad, there, K)
    _store_gradient(gkeys, x2, h2, 2, n, bad, there, K)
    _store_gradient(gkeys, x3, h3, 3, n, bad, there, K)


@triton.jit
def _store_gradient(gkeys, x, h, slot: tl.constexpr, n, bad, there, K: tl.constexpr):
    wire = 4 * (_lane() % K) + slot
    tl.store(gkeys + wire, tl.where(bad | (tl.abs(x) == float("inf")), 0.0, h), there & (wire < n))


@triton.jit
def _carry_keys_back(
    keys, grad, folds, gaps, shares, gkeys, count, row, there, n, outputs, stride_row, stride_wire, grad_row, grad_wire,
    steep, rest, SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """All layers in reverse on the gradient of the keys, of one row for each K lanes."""
    dtype = gaps.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    pairs = (n + 1) // 2
    _x0, _x1, _x2, _x3, real, bad = _load_keys(keys, row, there, count, n, stride_row, stride_wire, COUNTED, K)
    zero = tl.zeros((1, 32), dtype)
    h0, h1, h2, h3 = zero, zero, zero, zero
    if grad is not None:
        h0, h1, h2, h3 = _load_wires(grad + row * grad_row, grad_wire, tl.where(there, outputs, 0), K)
    from_here = (row * pairs + pairs - 1) * 4 * K + _lane() % K
    f0, f1, f2, f3 = _read_quads(folds + from_here, K, there)
    d0, d1, d2, d3 = _read_quads(gaps + from_here, K, there)
    share0, share1, share2, share3 = zero, zero, zero, zero
    if shares is not None:
        share0, share1, share2, share3 = _read_quads(shares + from_here, K, there)
    for step in range(pairs):
        pair = pairs - 1 - step
        before = from_here - (step + 1) * 4 * K
        more = there & (_lane() * 0 + pair > 0)
        next_f0, next_f1, next_f2, next_f3 = _read_quads(folds + before, K, more)
        next_d0, next_d1, next_d2, next_d3 = _read_quads(gaps + before, K, more)
        next_share0, next_share1, next_share2, next_share3 = zero, zero, zero, zero
        if shares is not None:
            next_share0, next_share1, next_share2, next_share3 = _read_quads(shares + before, K, more)
        h0, h1, h2, h3 = _keys_back_pair(
            h0, h1, h2, h3, f0, f1, f2, f3, d0, d1, d2, d3, share0, share1, share2, share3,
            pair, real, steepness, SWAP, ART, K,
        )  # fmt: skip
        f0, f1, f2, f3, d0, d1, d2, d3 = next_f0, next_f1, next_f2, next_f3, next_d0, next_d1, next_d2, next_d3
        share0, share1, share2, share3 = next_share0, next_share1, next_share2, next_share3
    _store_keys(gkeys + row * n, keys + row * stride_row, stride_wire, h0, h1, h2, h3, n, bad, there, K)
