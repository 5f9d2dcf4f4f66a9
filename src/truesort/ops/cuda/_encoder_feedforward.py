"""The feed-forward of the encoder, whose hidden layer of thousands is never written.

Forward, a program owns some rows and some hidden units and leaves its part of the sum over the hidden. Backward, it
owns some hidden units, computes them again for one tile of rows after another, and so sums the gradients of their
weights by itself; the hidden units are shared out over enough programs to fill a GPU, and the rows over a few.
"""

import triton
import triton.language as tl

from ._encoder_parts import kept, normal, normal_back, settled, standard, times, total


@triton.jit
def _units(widen_ptr, bias_ptr, narrow_ptr, f, F: tl.constexpr, D: tl.constexpr):
    """The weights into hidden units (D, units), their biases, and the weights out of them (D, units)."""
    d = tl.arange(0, D)[:, None]
    into = tl.load(widen_ptr + f[None, :] * D + d)
    return into, tl.load(bias_ptr + f)[None, :], tl.load(narrow_ptr + d * F + f[None, :])


@triton.jit
def feed(
    parts_ptr, merge_bias_ptr, seeds_ptr, x_ptr, norm_ptr, shift_ptr, before_ptr, y_ptr,
    widen_ptr, widen_bias_ptr, narrow_ptr, out_ptr, M,
    D: tl.constexpr, F: tl.constexpr, R: tl.constexpr, C: tl.constexpr, UNITS: tl.constexpr,
    PARTS: tl.constexpr, DROP: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """Forward: add up the heads, normalise, and send it through UNITS of the F hidden units, C at a time."""
    split = tl.program_id(1)
    row = tl.program_id(0) * R + tl.arange(0, R)
    at, there = row[:, None] * D + tl.arange(0, D)[None, :], (row < M)[:, None]
    x = tl.load(x_ptr + at, mask=there, other=0.0)
    before = settled(parts_ptr, merge_bias_ptr, seeds_ptr + 1, x, at, there, M, D, PARTS, DROP)
    y = normal(before, norm_ptr, shift_ptr, D, EPS)
    if split == 0:
        tl.store(before_ptr + at, before, mask=there)
        tl.store(y_ptr + at, y, mask=there)
    out = tl.zeros((R, D), tl.float32)
    for start in range(0, UNITS, C):
        f = split * UNITS + start + tl.arange(0, C)
        into, bias, outof = _units(widen_ptr, widen_bias_ptr, narrow_ptr, f, F, D)
        hidden = tl.maximum(times(y, into) + bias, 0.0)
        hidden = kept(hidden, seeds_ptr + 2, row[:, None] * F + f[None, :], DROP)
        out += times(hidden, tl.trans(outof))
    tl.store(out_ptr + split * M * D + at, out, mask=there)


@triton.jit
def feed_back(
    parts_ptr, seeds_ptr, norm_ptr, before_ptr, y_ptr, widen_ptr, widen_bias_ptr, narrow_ptr, out_ptr, sums_ptr, M,
    D: tl.constexpr, F: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
    PARTS: tl.constexpr, DROP: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """Backward for C hidden units, which lie down the tiles, because the warps do, and a share of the rows."""
    chunk, share = tl.program_id(0), tl.program_id(1)
    c, f = tl.arange(0, D), chunk * C + tl.arange(0, C)
    dinto, doutof, dbias = tl.zeros((C, D), tl.float32), tl.zeros((C, D), tl.float32), tl.zeros((C,), tl.float32)
    dout, dnorm, dshift = tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32), tl.zeros((D,), tl.float32)
    for start in range(share * R, M, tl.num_programs(1) * R):
        row = start + tl.arange(0, R)
        at, there = row[:, None] * D + c[None, :], (row < M)[:, None]
        grad = total(parts_ptr, at, there, M, D, PARTS)
        rows, scale = standard(tl.load(before_ptr + at, mask=there, other=0.0), D, EPS)
        dnorm += tl.sum(grad * rows, 0)
        dshift += tl.sum(grad, 0)
        residual = normal_back(grad, rows, scale, norm_ptr, D)
        grad = kept(residual, seeds_ptr + 3, at, DROP)
        dout += tl.sum(grad, 0)
        into = tl.load(widen_ptr + f[:, None] * D + c[None, :])
        outof = tl.load(narrow_ptr + c[None, :] * F + f[:, None])
        bias = tl.load(widen_bias_ptr + f)[:, None]
        y = tl.load(y_ptr + at, mask=there, other=0.0)
        wide = times(into, tl.trans(y)) + bias
        live = kept(tl.where(wide > 0, 1.0, 0.0), seeds_ptr + 2, row[None, :] * F + f[:, None], DROP)
        doutof += times(wide * live, grad)
        dwide = times(outof, tl.trans(grad)) * live
        dinto += times(dwide, y)
        dbias += tl.sum(dwide, 1)
        dy = times(tl.trans(dwide), into)
        tl.store(out_ptr + chunk * M * D + at, tl.where(chunk == 0, dy + residual, dy), mask=there)
    sums_ptr += share * (2 * D * F + F + 3 * D)
    tl.store(sums_ptr + f[:, None] * D + c[None, :], dinto)
    tl.store(sums_ptr + D * F + f, dbias)
    sums_ptr += D * F + F
    tl.store(sums_ptr + c[None, :] * F + f[:, None], doutof)
    sums_ptr += D * F
    if chunk == 0:
        tl.store(sums_ptr + c, dout)
        tl.store(sums_ptr + D + c, dnorm)
        tl.store(sums_ptr + 2 * D + c, dshift)


@triton.jit
def finish(
    parts_ptr, bias_ptr, seeds_ptr, y_ptr, norm_ptr, shift_ptr, before_ptr, out_ptr, M,
    D: tl.constexpr, R: tl.constexpr, PARTS: tl.constexpr, DROP: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    """The end of the last layer: add up the parts of its feed-forward and normalise."""
    row = tl.program_id(0) * R + tl.arange(0, R)
    at, there = row[:, None] * D + tl.arange(0, D)[None, :], (row < M)[:, None]
    y = tl.load(y_ptr + at, mask=there, other=0.0)
    before = settled(parts_ptr, bias_ptr, seeds_ptr + 3, y, at, there, M, D, PARTS, DROP)
    tl.store(before_ptr + at, before, mask=there)
    tl.store(out_ptr + at, normal(before, norm_ptr, shift_ptr, D, EPS), mask=there)
