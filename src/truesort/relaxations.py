"""The soft swaps: curves σ(d) of a gap d = b − a that say how surely a stays before b.

Each curve is written so that its small side is computed directly and never as 1 − (nearly 1): a permutation loss takes
logarithms of exactly those small numbers. The exponential curves hold v = steepness·d within ±TAIL, where σ is about
1e-26, and keep the slope they have there, so that a pair that is confidently wrong still gets the gradient of its
logarithm instead of 0/0 in float32.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

ART_FLOOR = 1e-4
"""Gaps far below this no longer steepen `logistic_art`: its slope at a tie is steepness / (4 · ART_FLOOR**art)."""

LOGISTIC_TAIL = 60.0
GAUSSIAN_TAIL = 10.5


def _held(v: Tensor, tail: float) -> Tensor:
    return v.detach().clamp(-tail, tail) + (v - v.detach())


def _side(v: Tensor, small: Tensor) -> Tensor:
    return torch.where(v < 0, small, 1 - small)


def _size(v: Tensor) -> Tensor:
    return torch.where(v < 0, -v, v)  # unlike abs, with a slope at 0


def _art(d: Tensor, steepness: float, art: float) -> Tensor:
    return steepness * d / torch.hypot(d, torch.full_like(d, ART_FLOOR)) ** art


def _logistic(v: Tensor) -> Tensor:
    return _side(v, torch.sigmoid(-_size(_held(v, LOGISTIC_TAIL))))


def _gaussian(v: Tensor) -> Tensor:
    return _side(v, torch.erfc(_size(_held(v, GAUSSIAN_TAIL)) / math.sqrt(2)) / 2)


def _reciprocal(v: Tensor) -> Tensor:
    return _side(v, 1 / (2 + _size(v)))


def _cauchy(v: Tensor) -> Tensor:
    return torch.atan2(torch.ones_like(v), -v) / math.pi


def _optimal(v: Tensor) -> Tensor:
    line = v.abs() <= 0.25
    outside = torch.where(line, 1.0, v)
    return torch.where(line, v + 0.5, _side(v, 1 / (16 * _size(outside))))


CURVES: dict[str, Callable[[Tensor], Tensor]] = {
    "logistic": _logistic,
    "logistic_art": _logistic,
    "reciprocal": _reciprocal,
    "cauchy": _cauchy,
    "gaussian": _gaussian,
    "optimal": _optimal,
}


def sigma(swap: str, d: Tensor, steepness: float = 1.0, art: float = 0.25) -> Tensor:
    """σ(d) of the curve `swap`; exactly 0 or 1 for an infinite gap. Differentiable twice."""
    if swap not in CURVES:
        raise ValueError(f"swap is {swap!r}; choose one of {', '.join(map(repr, CURVES))}")
    endless = d.isinf()
    finite = d.masked_fill(endless, 0)
    v = _art(finite, steepness, art) if swap == "logistic_art" else steepness * finite
    return torch.where(endless, (d > 0).to(d.dtype), CURVES[swap](v))


def _bell(v: Tensor) -> Tensor:
    low = torch.sigmoid(-v.clamp(-LOGISTIC_TAIL, LOGISTIC_TAIL).abs())
    return low * (1 - low)


SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "logistic": _bell,
    "logistic_art": _bell,
    "reciprocal": lambda v: (2 + v.abs()) ** -2,
    "cauchy": lambda v: 1 / (math.pi * (1 + v * v)),
    "gaussian": lambda v: torch.exp(-(v.clamp(-GAUSSIAN_TAIL, GAUSSIAN_TAIL) ** 2) / 2) / math.sqrt(2 * math.pi),
    "optimal": lambda v: torch.where(v.abs() <= 0.25, 1.0, 1 / (16 * v * v)),
}


def slope(swap: str, d: Tensor, steepness: float = 1.0, art: float = 0.25) -> Tensor:
    """dσ/dd of the curve `swap` in closed form, as the fused backends compute it; 0 for an infinite gap."""
    if swap not in SLOPES:
        raise ValueError(f"swap is {swap!r}; choose one of {', '.join(map(repr, SLOPES))}")
    endless = d.isinf()
    d = d.masked_fill(endless, 0)
    inner: Tensor | float = steepness
    v = steepness * d
    if swap == "logistic_art":
        v = _art(d, steepness, art)
        floor = torch.hypot(d, torch.full_like(d, ART_FLOOR))
        inner = steepness * (1 - art * (d / floor) ** 2) / floor**art
    return (SLOPES[swap](v) * inner).masked_fill(endless, 0)
