"""Error-free networks backward: hard values on the wires, gradients of the soft swaps met on the way.

What a hard network did is one bit a comparator, and it can be walked back with nothing else kept. Only P and payloads
with `backward="swap"` note all comparators of a few rows, because blocks of columns pass them one after the other.
"""

from typing import Any

import numpy as np

from ._columns import columns_up_hard, payload_up_hard, take_columns, take_turned, unfold
from ._curves import slopes, weigh
from ._group import aligned, load, share, up, whole, whole_lines, widest
from ._jit import entry, jit
from ._rows import by_row, lines, positions, store_gradient, take
from ._simd import at, put, select
from ._turn import to_lines, to_rows
from ._wires import differences, gaps, harden, mix, skipped, swap_hard, sweep, undo_hard


@jit
def down_hard(wires: Any, items: Any, table: Any, count: Any, stays: Any, steps: Any) -> None:
    """Hard layers on keys and items."""
    for layer in range(steps[0], steps[1]):
        swap_hard(wires, items, table, count, stays, share(table, layer, steps))


@jit
def _note(
    wires: Any, items: Any, table: Any, count: Any, curve: Any, stays: Any, gap: Any, fold: Any, p: Any, q: Any
) -> None:
    """The way down, noting of every comparator the gap, the fold and which items met."""
    for layer in range(table[3].size - 1):
        span = share(table, layer, whole(table))
        gaps(wires, table, count, gap, span)
        _met(items, table, p, q, span)
        swap_hard(wires, items, table, count, stays, span)
    weigh(curve, table, gap, fold, (0, 0, table[0].size))


@jit
def _met(items: Any, table: Any, p: Any, q: Any, span: Any) -> None:
    for c in range(span[1], span[2]):
        i, j = at(table[0], c), at(table[1], c)
        for r in range(items.shape[1]):
            p[c, r], q[c, r] = items[i, r], items[j, r]


@jit
def up_hard(
    wires: Any, items: Any, grad: Any, back: Any, values: Any, table: Any, count: Any, curve: Any, matrix: bool,
    stays: Any, gap: Any, push: Any, fold: Any, slope: Any, steps: Any,
) -> None:  # fmt: skip
    """Walk back up. `back` are the positions carried along, `values` of the items the gradient of their ranks."""
    for layer in range(steps[1] - 1, steps[0] - 1, -1):
        span = share(table, layer, steps)
        undo_hard(wires, items, table, stays, span)
        gaps(wires, table, count, gap, span)
        weigh(curve, table, gap, fold, span)
        slopes(curve, table, gap, fold, slope, span)
        if matrix:
            harden(table, stays, fold, span)
        if values.shape[0]:
            differences(back, table, push, span)
            _times(items, table, values, push, span)
            mix(back, table, fold, span)
        sweep(grad, table, fold, slope, gap, push, span)


@jit
def _times(items: Any, table: Any, values: Any, out: Any, span: Any) -> None:
    """Multiply by how much more the item on the lower wire has of the values."""
    before = skipped(out, table, span)
    for c in range(span[1], span[2]):
        i, j = at(table[0], c), at(table[1], c)
        for r in range(items.shape[1]):
            out[c - before, r] *= values[items[i, r], r] - values[items[j, r], r]


@jit
def _stays(size: int, group: int) -> Any:
    return np.empty((size, group), np.uint8)


@jit
def _items(n: int, group: int) -> Any:
    return lines(np.empty(0, np.int32), n, group)


