"""The soft swap curves of relaxations.py as Triton functions, for every kernel of the CUDA backend.

A curve gives only its small side, at |v|; both weights of a comparator follow from that one value, so neither is ever
1 − (nearly 1). Arcus tangent and the complementary error function are our own fits (to 1e-17 and 3e-16), because
Triton's interpreter, in which these kernels are tested without a GPU, has neither.
"""

import triton
import triton.language as tl


@triton.jit
def _arctan(x):
    """The arcus tangent of 0 ≤ x ≤ 1, folded to arguments below tan(π/8)."""
    far = x > 0.41421356237309503
    x = tl.where(far, (x - 1.0) / (x + 1.0), x)
    s = x * x
    p = s * -0.017805397205419446 + 0.03796525745386593
    p = (p * s - 0.05035102456601552) * s + 0.05846878297330872
    p = (p * s - 0.06662951813629191) * s + 0.07692045330902225
    p = (p * s - 0.09090896809064027) * s + 0.11111110744919658
    p = (p * s - 0.14285714279250245) * s + 0.19999999999940893
    p = (p * s - 0.3333333333333312) * s + 1.0
    return x * p + far.to(x.dtype) * 0.7853981633974483


@triton.jit
def _erfc(z):
    """The complementary error function of 0 ≤ z ≤ 7.5, as t·exp(p(t) − z²) with t = 2/(2 + z)."""
    t = 2.0 / (2.0 + z)
    y = (t - 0.21052631578947367) * 2.533333333333333 - 1.0
    p = y * -1.501612856580281e-09 + 1.5556633316402009e-09
    p = (p * y + 1.4398346036703166e-08) * y - 3.1415498229822644e-08
    p = (p * y - 4.630486125422603e-08) * y + 2.706714732221091e-07
    p = (p * y - 2.013914194018804e-07) * y - 1.278778436813991e-06
    p = (p * y + 3.4683346978942193e-06) * y + 1.8980859460105118e-06
    p = (p * y - 2.4285302568976796e-05) * y + 2.6109041337471854e-05
    p = (p * y + 0.00011373667166393469) * y - 0.00032664168646808004
    p = (p * y - 0.0003431022911220869) * y + 0.0027411487950111326
    p = (p * y - 6.511503452337181e-05) * y - 0.025158695704689527
    p = (p * y + 0.00994397835007951) * y + 0.5416286473485438
    p = p * y - 0.528539873841562
    square = z * z
    rest = tl.fma(z, z, -square)  # what rounding took from z², which the exponential would magnify
    return t * tl.exp(p - square) * (1.0 - rest)


@triton.jit
def _floor(size):
    """hypot(size, 1e-4), without overflow."""
    big = tl.maximum(size, 1.0)
    ratio = 1e-4 / big
    return tl.where(size > 1.0, big * tl.sqrt(1.0 + ratio * ratio), tl.sqrt(tl.minimum(size, 1.0) * size + 1e-8))


@triton.jit
def _power(x, exponent: tl.constexpr):
    return tl.exp2(exponent * tl.log2(x))


@triton.jit
def _scaled(size, steepness, art: tl.constexpr, swap: tl.constexpr):
    """|v| from |d|."""
    u = steepness * size
    if swap == "logistic_art":
        u = u / _power(_floor(tl.minimum(size, 1e30)), art)
    return u


@triton.jit
def small_side(gap, steepness, art: tl.constexpr, swap: tl.constexpr):
    """min(σ, τ): ½ at a tie, 0 for an infinite gap."""
    size = tl.abs(gap)
    u = _scaled(size, steepness, art, swap)
    if swap == "optimal":
        small = tl.where(u <= 0.25, 0.5 - u, 0.0625 / u)
    elif swap == "reciprocal":
        small = 1.0 / (2.0 + u)
    elif swap == "cauchy":
        beyond = u > 1.0
        angle = _arctan(tl.where(beyond, 1.0 / tl.maximum(u, 1.0), u)) * 0.3183098861837907
        small = tl.where(beyond, angle, 0.5 - angle)
    elif swap == "gaussian":
        small = 0.5 * _erfc(tl.minimum(u, 10.5) * 0.7071067811865476)
    else:
        away = tl.exp(-tl.minimum(u, 60.0))
        small = away / (1.0 + away)
    return tl.where(size == float("inf"), 0.0, small)


@triton.jit
def weights(gap, live, steepness, art: tl.constexpr, swap: tl.constexpr):
    """(σ, τ): what a wire of the comparator keeps and what it takes from the other; (1, 0) where it is not live."""
    small = small_side(gap, steepness, art, swap)
    stay = tl.where(gap < 0, small, 1.0 - small)
    leave = tl.where(gap > 0, small, 1.0 - small)
    return tl.where(live, stay, 1.0), tl.where(live, leave, 0.0)


@triton.jit
def folded(gap, live, steepness, art: tl.constexpr, swap: tl.constexpr):
    """Both weights in one number: the small side, with the sign of the gap; +0 where the comparator is not live."""
    small = small_side(gap, steepness, art, swap)
    return tl.where(live, tl.where(gap < 0, small * -1.0, small), 0.0)  # unary minus would lose −0


@triton.jit
def unfolded(fold):
    """(σ, τ) from what `folded` made of them; −0 is (0, 1)."""
    if fold.dtype == tl.float64:
        swapped = fold.to(tl.int64, bitcast=True) < 0
    else:
        swapped = fold.to(tl.int32, bitcast=True) < 0
    small = tl.abs(fold)
    return tl.where(swapped, small, 1.0 - small), tl.where(swapped, 1.0 - small, small)


@triton.jit
def slope(gap, steepness, art: tl.constexpr, swap: tl.constexpr):
    """dσ/dgap; 0 for an infinite gap."""
    size = tl.abs(gap)
    endless = size == float("inf")
    size = tl.where(endless, 0.0, size)
    u = _scaled(size, steepness, art, swap)
    if swap == "optimal":
        held = tl.maximum(u, 0.25)
        steep = tl.where(u <= 0.25, 1.0, 0.0625 / held / held)
    elif swap == "reciprocal":
        steep = 1.0 / (2.0 + u) / (2.0 + u)
    elif swap == "cauchy":
        steep = 0.3183098861837907 / (1.0 + u * u)
    elif swap == "gaussian":
        held = tl.minimum(u, 10.5)
        steep = 0.3989422804014327 * tl.exp(-0.5 * held * held)
    else:
        away = tl.exp(-tl.minimum(u, 60.0))
        steep = away / (1.0 + away) / (1.0 + away)
    inner = steepness
    if swap == "logistic_art":
        floor = _floor(size)
        part = size / floor
        inner = steepness * (1.0 - art * part * part) / _power(floor, art)
    return tl.where(endless, 0.0, steep * inner)


@triton.jit
def mix(mine, other, stay, leave):
    """What a wire carries afterwards; a weight of exactly 0 or 1 passes bits through, also those of an infinity."""
    mixed = stay * mine + leave * other
    return tl.where(leave == 0, mine, tl.where(stay == 0, other, mixed))


@triton.jit
def gap_of(low, high):
    """The gap of a comparator's wires, 0 for equal ones (also two equal infinities)."""
    return tl.where(low == high, 0.0, high - low)
