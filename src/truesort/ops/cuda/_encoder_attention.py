"""Attention of one head over a tile of whole sequences, and the way back.

A head is two to eight numbers wide and a sequence often three long, so a program takes several sequences as one tile
of rows, who see only their own, and its head padded to what the matrix units take. Each head ends in its own part of
the merged result; who reads the parts next adds them up, normalises, and saves a launch of its own.
"""

import triton
import triton.language as tl

from ._encoder_parts import kept, normal, normal_back, settled, standard, times, total


@triton.jit
def _head(w_ptr, b_ptr, head, PART: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr, PADDED: tl.constexpr):
    """Weights (D, PADDED) and biases of the queries, keys or values of a head."""
    c, d = tl.arange(0, D)[:, None], tl.arange(0, PADDED)
    row = PART * D + head * HEAD + d
    w = tl.load(w_ptr + row[None, :] * D + c, mask=(d < HEAD)[None, :], other=0.0)
    return w, tl.load(b_ptr + row, mask=d < HEAD, other=0.0)[None, :]


@triton.jit
def _merge(w_ptr, head, D: tl.constexpr, HEAD: tl.constexpr, PADDED: tl.constexpr):
    """The weights (PADDED, D) with which a head enters the merged result."""
    d, c = tl.arange(0, PADDED)[:, None], tl.arange(0, D)[None, :]
    return tl.load(w_ptr + c * D + head * HEAD + d, mask=d < HEAD, other=0.0)


