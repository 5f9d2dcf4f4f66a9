"""Blocks of payload columns on their way through a network; P is the payload identity.

Columns never meet, so a block of them small enough for the first-level cache passes all layers before the next begins.
An item reaches a wire only step by step: comparators that can only mix zeros with zeros are left out (`reach`), which
saves a third of the work of a large odd-even network.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from ...networks import SortingNetwork
from ._jit import entry, jit
from ._simd import at, exchange, mix, mix_and_keep, unmix, unmix_hard


def everywhere(network: SortingNetwork) -> tuple[Any, Any]:
    """The first comparator of each layer and the one after the last, for blocks that may be non-zero anywhere."""
    return network.start[None, :-1], network.start[None, 1:]


@lru_cache(maxsize=256)
def reach(network: SortingNetwork, width: int) -> tuple[Any, Any]:
    """As `everywhere`, of each block of `width` items, counting only comparators that its items can reach."""
    blocks = -(-network.n // width)
    first = np.zeros((blocks, network.depth), np.int32)
    last = np.zeros_like(first)
    _reach(network.low, network.high, network.start, width, network.n, first, last)
    return first, last


@entry
def _reach(low: Any, high: Any, start: Any, width: int, n: int, first: Any, last: Any) -> None:
    touched = np.zeros(n, np.bool_)
    for block in range(first.shape[0]):
        touched[:] = False
        touched[block * width : (block + 1) * width] = True
        for layer in range(first.shape[1]):
            begin, end = start[layer + 1], start[layer]
            for c in range(start[layer], start[layer + 1]):
                if touched[low[c]] or touched[high[c]]:
                    touched[low[c]] = touched[high[c]] = True
                    begin, end = min(begin, c), c + 1
            first[block, layer], last[block, layer] = min(begin, end), end


@jit
def columns_down(state: Any, low: Any, high: Any, stay: Any, leave: Any, first: Any, last: Any, lanes: Any) -> None:
    """All layers on one block."""
    width = len(lanes)
    for layer in range(first.size):
        for c in range(np.intp(at(first, layer)), np.intp(at(last, layer))):
            i, j, s, t = at(low, c) * width, at(high, c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                exchange(state, i, j, lanes)
            else:
                mix(state, i, j, s, t, lanes)


@jit
def columns_down_keeping(
    state: Any, kept: Any, low: Any, high: Any, stay: Any, leave: Any, first: Any, last: Any, lanes: Any
) -> None:
    """As `columns_down`, keeping each comparator's difference for `columns_up`."""
    width = len(lanes)
    for layer in range(first.size):
        for c in range(np.intp(at(first, layer)), np.intp(at(last, layer))):
            i, j, s, t = at(low, c) * width, at(high, c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                exchange(state, i, j, lanes)
            else:
                mix_and_keep(state, kept, i, j, c * width, s, t, lanes)


@jit
def columns_up(
    grad: Any, kept: Any, low: Any, high: Any, stay: Any, leave: Any, first: Any, last: Any, push: Any, lanes: Any
) -> None:
    """All layers in reverse on one block's gradient; adds the block's share of dL/dσ to `push`."""
    width = len(lanes)
    for layer in range(first.size - 1, -1, -1):
        for c in range(np.intp(at(first, layer)), np.intp(at(last, layer))):
            i, j, s, t = at(low, c) * width, at(high, c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                exchange(grad, i, j, lanes)
            else:
                push[c] += unmix(grad, kept, i, j, c * width, s, t, lanes)


@jit
def unit_columns(state: Any, n: int, begin: int, lanes: Any) -> None:
    """The columns from `begin` on of the identity of n wires."""
    width = len(lanes)
    state[:] = 0
    for lane in range(min(width, n - begin)):
        state[(begin + lane) * width + lane] = 1


@jit
def take_columns(state: Any, payload: Any, begin: int, lanes: Any) -> None:
    """The columns from `begin` on of the payload (n, c)."""
    width = len(lanes)
    size = min(width, payload.shape[1] - begin)
    for wire in range(payload.shape[0]):
        for lane in range(size):
            state[wire * width + lane] = payload[wire, begin + lane]
        for lane in range(size, width):
            state[wire * width + lane] = 0


@jit
def give_columns(state: Any, payload: Any, begin: int, lanes: Any) -> None:
    """Write the block back."""
    width = len(lanes)
    size = min(width, payload.shape[1] - begin)
    for wire in range(payload.shape[0]):
        for lane in range(size):
            payload[wire, begin + lane] = state[wire * width + lane]


@jit
def columns_up_hard(
    grad: Any, p: Any, q: Any, low: Any, high: Any, stay: Any, leave: Any, first: Any, last: Any, offset: int,
    push: Any, lanes: Any,
) -> None:  # fmt: skip
    """As `columns_up` for the identity, where comparator c met whole items p[c] and q[c]: only four entries speak."""
    width = len(lanes)
    for layer in range(first.size - 1, -1, -1):
        for c in range(np.intp(at(first, layer)), np.intp(at(last, layer))):
            i, j, s, t = at(low, c) * width, at(high, c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                exchange(grad, i, j, lanes)
                continue
            a, b = at(p, c) - offset, at(q, c) - offset
            said = at(push, c)
            if 0 <= a < width:
                said += at(grad, i + a) - at(grad, j + a)
            if 0 <= b < width:
                said -= at(grad, i + b) - at(grad, j + b)
            push[c] = said
            mix(grad, i, j, s, t, lanes)


@jit
def payload_up_hard(
    grad: Any, payload: Any, p: Any, q: Any, low: Any, high: Any, stay: Any, leave: Any, first: Any, last: Any,
    push: Any, lanes: Any,
) -> None:  # fmt: skip
    """As `columns_up` for a payload, where comparator c met whole items p[c] and q[c]."""
    width = len(lanes)
    for layer in range(first.size - 1, -1, -1):
        for c in range(np.intp(at(first, layer)), np.intp(at(last, layer))):
            i, j, s, t = at(low, c) * width, at(high, c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                exchange(grad, i, j, lanes)
            else:
                push[c] += unmix_hard(grad, payload, i, j, at(p, c) * width, at(q, c) * width, s, t, lanes)