@entry
def values_backward(
    keys: Any, counts: Any, table: Any, curve: Any, group: int, begin: int, end: int, ranks: bool, matrix: bool,
    above: Any, out: Any,
) -> None:  # fmt: skip
    """Gradient of the keys of rows `begin` to `end` from that of their sorted values or, if `ranks`, of their ranks."""
    n, size, layer = keys.shape[1], table[0].size, widest(table)
    wires, items, stays = lines(keys, n, group), _items(n, group), _stays(size, group)
    grad, back, values = lines(keys, n, group), lines(keys, n, group), lines(keys, n if ranks else 0, group)
    gap, push, slope = lines(keys, layer, group), lines(keys, layer, group), lines(keys, layer, group)
    fold = lines(keys, layer, group)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    push[:] = 0
    for row in range(begin, end, group):
        load(keys, counts, row, end, wires, count, bad)
        positions(items)
        down_hard(wires, items, table, count, stays, whole(table))
        if ranks:
            positions(back)
            grad[:] = 0
            take(above, bad, row, end, values)
        else:
            take(above, bad, row, end, grad)
        up_hard(
            wires,
            items,
            grad,
            back,
            values,
            table,
            count,
            curve,
            matrix,
            stays,
            gap,
            push,
            fold,
            slope,
            whole(table),
        )
        store_gradient(grad, bad, row, end, keys, out)


@entry
def permutation_backward(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    above: Any, out: Any,
) -> None:  # fmt: skip
    """As that of the soft P, the gradient of P carried through the soft weights ("swap")."""
    n, size, layer, width = keys.shape[1], table[0].size, widest(table), len(lanes)
    wires, items, stays = lines(keys, n, group), _items(n, group), _stays(size, group)
    gap, fold, folds = lines(keys, size, group), lines(keys, size, group), by_row(keys, size, group)
    stay, leave = aligned(keys, whole_lines(keys, size)), aligned(keys, whole_lines(keys, size))
    p, q, push = _items(size, group), _items(size, group), lines(keys, size, group)
    a, b, pushed = by_row(items, size, group), by_row(items, size, group), by_row(keys, size, group)
    grad, none, slope = lines(keys, n, group), lines(keys, 0, group), lines(keys, layer, group)
    state = aligned(keys, whole_lines(keys, n) * width)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        positions(items)
        _note(wires, items, table, count, curve, stays, gap, fold, p, q)
        to_rows(keys, fold, folds)
        to_rows(keys, p, a)
        to_rows(keys, q, b)
        pushed[:] = 0
        for r in range(min(group, end - top)):
            if bad[r]:
                continue
            unfold(folds[r], stay, leave)
            for block in range(first.shape[0]):
                begins = block * width
                take_turned(state, above[top + r], begins, lanes)
                columns_up_hard(
                    state, a[r], b[r], table, stay, leave, first[block], last[block], begins, pushed[r], lanes
                )
        to_lines(keys, pushed, push)
        grad[:] = 0
        up(grad, none, table, curve, gap, none, push, fold, slope, whole(table))
        store_gradient(grad, bad, top, end, keys, out)


@entry
def reorder_backward(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    payload: Any, above: Any, out: Any,
) -> None:  # fmt: skip
    """Gradient of the keys from that of the reordered payload, carried through the soft weights ("swap")."""
    n, size, layer, width = keys.shape[1], table[0].size, widest(table), len(lanes)
    wires, items, stays = lines(keys, n, group), _items(n, group), _stays(size, group)
    gap, fold, folds = lines(keys, size, group), lines(keys, size, group), by_row(keys, size, group)
    stay, leave = aligned(keys, whole_lines(keys, size)), aligned(keys, whole_lines(keys, size))
    p, q, push = _items(size, group), _items(size, group), lines(keys, size, group)
    a, b, pushed = by_row(items, size, group), by_row(items, size, group), by_row(keys, size, group)
    grad, none, slope = lines(keys, n, group), lines(keys, 0, group), lines(keys, layer, group)
    state, carried = aligned(keys, n * width), aligned(keys, n * width)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        positions(items)
        _note(wires, items, table, count, curve, stays, gap, fold, p, q)
        to_rows(keys, fold, folds)
        to_rows(keys, p, a)
        to_rows(keys, q, b)
        pushed[:] = 0
        for r in range(min(group, end - top)):
            if bad[r]:
                continue
            unfold(folds[r], stay, leave)
            for column in range(0, payload.shape[2], width):
                take_columns(state, above[top + r], column, lanes)
                take_columns(carried, payload[top + r], column, lanes)
                payload_up_hard(
                    state, carried, a[r], b[r], table, stay, leave, first[0], last[0], pushed[r], lanes
                )  # fmt: skip
        to_lines(keys, pushed, push)
        grad[:] = 0
        up(grad, none, table, curve, gap, none, push, fold, slope, whole(table))
        store_gradient(grad, bad, top, end, keys, out)


