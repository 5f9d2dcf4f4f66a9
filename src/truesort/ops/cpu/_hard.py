"""Error-free networks backward: hard values on the wires, gradients of the soft swaps met on the way.

What a hard network did is one bit a comparator, and it can be walked back with nothing else kept. Only P and payloads
with `backward="swap"` note all comparators of a few rows, because blocks of columns pass them one after the other.
"""

from typing import Any

import numpy as np

from ._columns import columns_up_hard, payload_up_hard, take_columns
from ._curves import slopes, weigh
from ._group import aligned, load, part, share, up, whole, widest
from ._jit import entry, jit
from ._rows import copy_row, lines, positions, store_gradient, take
from ._wires import differences, gaps, harden, mix, swap_hard, sweep, undo_hard


@jit
def down_hard(wires: Any, items: Any, table: Any, count: Any, stays: Any, steps: Any) -> None:
    """Hard layers on keys and items."""
    low, high, since, _ = table
    for layer in range(steps[0], steps[1]):
        _, begin, end = share(table, layer, steps)
        swap_hard(wires, items, low[begin:end], high[begin:end], since[begin:end], count, stays[begin:end])


@jit
def _note(
    wires: Any, items: Any, table: Any, count: Any, curve: Any, stays: Any, gap: Any, stay: Any, leave: Any, p: Any,
    q: Any,
) -> None:  # fmt: skip
    """The way down, noting of every comparator the gap, the weights and which items met."""
    low, high, since, start = table
    for layer in range(start.size - 1):
        begin, end = start[layer], start[layer + 1]
        i, j = low[begin:end], high[begin:end]
        gaps(wires, i, j, since[begin:end], count, gap[begin:end])
        _met(items, i, j, p[begin:end], q[begin:end])
        swap_hard(wires, items, i, j, since[begin:end], count, stays[begin:end])
    weigh(curve, gap, stay, leave)


@jit
def _met(items: Any, low: Any, high: Any, p: Any, q: Any) -> None:
    for c in range(low.size):
        i, j = low[c], high[c]
        for r in range(items.shape[1]):
            p[c, r], q[c, r] = items[i, r], items[j, r]


@jit
def up_hard(
    wires: Any, items: Any, grad: Any, back: Any, values: Any, table: Any, count: Any, curve: Any, matrix: bool,
    stays: Any, gap: Any, push: Any, stay: Any, leave: Any, slope: Any, steps: Any,
) -> None:  # fmt: skip
    """Walk back up. `back` are the positions carried along, `values` of the items the gradient of their ranks."""
    low, high, since, _ = table
    for layer in range(steps[1] - 1, steps[0] - 1, -1):
        first, begin, end = share(table, layer, steps)
        i, j = low[begin:end], high[begin:end]
        d, ahead = part(gap, table, first, begin, end), part(push, table, first, begin, end)
        s, t = part(stay, table, first, begin, end), part(leave, table, first, begin, end)
        k = part(slope, table, first, begin, end)
        undo_hard(wires, items, i, j, stays[begin:end])
        gaps(wires, i, j, since[begin:end], count, d)
        weigh(curve, d, s, t)
        slopes(curve, d, s, t, k)
        if matrix:
            harden(stays[begin:end], s, t)
        if values.shape[0]:
            differences(back, i, j, ahead)
            _times(items, i, j, values, ahead)
            mix(back, i, j, s, t)
        sweep(grad, i, j, s, t, k, d, ahead)


@jit
def _times(items: Any, low: Any, high: Any, values: Any, out: Any) -> None:
    """Multiply by how much more the item on the lower wire has of the values."""
    for c in range(low.size):
        i, j = low[c], high[c]
        for r in range(items.shape[1]):
            out[c, r] *= values[items[i, r], r] - values[items[j, r], r]


@jit
def _stays(size: int, group: int) -> Any:
    return np.empty((size, group), np.uint8)


@jit
def _items(n: int, group: int) -> Any:
    return np.empty((n, group), np.int32)


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
    stay, leave = lines(keys, layer, group), lines(keys, layer, group)
    count, bad = np.empty(group, np.int64), np.empty(group, np.bool_)
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
            stay,
            leave,
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
    gap, stay, leave = lines(keys, size, group), lines(keys, size, group), lines(keys, size, group)
    p, q, push = _items(size, group), _items(size, group), lines(keys, size, group)
    grad, none, slope = lines(keys, n, group), lines(keys, 0, group), lines(keys, layer, group)
    s, t, pushed, state = aligned(keys, size), aligned(keys, size), aligned(keys, size), aligned(keys, n * width)
    a, b = np.empty(size, np.int32), np.empty(size, np.int32)
    count, bad = np.empty(group, np.int64), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        positions(items)
        _note(wires, items, table, count, curve, stays, gap, stay, leave, p, q)
        push[:] = 0
        for r in range(min(group, end - top)):
            if bad[r]:
                continue
            copy_row(stay, r, s)
            copy_row(leave, r, t)
            copy_row(p, r, a)
            copy_row(q, r, b)
            pushed[:] = 0
            for block in range(first.shape[0]):
                at = block * width
                state[above.shape[2] * width :] = 0
                take_columns(state, above[top + r].T, at, lanes)
                columns_up_hard(state, a, b, table[0], table[1], s, t, first[block], last[block], at, pushed, lanes)
            push[:, r] = pushed
        grad[:] = 0
        up(grad, none, table, curve, gap, none, push, stay, leave, slope, whole(table))
        store_gradient(grad, bad, top, end, keys, out)


