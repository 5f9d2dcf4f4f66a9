"""What the kernels of the encoder share: exact small products, normalisation, sums over parts, and dropout.

Dropout keeps no masks. Whether an element stays is a hash of its number and a random seed on the device, so that the
way back finds the same answer again. Torch's Philox, a generator for every purpose, would cost more than the layers.
"""

import triton
import triton.language as tl

WHOLE = tl.constexpr(2147483648)
"""Hashes are below it, and an element is kept where its own is at least `DROP`."""

AT_A_TIME = tl.constexpr(16)


@triton.jit
def times(a, b):
    """The product of two tiles, as exact as in float32: each factor as two numbers the matrix units take."""
    return tl.dot(a, b, input_precision="tf32x3")


@triton.jit
def hashed(seed_ptr, index):
    """A random number from 0 to WHOLE for each index; two halves of the seed go in at two stages."""
    seed = tl.load(seed_ptr)
    x = index.to(tl.uint32) + seed.to(tl.uint32)
    x = (x ^ (x >> 17)) * 0xED5AD4BB
    x = x ^ (seed >> 32).to(tl.uint32)
    x = (x ^ (x >> 11)) * 0xAC4C1B51
    x = (x ^ (x >> 15)) * 0x31848BAB
    return ((x ^ (x >> 14)) >> 1).to(tl.int32)


@triton.jit
def kept(values, seed_ptr, index, DROP: tl.constexpr):
    """Dropout: each value is 0 or grows by what makes up for the others."""
    if DROP:
        values = tl.where(hashed(seed_ptr, index) >= DROP, values * (WHOLE / (WHOLE - DROP)), 0.0)
    return values


@triton.jit
def total(parts_ptr, at, inside, M, D: tl.constexpr, PARTS: tl.constexpr):
    """The sum of the parts (PARTS, M, D) of some elements, always in the same order; a few are fetched at a time."""
    whole = tl.zeros_like(at).to(tl.float32)
    for first in range(0, PARTS, AT_A_TIME):
        for part in tl.static_range(AT_A_TIME):
            if part < PARTS:
                whole += tl.load(parts_ptr + (first + part) * M * D + at, mask=inside, other=0.0)
    return whole


@triton.jit
def settled(
    parts_ptr, bias_ptr, seed_ptr, base, at, inside, M, D: tl.constexpr, PARTS: tl.constexpr, DROP: tl.constexpr
):
    """The residual `base` plus what the programs of the launch before have found in parts."""
    found = total(parts_ptr, at, inside, M, D, PARTS) + tl.load(bias_ptr + tl.arange(0, D))[None, :]
    return base + kept(found, seed_ptr, at, DROP)


@triton.jit
def standard(x, D: tl.constexpr, EPS: tl.constexpr):
    """Rows less their means, over their deviations; and one over the deviations."""
    x = x - (tl.sum(x, 1) / D)[:, None]
    scale = tl.rsqrt(tl.sum(x * x, 1) / D + EPS)
    return x * scale[:, None], scale


@triton.jit
def normal(x, norm_ptr, shift_ptr, D: tl.constexpr, EPS: tl.constexpr):
    """Layer normalisation."""
    rows, _ = standard(x, D, EPS)
    d = tl.arange(0, D)
    return rows * tl.load(norm_ptr + d)[None, :] + tl.load(shift_ptr + d)[None, :]


@triton.jit
def normal_back(grad, rows, scale, norm_ptr, D: tl.constexpr):
    """The gradient before a layer normalisation whose standard rows are given."""
    grad = grad * tl.load(norm_ptr + tl.arange(0, D))[None, :]
    along = tl.sum(grad * rows, 1) / D
    return (grad - (tl.sum(grad, 1) / D)[:, None] - rows * along[:, None]) * scale[:, None]