@jit
def _places(items: Any, place: Any) -> None:
    for w in range(items.shape[0]):
        for r in range(items.shape[1]):
            place[items[w, r], r] = w


@jit
def _met_at(items: Any, place: Any, table: Any, c: Any, r: Any) -> Any:
    """The two items that met, and at which places they end, the lower first."""
    rows = items.shape[1]
    p, q = at(items, at(table[0], c) * rows + r), at(items, at(table[1], c) * rows + r)
    a, b = at(place, p * rows + r), at(place, q * rows + r)
    return p, q, select(a < b, a, b), select(a < b, b, a)


@jit
def _spoken(items: Any, place: Any, table: Any, top: int, above: Any, push: Any, span: Any) -> None:
    """dL/dσ of a layer where the gradient of P came down through hard weights: that of the two items at two places."""
    rows, n, outputs = items.shape[1], above.shape[1], above.shape[2]
    for r in range(min(rows, above.shape[0] - top)):
        for c in range(span[1], span[2]):
            p, q, a, b = _met_at(items, place, table, c, r)
            p, q, said = ((top + r) * n + p) * outputs, ((top + r) * n + q) * outputs, above.dtype.type(0)
            if a < outputs:
                said += at(above, p + a) - at(above, q + a)
            if b < outputs:
                said -= at(above, p + b) - at(above, q + b)
            put(push, (c - span[0]) * rows + r, said)


@jit
def _spoken_by_payload(
    items: Any, place: Any, table: Any, top: int, above: Any, payload: Any, push: Any, span: Any
) -> None:
    """As `_spoken`, of the P that reordered a payload."""
    rows, n, columns = items.shape[1], above.shape[1], above.shape[2]
    for r in range(min(rows, above.shape[0] - top)):
        for c in range(span[1], span[2]):
            p, q, a, b = _met_at(items, place, table, c, r)
            p, q, a, b = p + (top + r) * n, q + (top + r) * n, a + (top + r) * n, b + (top + r) * n
            said = above.dtype.type(0)
            for k in range(columns):
                ahead = at(payload, p * columns + k) - at(payload, q * columns + k)
                said += ahead * (at(above, a * columns + k) - at(above, b * columns + k))
            put(push, (c - span[0]) * rows + r, said)


@entry
def matrix_backward(
    keys: Any, counts: Any, table: Any, curve: Any, group: int, begin: int, end: int, payload: Any, above: Any, out: Any
) -> None:
    """Gradient of the keys from that of P, or of a payload if there is one, carried through the hard weights."""
    n, size, layer = keys.shape[1], table[0].size, widest(table)
    wires, items, stays = lines(keys, n, group), _items(n, group), _stays(size, group)
    grad, place = lines(keys, n, group), _items(n, group)
    gap, push, slope = lines(keys, layer, group), lines(keys, layer, group), lines(keys, layer, group)
    fold = lines(keys, layer, group)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        positions(items)
        down_hard(wires, items, table, count, stays, whole(table))
        _places(items, place)
        grad[:] = 0
        push[:] = 0
        for layer in range(table[3].size - 2, -1, -1):
            span = share(table, layer, whole(table))
            undo_hard(wires, items, table, stays, span)
            gaps(wires, table, count, gap, span)
            weigh(curve, table, gap, fold, span)
            slopes(curve, table, gap, fold, slope, span)
            harden(table, stays, fold, span)
            if payload.shape[0]:
                _spoken_by_payload(items, place, table, top, above, payload, push, span)
            else:
                _spoken(items, place, table, top, above, push, span)
            sweep(grad, table, fold, slope, gap, push, span)
        store_gradient(grad, bad, top, end, keys, out)
