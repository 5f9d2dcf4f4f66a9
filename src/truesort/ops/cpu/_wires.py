"""What a layer does to the keys, for a group of rows at once.

Arrays are (wires, rows of the group) or (comparators, rows of the group): a network compares the same wires in every
row, so neighbouring rows fill a vector register whatever the layout. A group as long as a cache line is compiled to
vectors, any other, down to one long row, to a plain loop. `span` says which comparators: (first of the layer, first and
one past the last of our share); an array of comparators holds the whole network or, where nothing is kept, just the
widest layer. Arrays are never sliced: for a short layer that would take longer than its comparators. Weights and slopes
are functions of the gap between two keys; what a fold is, `_curves` says.
"""

from typing import Any

import numpy as np

from ._jit import inlined, jit
from ._simd import at, get, line, put, select, signed, size, spread


@inlined
def skipped(array: Any, table: Any, span: Any) -> int:
    """How many comparators come before those that `array` holds."""
    return 0 if array.shape[0] == table[0].size else span[0]


@inlined
def gaps(keys: Any, table: Any, count: Any, gap: Any, span: Any) -> None:
    """How much more the higher wire carries; wires that do not compare are infinitely far apart, in order."""
    if keys.shape[1] == len(line(keys)):
        _gaps(keys, table, count, gap, span, line(keys))
    else:
        _gaps(keys, table, count, gap, span, ())


@inlined
def _gaps(keys: Any, table: Any, count: Any, gap: Any, span: Any, lanes: Any) -> None:
    rows, before = len(lanes) or keys.shape[1], skipped(gap, table, span)
    zero, apart = spread(keys.dtype.type(0), lanes), spread(keys.dtype.type(np.inf), lanes)
    for c in range(span[1], span[2]):
        i, j, born = at(table[0], c) * rows, at(table[1], c) * rows, spread(np.int32(at(table[2], c)), lanes)
        for r in range(0, rows, max(len(lanes), 1)):
            a, b = get(keys, i + r, lanes), get(keys, j + r, lanes)
            d = select(a == b, zero, b - a)
            put(gap, (c - before) * rows + r, select(born <= get(count, r, lanes), d, apart))


@inlined
def mix(values: Any, table: Any, fold: Any, span: Any) -> None:
    """The wires of each comparator share what they carry; all or nothing exactly."""
    if values.shape[1] == len(line(values)):
        _mix(values, table, fold, span, line(values))
    else:
        _mix(values, table, fold, span, ())


@inlined
def _mix(values: Any, table: Any, fold: Any, span: Any, lanes: Any) -> None:
    rows, before = len(lanes) or values.shape[1], skipped(fold, table, span)
    zero, one = spread(values.dtype.type(0), lanes), spread(values.dtype.type(1), lanes)
    for c in range(span[1], span[2]):
        i, j = at(table[0], c) * rows, at(table[1], c) * rows
        for r in range(0, rows, max(len(lanes), 1)):
            a, b, f = get(values, i + r, lanes), get(values, j + r, lanes), get(fold, (c - before) * rows + r, lanes)
            x, y, t = select(signed(f), b, a), select(signed(f), a, b), size(f)
            s = one - t
            put(values, i + r, select(t == zero, x, s * x + t * y))
            put(values, j + r, select(t == zero, y, t * x + s * y))


@jit
def differences(values: Any, table: Any, out: Any, span: Any) -> None:
    """What the lower wire carries minus what the higher one carries."""
    rows, before = values.shape[1], skipped(out, table, span)
    for c in range(span[1], span[2]):
        i, j = at(table[0], c), at(table[1], c)
        for r in range(rows):
            out[c - before, r] = values[i, r] - values[j, r]


@inlined
def swap_hard(keys: Any, items: Any, table: Any, count: Any, stays: Any, span: Any) -> None:
    """Put the smaller key, of equal ones the earlier item, on the lower wire; `stays` says where it was there."""
    if keys.shape[1] == len(line(keys)):
        _swap_hard(keys, items, table, count, stays, span, line(keys))
    else:
        _swap_hard(keys, items, table, count, stays, span, ())