@entry
def reorder_backward(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    payload: Any, above: Any, out: Any,
) -> None:  # fmt: skip
    """Gradient of the keys from that of the reordered payload, carried through the soft weights ("swap")."""
    n, size, layer, width = keys.shape[1], table[0].size, widest(table), len(lanes)
    wires, items, stays = lines(keys, n, group), _items(n, group), _stays(size, group)
    gap, stay, leave = lines(keys, size, group), lines(keys, size, group), lines(keys, size, group)
    p, q, push = _items(size, group), _items(size, group), lines(keys, size, group)
    grad, none, slope = lines(keys, n, group), lines(keys, 0, group), lines(keys, layer, group)
    s, t, pushed, state = aligned(keys, size), aligned(keys, size), aligned(keys, size), aligned(keys, n * width)
    carried = aligned(keys, n * width)
    a, b = np.empty(size, np.int32), np.empty(size, np.int32)
    count, bad = np.empty(group, np.int64), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        positions(items)
        _note(wires, items, table, count, curve, stays, gap, stay, leave, p, q)
        push[:] = 0
        for r in range(min(group, end - top)):
            if bad[r]:
                continue
            copy_row(stay, r, s)
            copy_row(leave, r, t)
            copy_row(p, r, a)
            copy_row(q, r, b)
            pushed[:] = 0
            for column in range(0, payload.shape[2], width):
                take_columns(state, above[top + r], column, lanes)
                take_columns(carried, payload[top + r], column, lanes)
                payload_up_hard(state, carried, a, b, table[0], table[1], s, t, first[0], last[0], pushed, lanes)
            push[:, r] = pushed
        grad[:] = 0
        up(grad, none, table, curve, gap, none, push, stay, leave, slope, whole(table))
        store_gradient(grad, bad, top, end, keys, out)


@jit
def _places(items: Any, place: Any) -> None:
    for w in range(items.shape[0]):
        for r in range(items.shape[1]):
            place[items[w, r], r] = w


@jit
def _spoken(
    items: Any, place: Any, low: Any, high: Any, top: int, bad: Any, above: Any, payload: Any, push: Any
) -> None:
    """dL/dσ of a layer where the gradient of P came down through hard weights: that of the two items at two places."""
    for r in range(min(items.shape[1], above.shape[0] - top)):
        if bad[r]:
            push[:, r] = 0
            continue
        for c in range(low.size):
            p, q = items[low[c], r], items[high[c], r]
            a, b = min(place[p, r], place[q, r]), max(place[p, r], place[q, r])
            push[c, r] = _four(above[top + r], payload, top + r, p, q, a, b)


@jit
def _four(above: Any, payload: Any, row: int, p: int, q: int, a: int, b: int) -> Any:
    said = above.dtype.type(0)
    if payload.shape[0]:
        for k in range(above.shape[1]):
            said += (payload[row, p, k] - payload[row, q, k]) * (above[a, k] - above[b, k])
        return said
    if a < above.shape[1]:
        said += above[p, a] - above[q, a]
    if b < above.shape[1]:
        said -= above[p, b] - above[q, b]
    return said


@entry
def matrix_backward(
    keys: Any, counts: Any, table: Any, curve: Any, group: int, begin: int, end: int, payload: Any, above: Any, out: Any
) -> None:
    """Gradient of the keys from that of P, or of a payload if there is one, carried through the hard weights."""
    n, size, layer = keys.shape[1], table[0].size, widest(table)
    wires, items, stays = lines(keys, n, group), _items(n, group), _stays(size, group)
    grad, place = lines(keys, n, group), _items(n, group)
    gap, push, slope = lines(keys, layer, group), lines(keys, layer, group), lines(keys, layer, group)
    stay, leave = lines(keys, layer, group), lines(keys, layer, group)
    count, bad = np.empty(group, np.int64), np.empty(group, np.bool_)
    low, high, since, start = table
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        positions(items)
        down_hard(wires, items, table, count, stays, whole(table))
        _places(items, place)
        grad[:] = 0
        push[:] = 0
        for step in range(start.size - 2, -1, -1):
            i, j = low[start[step] : start[step + 1]], high[start[step] : start[step + 1]]
            m = i.size
            undo_hard(wires, items, i, j, stays[start[step] : start[step + 1]])
            gaps(wires, i, j, since[start[step] : start[step + 1]], count, gap[:m])
            weigh(curve, gap[:m], stay[:m], leave[:m])
            slopes(curve, gap[:m], stay[:m], leave[:m], slope[:m])
            harden(stays[start[step] : start[step + 1]], stay[:m], leave[:m])
            _spoken(items, place, i, j, top, bad, above, payload, push[:m])
            sweep(grad, i, j, stay[:m], leave[:m], slope[:m], gap[:m], push[:m])
        store_gradient(grad, bad, top, end, keys, out)