@triton.jit
def _weighed(query, key, row, mask_ptr, inside, n, MASKED: tl.constexpr, R: tl.constexpr):
    """How much each row of the tile attends to each: a softmax over the real items of its sequence and itself."""
    local = tl.arange(0, R)
    seen = (local // n)[:, None] == (local // n)[None, :]
    if MASKED:
        seen = seen & (tl.load(mask_ptr + row, mask=inside, other=0) != 0)[None, :]
    seen = seen | (local[:, None] == local[None, :])
    logits = tl.where(seen, times(query, tl.trans(key)), float("-inf"))
    weights = tl.exp(logits - tl.max(logits, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None]


@triton.jit
def _index(row, head, n, HEADS: tl.constexpr, R: tl.constexpr):
    """The numbers of the attention weights (M, n, HEADS) for dropout."""
    return (row[:, None] * n + (tl.arange(0, R) % n)[None, :]) * HEADS + head


@triton.jit
def attend(
    x_ptr, mask_ptr, seeds_ptr, project_ptr, project_bias_ptr, merge_ptr, out_ptr,
    parts_ptr, bias_ptr, norm_ptr, shift_ptr, base_ptr, before_ptr, M, n, per,
    D: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr, PADDED: tl.constexpr, R: tl.constexpr,
    PARTS: tl.constexpr, MASKED: tl.constexpr, DROP: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """Forward. With PARTS, x is what the feed-forward of the layer before has left in parts, and is written, too."""
    tile, head, local = tl.program_id(0), tl.program_id(1), tl.arange(0, R)
    row = tile * per + local
    inside = (local < per) & (row < M)
    at, there = row[:, None] * D + tl.arange(0, D)[None, :], inside[:, None]
    if PARTS:
        base = tl.load(base_ptr + at, mask=there, other=0.0)
        before = settled(parts_ptr, bias_ptr, seeds_ptr - 1, base, at, there, M, D, PARTS, DROP)
        x = normal(before, norm_ptr, shift_ptr, D, EPS)
        if head == 0:
            tl.store(before_ptr + at, before, mask=there)
            tl.store(x_ptr + at, x, mask=there)
    else:
        x = tl.load(x_ptr + at, mask=there, other=0.0)
    wq, bq = _head(project_ptr, project_bias_ptr, head, 0, D, HEAD, PADDED)
    wk, bk = _head(project_ptr, project_bias_ptr, head, 1, D, HEAD, PADDED)
    wv, bv = _head(project_ptr, project_bias_ptr, head, 2, D, HEAD, PADDED)
    query = (times(x, wq) + bq) * HEAD**-0.5
    weights = _weighed(query, times(x, wk) + bk, row, mask_ptr, inside, n, MASKED, R)
    weights = kept(weights, seeds_ptr, _index(row, head, n, HEADS, R), DROP)
    mixed = times(weights, times(x, wv) + bv)
    part = times(mixed, _merge(merge_ptr, head, D, HEAD, PADDED))
    tl.store(out_ptr + head * M * D + at, part, mask=there)


@triton.jit
def attend_back(
    x_ptr, mask_ptr, seeds_ptr, project_ptr, project_bias_ptr, merge_ptr, norm_ptr, before_ptr, parts_ptr, out_ptr,
    sums_ptr, M, n, per,
    D: tl.constexpr, HEADS: tl.constexpr, HEAD: tl.constexpr, PADDED: tl.constexpr, R: tl.constexpr,
    PARTS: tl.constexpr, MASKED: tl.constexpr, DROP: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """Backward of a head for some tiles: its part of the gradient of x, and the sums of its parameters' gradients."""
    share, head = tl.program_id(0), tl.program_id(1)
    local, c = tl.arange(0, R), tl.arange(0, D)
    dwq, dwk = tl.zeros((D, PADDED), tl.float32), tl.zeros((D, PADDED), tl.float32)
    dwv, dwm = tl.zeros((D, PADDED), tl.float32), tl.zeros((PADDED, D), tl.float32)
    dbq, dbk, dbv = tl.zeros((PADDED,), tl.float32), tl.zeros((PADDED,), tl.float32), tl.zeros((PADDED,), tl.float32)
    dbm, dnorm, dshift = tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32)
    for start in range(share * per, M, tl.num_programs(0) * per):
        row = start + local
        inside = (local < per) & (row < M)
        at, there = row[:, None] * D + c[None, :], inside[:, None]
        grad = total(parts_ptr, at, there, M, D, PARTS)
        rows, scale = standard(tl.load(before_ptr + at, mask=there, other=0.0), D, EPS)
        dnorm += tl.sum(grad * rows, 0)
        dshift += tl.sum(grad, 0)
        residual = normal_back(grad, rows, scale, norm_ptr, D)
        grad = kept(residual, seeds_ptr + 1, at, DROP)
        dbm += tl.sum(grad, 0)
        wq, bq = _head(project_ptr, project_bias_ptr, head, 0, D, HEAD, PADDED)
        wk, bk = _head(project_ptr, project_bias_ptr, head, 1, D, HEAD, PADDED)
        wv, bv = _head(project_ptr, project_bias_ptr, head, 2, D, HEAD, PADDED)
        wm = _merge(merge_ptr, head, D, HEAD, PADDED)
        x = tl.load(x_ptr + at, mask=there, other=0.0)
        query = (times(x, wq) + bq) * HEAD**-0.5
        key, value = times(x, wk) + bk, times(x, wv) + bv
        weights = _weighed(query, key, row, mask_ptr, inside, n, MASKED, R)
        index = _index(row, head, n, HEADS, R)
        dropped = kept(weights, seeds_ptr, index, DROP)
        dwm += times(tl.trans(times(dropped, value)), grad)
        dmixed = times(grad, tl.trans(wm))
        dvalue = times(tl.trans(dropped), dmixed)
        dweights = kept(times(dmixed, tl.trans(value)), seeds_ptr, index, DROP)
        dlogits = weights * (dweights - tl.sum(weights * dweights, 1)[:, None])
        dquery, dkey = times(dlogits, key) * HEAD**-0.5, times(tl.trans(dlogits), query)
        dwq += times(tl.trans(x), dquery)
        dwk += times(tl.trans(x), dkey)
        dwv += times(tl.trans(x), dvalue)
        dbq += tl.sum(dquery, 0)
        dbk += tl.sum(dkey, 0)
        dbv += tl.sum(dvalue, 0)
        dx = times(dquery, tl.trans(wq)) + times(dkey, tl.trans(wk)) + times(dvalue, tl.trans(wv))
        tl.store(out_ptr + head * M * D + at, tl.where(head == 0, dx + residual, dx), mask=there)
    sums_ptr += share * (4 * D * D + 6 * D)
    _store_head(sums_ptr, head, dwq, dbq, 0, D, HEAD, PADDED)
    _store_head(sums_ptr, head, dwk, dbk, 1, D, HEAD, PADDED)
    _store_head(sums_ptr, head, dwv, dbv, 2, D, HEAD, PADDED)
    sums_ptr += 3 * D * D + 3 * D
    d = tl.arange(0, PADDED)[:, None]
    tl.store(sums_ptr + c[None, :] * D + head * HEAD + d, dwm, mask=d < HEAD)
    sums_ptr += D * D
    if head == 0:
        tl.store(sums_ptr + c, dbm)
        tl.store(sums_ptr + D + c, dnorm)
        tl.store(sums_ptr + 2 * D + c, dshift)


@triton.jit
def _store_head(sums_ptr, head, dw, db, PART: tl.constexpr, D: tl.constexpr, HEAD: tl.constexpr, PADDED: tl.constexpr):
    """Put the gradients of what `_head` loads in their place: weights (3 D, D), then biases."""
    c, d = tl.arange(0, D)[:, None], tl.arange(0, PADDED)
    row = PART * D + head * HEAD + d
    tl.store(sums_ptr + row[None, :] * D + c, dw, mask=(d < HEAD)[None, :])
    tl.store(sums_ptr + 3 * D * D + row, db, mask=d < HEAD)