@inlined
def _swap_hard(keys: Any, items: Any, table: Any, count: Any, stays: Any, span: Any, lanes: Any) -> None:
    rows = len(lanes) or keys.shape[1]
    for c in range(span[1], span[2]):
        i, j, born = at(table[0], c) * rows, at(table[1], c) * rows, spread(np.int32(at(table[2], c)), lanes)
        for r in range(0, rows, max(len(lanes), 1)):
            a, b = get(keys, i + r, lanes), get(keys, j + r, lanes)
            p, q = get(items, i + r, lanes), get(items, j + r, lanes)
            keep = (a < b) | ((a == b) & (p < q)) | (get(count, r, lanes) < born)
            put(stays, c * rows + r, keep)
            _place(keys, i + r, j + r, keep, a, b)
            _place(items, i + r, j + r, keep, p, q)


@inlined
def _place(array: Any, i: Any, j: Any, keep: Any, a: Any, b: Any) -> None:
    put(array, i, select(keep, a, b))
    put(array, j, select(keep, b, a))


@inlined
def undo_hard(keys: Any, items: Any, table: Any, stays: Any, span: Any) -> None:
    """Take back `swap_hard`: a hard swap is its own inverse, once we know whether it swapped."""
    if keys.shape[1] == len(line(keys)):
        _undo_hard(keys, items, table, stays, span, line(keys))
    else:
        _undo_hard(keys, items, table, stays, span, ())


@inlined
def _undo_hard(keys: Any, items: Any, table: Any, stays: Any, span: Any, lanes: Any) -> None:
    rows, zero = len(lanes) or keys.shape[1], spread(np.uint8(0), lanes)
    for c in range(span[1], span[2]):
        i, j = at(table[0], c) * rows, at(table[1], c) * rows
        for r in range(0, rows, max(len(lanes), 1)):
            keep = zero < get(stays, c * rows + r, lanes)
            _place(keys, i + r, j + r, keep, get(keys, i + r, lanes), get(keys, j + r, lanes))
            _place(items, i + r, j + r, keep, get(items, i + r, lanes), get(items, j + r, lanes))


@jit
def harden(table: Any, stays: Any, fold: Any, span: Any) -> None:
    """The folds of what a hard swap did: stay, or change places, and share nothing."""
    rows, zero = fold.shape[1], fold.dtype.type(0)
    ahead = skipped(fold, table, span) * rows
    for e in range(span[1] * rows, span[2] * rows):
        put(fold, e - ahead, select(at(stays, e) == 0, -zero, zero))


@inlined
def sweep(grad: Any, table: Any, fold: Any, slope: Any, gap: Any, push: Any, span: Any) -> None:
    """Carry the gradient of the keys from a layer's outputs to its inputs.

    `push` is what everything but the keys themselves says about dL/dσ; the keys add their own share.
    """
    if grad.shape[1] == len(line(grad)):
        _sweep(grad, table, fold, slope, gap, push, span, line(grad))
    else:
        _sweep(grad, table, fold, slope, gap, push, span, ())


@inlined
def _sweep(grad: Any, table: Any, fold: Any, slope: Any, gap: Any, push: Any, span: Any, lanes: Any) -> None:
    rows, of_fold, of_slope = len(lanes) or grad.shape[1], skipped(fold, table, span), skipped(slope, table, span)
    of_gap, of_push = skipped(gap, table, span), skipped(push, table, span)
    zero, one = spread(grad.dtype.type(0), lanes), spread(grad.dtype.type(1), lanes)
    for c in range(span[1], span[2]):
        i, j = at(table[0], c) * rows, at(table[1], c) * rows
        for r in range(0, rows, max(len(lanes), 1)):
            a, b, f = get(grad, i + r, lanes), get(grad, j + r, lanes), get(fold, (c - of_fold) * rows + r, lanes)
            k, d = get(slope, (c - of_slope) * rows + r, lanes), get(gap, (c - of_gap) * rows + r, lanes)
            pull = select(k == zero, zero, k * (get(push, (c - of_push) * rows + r, lanes) - (a - b) * d))
            x, y, t = select(signed(f), b, a), select(signed(f), a, b), size(f)
            s = one - t
            put(grad, i + r, select(t == zero, x, s * x + t * y) - pull)
            put(grad, j + r, select(t == zero, y, t * x + s * y) + pull)
