"""The curves of relaxations.py over arrays of gaps, for compiled code.

All curves are even: with low = σ(−|d|) the small side, the two weights of a comparator are low and 1 − low, and which
is which depends on the sign of the gap. So one expensive evaluation serves both, and the loops stay simple enough for
the compiler to vectorise. An infinite gap (also that between wires which do not compare) has low = 0 exactly, slope 0.
"""

import math
from typing import Any

import numpy as np

from ...relaxations import ART_FLOOR, CURVES, GAUSSIAN_TAIL, LOGISTIC_TAIL
from ._jit import jit

CODES = {name: code for code, name in enumerate(CURVES)}
_LOGISTIC, _ART, _RECIPROCAL, _CAUCHY, _GAUSSIAN, _OPTIMAL = (
    CODES[name] for name in ("logistic", "logistic_art", "reciprocal", "cauchy", "gaussian", "optimal")
)


@jit
def weigh(curve: Any, gap: Any, stay: Any, leave: Any) -> None:
    """Fill `stay` = σ(gap) and `leave` = σ(−gap)."""
    gap, stay, leave = gap.reshape(-1), stay.reshape(-1), leave.reshape(-1)
    _small_side(curve, gap, leave)
    one, zero = gap.dtype.type(1), gap.dtype.type(0)
    for e in range(gap.size):
        d, low = gap[e], leave[e]
        stay[e] = low if d < zero else one - low
        leave[e] = low if d > zero else one - low


@jit
def _small_side(curve: Any, gap: Any, low: Any) -> None:
    swap, real = curve[0], gap.dtype.type
    k, one, zero = real(curve[1]), real(1), real(0)
    if swap == _OPTIMAL:
        half, quarter, sixteen = real(0.5), real(0.25), real(16)
        for e in range(gap.size):
            v = abs(k * gap[e])
            low[e] = half - v if v <= quarter else one / (sixteen * max(v, quarter))
    elif swap == _RECIPROCAL:
        two = real(2)
        for e in range(gap.size):
            low[e] = one / (two + abs(k * gap[e]))
    elif swap == _CAUCHY:
        scale = real(1 / math.pi)
        for e in range(gap.size):
            low[e] = math.atan2(one, abs(k * gap[e])) * scale
    elif swap == _GAUSSIAN:
        for e in range(gap.size):
            v = min(abs(k * gap[e]), real(GAUSSIAN_TAIL))
            low[e] = zero if math.isinf(gap[e]) else math.erfc(v * real(math.sqrt(0.5))) * real(0.5)
    else:
        for e in range(gap.size):
            d = gap[e]
            v = _steepened(curve, d) if swap == _ART else abs(k * d)
            e_v = math.exp(-min(v, real(LOGISTIC_TAIL)))
            low[e] = zero if math.isinf(d) else e_v / (one + e_v)


@jit
def _steepened(curve: Any, d: Any) -> Any:
    floor = np.float64(d) ** 2 + ART_FLOOR**2
    return type(d)(abs(curve[1] * d) / floor ** (0.5 * curve[2]))


@jit
def slopes(curve: Any, gap: Any, stay: Any, leave: Any, slope: Any) -> None:
    """Fill `slope` = dσ/dd at the gap, where `stay` and `leave` are the curve's weights there."""
    gap, stay, leave, slope = gap.reshape(-1), stay.reshape(-1), leave.reshape(-1), slope.reshape(-1)
    swap, real = curve[0], gap.dtype.type
    k, one = real(curve[1]), real(1)
    if swap == _OPTIMAL:
        quarter, sixteen = real(0.25), real(16)
        for e in range(gap.size):
            v = max(abs(k * gap[e]), quarter)
            slope[e] = k / (sixteen * v * v)
    elif swap == _RECIPROCAL:
        for e in range(gap.size):
            low = min(stay[e], leave[e])
            slope[e] = k * low * low
    elif swap == _CAUCHY:
        for e in range(gap.size):
            v = k * gap[e]
            slope[e] = k * (real(1 / math.pi) / (one + v * v))
    elif swap == _GAUSSIAN:
        for e in range(gap.size):
            v = min(abs(k * gap[e]), real(GAUSSIAN_TAIL))
            bell = math.exp(-v * v * real(0.5)) * real(1 / math.sqrt(2 * math.pi))
            slope[e] = real(0) if math.isinf(gap[e]) else k * bell
    else:
        for e in range(gap.size):
            bell = k * stay[e] * leave[e]
            slope[e] = bell * _art_inner(curve, gap[e]) if swap == _ART and bell != 0 else bell


@jit
def _art_inner(curve: Any, d: Any) -> Any:
    floor = np.float64(d) ** 2 + ART_FLOOR**2
    return type(d)((1 - curve[2] * np.float64(d) ** 2 / floor) / floor ** (0.5 * curve[2]))
