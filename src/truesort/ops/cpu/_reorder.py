"""Soft reordering: the payload rides along the wires, forward and backward."""

from typing import Any

import numpy as np

from ._columns import columns_pass, columns_pass_keeping, columns_return, give_columns, take_columns, unfold
from ._group import aligned, down, load, up, whole, whole_lines, widest
from ._jit import entry
from ._rows import by_row, lines, store_gradient
from ._turn import to_lines, to_rows


@entry
def reorder(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    payload: Any, out: Any,
) -> None:  # fmt: skip
    """Pᵀ payload of rows `begin` to `end`."""
    n, size, layer, width = keys.shape[1], table[0].size, widest(table), len(lanes)
    wires, none, gap = lines(keys, n, group), lines(keys, 0, group), lines(keys, layer, group)
    fold, folds = lines(keys, size, group), by_row(keys, size, group)
    stay, leave = aligned(keys, whole_lines(keys, size)), aligned(keys, whole_lines(keys, size))
    state = aligned(keys, n * width)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        down(wires, none, table, count, curve, gap, none, fold, whole(table))
        to_rows(keys, fold, folds)
        for r in range(min(group, end - top)):
            if bad[r]:
                out[top + r] = np.nan
                continue
            unfold(folds[r], stay, leave)
            for column in range(0, payload.shape[2], width):
                take_columns(state, payload[top + r], column, lanes)
                columns_pass(state, table, stay, leave, first[0], last[0], lanes)
                give_columns(state, out[top + r], column, lanes)


@entry
def reorder_backward(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    payload: Any, above: Any, out: Any, out_payload: Any,
) -> None:  # fmt: skip
    """Gradients of keys and payload of rows `begin` to `end`."""
    n, size, layer, width = keys.shape[1], table[0].size, widest(table), len(lanes)
    wires, none, gap = lines(keys, n, group), lines(keys, 0, group), lines(keys, size, group)
    fold, folds = lines(keys, size, group), by_row(keys, size, group)
    stay, leave = aligned(keys, whole_lines(keys, size)), aligned(keys, whole_lines(keys, size))
    push, pushed = lines(keys, size, group), by_row(keys, size, group)
    grad, slope = lines(keys, n, group), lines(keys, layer, group)
    state, kept = aligned(keys, n * width), aligned(keys, size * width)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    for top in range(begin, end, group):
        load(keys, counts, top, end, wires, count, bad)
        down(wires, none, table, count, curve, gap, none, fold, whole(table))
        to_rows(keys, fold, folds)
        pushed[:] = 0
        for r in range(min(group, end - top)):
            if bad[r]:
                out_payload[top + r] = 0
                continue
            unfold(folds[r], stay, leave)
            for column in range(0, payload.shape[2], width):
                take_columns(state, payload[top + r], column, lanes)
                columns_pass_keeping(state, kept, table, stay, leave, first[0], last[0], lanes)
                take_columns(state, above[top + r], column, lanes)
                columns_return(state, kept, table, stay, leave, first[0], last[0], pushed[r], lanes)
                give_columns(state, out_payload[top + r], column, lanes)
        to_lines(keys, pushed, push)
        grad[:] = 0
        up(grad, none, table, curve, gap, none, push, fold, slope, whole(table))
        store_gradient(grad, bad, top, end, keys, out)
