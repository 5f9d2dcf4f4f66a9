"""The curves of relaxations.py over arrays of gaps, for compiled code.

All curves are even: with low = σ(−|d|) the small side, the two weights of a comparator are low and 1 − low, and which
is which depends on the sign of the gap. So one expensive evaluation serves both, and one number with a sign, the fold,
says all about a comparator: its two wires change places if there is a minus sign (also before a 0), then each gives the
part |fold| ≤ ½ of itself to the other. An infinite gap (also that between wires which do not compare) has fold ±0 and
slope 0 exactly.
"""

import math
from typing import Any

import numpy as np

from ...relaxations import ART_FLOOR, CURVES, GAUSSIAN_TAIL, LOGISTIC_TAIL
from ._jit import inlined, jit
from ._simd import at, get, like_sign, line, put, select, size, spread
from ._wires import skipped

CODES = {name: code for code, name in enumerate(CURVES)}
_LOGISTIC, _ART, _RECIPROCAL, _CAUCHY, _GAUSSIAN, _OPTIMAL = (
    CODES[name] for name in ("logistic", "logistic_art", "reciprocal", "cauchy", "gaussian", "optimal")
)


@inlined
def weigh(curve: Any, table: Any, gap: Any, fold: Any, span: Any) -> None:
    """Fill `fold` with the smaller of σ(gap) and σ(−gap), with a minus sign where it is σ(gap)."""
    rows = gap.shape[1]
    begin, to = (span[1] - skipped(gap, table, span)) * rows, (span[1] - skipped(fold, table, span)) * rows
    end = begin + (span[2] - span[1]) * rows
    if curve[0] != _OPTIMAL and curve[0] != _RECIPROCAL:
        _weigh_one_by_one(curve, gap, fold, begin, end, to - begin)
    elif rows == len(line(gap)):
        _weigh(curve, gap, fold, begin, end, to - begin, line(gap))
    else:
        _weigh(curve, gap, fold, begin, end, to - begin, ())


@inlined
def _weigh(curve: Any, gap: Any, fold: Any, begin: int, end: int, ahead: int, lanes: Any) -> None:
    real, step = gap.dtype.type, max(len(lanes), 1)
    k, one = spread(real(curve[1]), lanes), spread(real(1), lanes)
    if curve[0] == _RECIPROCAL:
        two = spread(real(2), lanes)
        for e in range(begin, end, step):
            d = get(gap, e, lanes)
            put(fold, e + ahead, like_sign(one / (two + size(k * d)), d))
        return
    half, quarter, sixteen = spread(real(0.5), lanes), spread(real(0.25), lanes), spread(real(16), lanes)
    for e in range(begin, end, step):
        d = get(gap, e, lanes)
        v = size(k * d)
        low = select(v <= quarter, half - v, one / (sixteen * v))
        put(fold, e + ahead, like_sign(low, d))


@jit
def _weigh_one_by_one(curve: Any, gap: Any, fold: Any, begin: int, end: int, ahead: int) -> None:
    swap, real = curve[0], gap.dtype.type
    k, one, zero = real(curve[1]), real(1), real(0)
    for e in range(begin, end):
        d = at(gap, e)
        if swap == _CAUCHY:
            low = math.atan2(one, abs(k * d)) * real(1 / math.pi)
        elif math.isinf(d):
            low = zero
        elif swap == _GAUSSIAN:
            low = math.erfc(min(abs(k * d), real(GAUSSIAN_TAIL)) * real(math.sqrt(0.5))) * real(0.5)
        else:
            v = _steepened(curve, d) if swap == _ART else abs(k * d)
            e_v = math.exp(-min(v, real(LOGISTIC_TAIL)))
            low = e_v / (one + e_v)
        put(fold, e + ahead, like_sign(low, d))


@jit
def _steepened(curve: Any, d: Any) -> Any:
    floor = np.float64(d) ** 2 + ART_FLOOR**2
    return type(d)(abs(curve[1] * d) / floor ** (0.5 * curve[2]))


@inlined
def slopes(curve: Any, table: Any, gap: Any, fold: Any, slope: Any, span: Any) -> None:
    """Fill `slope` = dσ/dd at the gap, where `fold` is what `weigh` says there."""
    rows = gap.shape[1]
    begin, end = span[1] * rows, span[2] * rows
    of_gap, of_fold = skipped(gap, table, span) * rows, skipped(fold, table, span) * rows
    before = of_gap, of_fold, skipped(slope, table, span) * rows
    if curve[0] == _GAUSSIAN or curve[0] == _ART:
        _slopes_one_by_one(curve, gap, fold, slope, begin, end, before)
    elif rows == len(line(gap)):
        _slopes(curve, gap, fold, slope, begin, end, before, line(gap))
    else:
        _slopes(curve, gap, fold, slope, begin, end, before, ())


@inlined
def _slopes(curve: Any, gap: Any, fold: Any, slope: Any, begin: int, end: int, before: Any, lanes: Any) -> None:
    swap, real = curve[0], gap.dtype.type
    k, one, inverse_pi = spread(real(curve[1]), lanes), spread(real(1), lanes), spread(real(1 / math.pi), lanes)
    quarter, sixteen = spread(real(0.25), lanes), spread(real(16), lanes)
    for e in range(begin, end, max(len(lanes), 1)):
        low, v = size(get(fold, e - before[1], lanes)), size(k * get(gap, e - before[0], lanes))
        if swap == _OPTIMAL:
            steep = k / select(v <= quarter, one, sixteen * v * v)
        elif swap == _RECIPROCAL:
            steep = k * low * low
        elif swap == _CAUCHY:
            steep = k * (inverse_pi / (one + v * v))
        else:
            steep = k * (one - low) * low
        put(slope, e - before[2], steep)


@jit
def _slopes_one_by_one(curve: Any, gap: Any, fold: Any, slope: Any, begin: int, end: int, before: Any) -> None:
    real = gap.dtype.type
    k, one, zero = real(curve[1]), real(1), real(0)
    for e in range(begin, end):
        d, low = at(gap, e - before[0]), size(at(fold, e - before[1]))
        if curve[0] == _GAUSSIAN:
            v = min(abs(k * d), real(GAUSSIAN_TAIL))
            bell = math.exp(-v * v * real(0.5)) * real(1 / math.sqrt(2 * math.pi))
            steep = zero if math.isinf(d) else k * bell
        else:
            steep = k * (one - low) * low
            steep = steep * _art_inner(curve, d) if steep != 0 else steep
        put(slope, e - before[2], steep)


@jit
def _art_inner(curve: Any, d: Any) -> Any:
    floor = np.float64(d) ** 2 + ART_FLOOR**2
    return type(d)((1 - curve[2] * np.float64(d) ** 2 / floor) / floor ** (0.5 * curve[2]))
