"""Soft reordering: the payload rides along the wires, forward and backward."""

from typing import Any

import numpy as np

from ._columns import columns_down, columns_down_keeping, columns_up, give_columns, take_columns
from ._group import aligned, down, load, up, whole, widest
from ._jit import entry
from ._rows import copy_row, lines, store_gradient


@entry
def reorder(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    payload: Any, out: Any,
) -> None:  # fmt: skip
    """Pᵀ payload of rows `begin` to `end`."""
    n, size, layer, width = keys.shape[1], table[0].size, widest(table), len(lanes)
    wires, none, gap = lines(keys, n, group), lines(keys, 0, group), lines(keys, layer, group)
    stay, leave = lines(keys, size, group), lines(keys, size, group)
    s, t, state = aligned(keys, size), aligned(keys, size), aligned(keys, n * width)
    count, bad = np.empty(group, np.int64), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        down(wires, none, table, count, curve, gap, none, stay, leave, whole(table))
        for r in range(min(group, end - top)):
            if bad[r]:
                out[top + r] = np.nan
                continue
            copy_row(stay, r, s)
            copy_row(leave, r, t)
            for column in range(0, payload.shape[2], width):
                take_columns(state, payload[top + r], column, lanes)
                columns_down(state, table[0], table[1], s, t, first[0], last[0], lanes)
                give_columns(state, out[top + r], column, lanes)


@entry
def reorder_backward(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    payload: Any, above: Any, out: Any, out_payload: Any,
) -> None:  # fmt: skip
    """Gradients of keys and payload of rows `begin` to `end`."""
    n, size, layer, width = keys.shape[1], table[0].size, widest(table), len(lanes)
    wires, none, gap = lines(keys, n, group), lines(keys, 0, group), lines(keys, size, group)
    stay, leave, push = lines(keys, size, group), lines(keys, size, group), lines(keys, size, group)
    grad, slope = lines(keys, n, group), lines(keys, layer, group)
    s, t, pushed = aligned(keys, size), aligned(keys, size), aligned(keys, size)
    state, kept = aligned(keys, n * width), aligned(keys, size * width)
    count, bad = np.empty(group, np.int64), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        down(wires, none, table, count, curve, gap, none, stay, leave, whole(table))
        push[:] = 0
        for r in range(min(group, end - top)):
            if bad[r]:
                out_payload[top + r] = 0
                continue
            copy_row(stay, r, s)
            copy_row(leave, r, t)
            pushed[:] = 0
            for column in range(0, payload.shape[2], width):
                take_columns(state, payload[top + r], column, lanes)
                columns_down_keeping(state, kept, table[0], table[1], s, t, first[0], last[0], lanes)
                take_columns(state, above[top + r], column, lanes)
                columns_up(state, kept, table[0], table[1], s, t, first[0], last[0], pushed, lanes)
                give_columns(state, out_payload[top + r], column, lanes)
            push[:, r] = pushed
        grad[:] = 0
        up(grad, none, table, curve, gap, none, push, stay, leave, slope, whole(table))
        store_gradient(grad, bad, top, end, keys, out)
