"""Blocks of payload columns on their way through a network; P is the payload identity.

Columns never meet, so a block of them small enough for the first-level cache passes all layers before the next begins.
An item reaches a wire only step by step: comparators that can only mix zeros with zeros are left out (`reach`), which
saves a third of the work of a large odd-even network. A comparator is symmetric, so a block may as well pass from the
outputs up to the inputs. What a fold is, `_curves` says.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from ...networks import SortingNetwork
from ._group import aligned
from ._jit import inlined, jit
from ._simd import at, get, get_some, line, put, put_some, select, signed, size, spread, total
from ._turn import turn_square


def everywhere(network: SortingNetwork) -> tuple[Any, Any]:
    """The first comparator of each layer and the one after the last, for blocks that may be non-zero anywhere."""
    return network.start[None, :-1], network.start[None, 1:]


@lru_cache(maxsize=256)
def reach(network: SortingNetwork, width: int, wires: int, upwards: bool) -> tuple[Any, Any]:
    """As `everywhere`, of each block of `width` of the first wires, counting only comparators that it can reach.

    Layers stand in the order in which a block passes them.
    """
    touched = np.arange(network.n) // width == np.arange(-(-wires // width))[:, None]
    first, last = np.zeros((2, len(touched), network.depth), np.int32)
    layers = list(enumerate(network.layers()))
    for step, (layer, (low, high, _)) in enumerate(reversed(layers) if upwards else layers):
        met = touched[:, low] | touched[:, high]
        touched[:, low] = touched[:, high] = met
        begin, size = network.start[layer], len(low)
        first[:, step] = begin + met.argmax(1)
        last[:, step] = np.where(met.any(1), begin + size - met[:, ::-1].argmax(1), first[:, step])
    return first, last


@jit
def unfold(fold: Any, stay: Any, leave: Any) -> None:
    """The weights of one row's comparators: what wires keep of their own, and what they take of the other's."""
    one, lanes = spread(fold.dtype.type(1), line(fold)), line(fold)
    for c in range(0, fold.size, len(lanes)):
        f = get(fold, c, lanes)
        little, much = size(f), one - size(f)
        put(stay, c, select(signed(f), little, much))
        put(leave, c, select(signed(f), much, little))


@inlined
def _exchange(state: Any, i: Any, j: Any, lanes: Any) -> None:
    """The wires swap what they carry, bit by bit."""
    a, b = get(state, i, lanes), get(state, j, lanes)
    put(state, i, b)
    put(state, j, a)


@inlined
def _share(state: Any, i: Any, j: Any, s: Any, t: Any, lanes: Any) -> Any:
    """The wires share what they carry; returns how much more was on the first one."""
    stay, leave = spread(s, lanes), spread(t, lanes)
    a, b = get(state, i, lanes), get(state, j, lanes)
    put(state, i, stay * a + leave * b)
    put(state, j, leave * a + stay * b)
    return a - b


@jit
def columns_pass(state: Any, table: Any, stay: Any, leave: Any, first: Any, last: Any, lanes: Any) -> None:
    """All layers on one block, in the order of `first` and `last`."""
    width = len(lanes)
    for step in range(first.size):
        for c in range(np.intp(at(first, step)), np.intp(at(last, step))):
            i, j, s, t = at(table[0], c) * width, at(table[1], c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                _exchange(state, i, j, lanes)
            else:
                _share(state, i, j, s, t, lanes)


@jit
def columns_pass_keeping(
    state: Any, kept: Any, table: Any, stay: Any, leave: Any, first: Any, last: Any, lanes: Any
) -> None:
    """As `columns_pass`, keeping each comparator's difference for `columns_return`."""
    width = len(lanes)
    for step in range(first.size):
        for c in range(np.intp(at(first, step)), np.intp(at(last, step))):
            i, j, s, t = at(table[0], c) * width, at(table[1], c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                _exchange(state, i, j, lanes)
            else:
                put(kept, c * width, _share(state, i, j, s, t, lanes))


@jit
def columns_return(
    grad: Any, kept: Any, table: Any, stay: Any, leave: Any, first: Any, last: Any, push: Any, lanes: Any
) -> None:
    """All layers in reverse on one block's gradient; adds the block's share of dL/dσ to `push`."""
    width = len(lanes)
    for step in range(first.size - 1, -1, -1):
        for c in range(np.intp(at(first, step)), np.intp(at(last, step))):
            i, j, s, t = at(table[0], c) * width, at(table[1], c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                _exchange(grad, i, j, lanes)
            else:
                push[c] += total(_share(grad, i, j, s, t, lanes) * get(kept, c * width, lanes))


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
    wires, columns = payload.shape
    for wire in range(wires):
        put(state, wire * len(lanes), get_some(payload, wire * columns + begin, columns - begin, lanes))


@jit
def give_columns(state: Any, payload: Any, begin: int, lanes: Any) -> None:
    """Write the block back."""
    wires, columns = payload.shape
    for wire in range(wires):
        put_some(payload, wire * columns + begin, columns - begin, get(state, wire * len(lanes), lanes))


@jit
def take_turned(state: Any, payload: Any, begin: int, lanes: Any) -> None:
    """The rows from `begin` on of the payload as columns, and zeros on wires beyond; by squares of one cache line."""
    width, edge, columns = len(lanes), len(line(state)), payload.shape[1]
    square = aligned(state, edge * edge)
    for wire in range(0, state.size // width, edge):
        for lane in range(0, width, edge):
            for row in range(edge):
                item = begin + lane + row
                there = columns - wire if item < payload.shape[0] else 0
                put(square, row * edge, get_some(payload, item * columns + wire, there, line(state)))
            turn_square(square, 0, edge, state, wire * width + lane, width, line(state))


@jit
def columns_up_hard(
    grad: Any, p: Any, q: Any, table: Any, stay: Any, leave: Any, first: Any, last: Any, offset: int, push: Any,
    lanes: Any,
) -> None:  # fmt: skip
    """As `columns_return` for the identity, where comparator c met whole items p[c] and q[c]: four entries speak."""
    width = len(lanes)
    for step in range(first.size - 1, -1, -1):
        for c in range(np.intp(at(first, step)), np.intp(at(last, step))):
            i, j, s, t = at(table[0], c) * width, at(table[1], c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                _exchange(grad, i, j, lanes)
                continue
            push[c] += _ahead(grad, i, j, at(p, c) - offset, width) - _ahead(grad, i, j, at(q, c) - offset, width)
            _share(grad, i, j, s, t, lanes)


@inlined
def _ahead(grad: Any, i: Any, j: Any, lane: Any, width: int) -> Any:
    """How much more wire i has in a lane, if this is a lane of ours; without a branch, which nobody could foresee."""
    ours = np.uint64(lane) < np.uint64(width)
    lane = select(ours, lane, lane - lane)
    return select(ours, at(grad, i + lane) - at(grad, j + lane), grad.dtype.type(0))


@jit
def payload_up_hard(
    grad: Any, payload: Any, p: Any, q: Any, table: Any, stay: Any, leave: Any, first: Any, last: Any, push: Any,
    lanes: Any,
) -> None:  # fmt: skip
    """As `columns_return` for a payload, where comparator c met whole items p[c] and q[c]."""
    width = len(lanes)
    for step in range(first.size - 1, -1, -1):
        for c in range(np.intp(at(first, step)), np.intp(at(last, step))):
            i, j, s, t = at(table[0], c) * width, at(table[1], c) * width, at(stay, c), at(leave, c)
            if t == 0:
                continue
            if s == 0:
                _exchange(grad, i, j, lanes)
                continue
            a, b = get(payload, at(p, c) * width, lanes), get(payload, at(q, c) * width, lanes)
            push[c] += total(_share(grad, i, j, s, t, lanes) * (a - b))
