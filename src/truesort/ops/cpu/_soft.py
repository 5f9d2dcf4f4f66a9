"""Soft networks row by row: values, ranks, P and reordering, forward and backward.

Every function works on rows `begin` to `end` in groups of `group` rows and writes its answer into the last arrays, so
that a caller may split the rows among threads. Scratch lives as long as the call.
"""

from typing import Any

import numpy as np

from ._columns import (
    columns_pass,
    columns_pass_keeping,
    columns_return,
    give_columns,
    take_columns,
    unfold,
    unit_columns,
)
from ._group import aligned, down, load, up, whole, whole_lines, widest
from ._jit import entry
from ._rows import by_row, lines, positions, store, store_gradient, take
from ._turn import to_lines, to_rows


@entry
def sort(keys: Any, counts: Any, table: Any, curve: Any, group: int, begin: int, end: int, out: Any) -> None:
    n, size = keys.shape[1], widest(table)
    wires, none = lines(keys, n, group), lines(keys, 0, group)
    gap, fold = lines(keys, size, group), lines(keys, size, group)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    for row in range(begin, end, group):
        load(keys, counts, row, end, wires, count, bad)
        down(wires, none, table, count, curve, gap, none, fold, whole(table))
        store(wires, bad, row, end, np.nan, out)


@entry
def sort_backward(
    keys: Any, counts: Any, table: Any, curve: Any, group: int, begin: int, end: int, above: Any, out: Any
) -> None:
    n, size, layer = keys.shape[1], table[0].size, widest(table)
    wires, grad, none = lines(keys, n, group), lines(keys, n, group), lines(keys, 0, group)
    gap, slope, push = lines(keys, size, group), lines(keys, layer, group), lines(keys, layer, group)
    fold = lines(keys, layer, group)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    push[:] = 0
    for row in range(begin, end, group):
        load(keys, counts, row, end, wires, count, bad)
        down(wires, none, table, count, curve, gap, none, fold, whole(table))
        take(above, bad, row, end, grad)
        up(grad, none, table, curve, gap, none, push, fold, slope, whole(table))
        store_gradient(grad, bad, row, end, keys, out)


@entry
def rank(keys: Any, counts: Any, table: Any, curve: Any, group: int, begin: int, end: int, out: Any) -> None:
    n, size, layer = keys.shape[1], table[0].size, widest(table)
    wires, back, none = lines(keys, n, group), lines(keys, n, group), lines(keys, 0, group)
    gap, push = lines(keys, size, group), lines(keys, layer, group)
    fold = lines(keys, layer, group)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    for row in range(begin, end, group):
        load(keys, counts, row, end, wires, count, bad)
        down(wires, none, table, count, curve, gap, none, fold, whole(table))
        positions(back)
        up(none, back, table, curve, gap, gap, push, fold, none, whole(table))
        store(back, bad, row, end, np.nan, out)


@entry
def rank_backward(
    keys: Any, counts: Any, table: Any, curve: Any, group: int, begin: int, end: int, above: Any, out: Any
) -> None:
    n, size, layer = keys.shape[1], table[0].size, widest(table)
    wires, values, back = lines(keys, n, group), lines(keys, n, group), lines(keys, n, group)
    gap, diff, grad = lines(keys, size, group), lines(keys, size, group), lines(keys, n, group)
    slope, push = lines(keys, layer, group), lines(keys, layer, group)
    fold = lines(keys, layer, group)
    count, bad = np.empty(group, np.int32), np.empty(group, np.bool_)
    for row in range(begin, end, group):
        load(keys, counts, row, end, wires, count, bad)
        take(above, bad, row, end, values)
        down(wires, values, table, count, curve, gap, diff, fold, whole(table))
        positions(back)
        grad[:] = 0
        up(grad, back, table, curve, gap, diff, push, fold, slope, whole(table))
        store_gradient(grad, bad, row, end, keys, out)


@entry
def permutation(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    out: Any,
) -> None:  # fmt: skip
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
            for block in range(first.shape[0]):
                unit_columns(state, n, block * width, lanes)
                columns_pass(state, table, stay, leave, first[block], last[block], lanes)
                give_columns(state, out[top + r], block * width, lanes)


@entry
def permutation_backward(
    keys: Any, counts: Any, table: Any, curve: Any, first: Any, last: Any, lanes: Any, group: int, begin: int, end: int,
    above: Any, out: Any,
) -> None:  # fmt: skip
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
                continue
            unfold(folds[r], stay, leave)
            for block in range(first.shape[0]):
                unit_columns(state, n, block * width, lanes)
                columns_pass_keeping(state, kept, table, stay, leave, first[block], last[block], lanes)
                take_columns(state, above[top + r], block * width, lanes)
                columns_return(state, kept, table, stay, leave, first[block], last[block], pushed[r], lanes)
        to_lines(keys, pushed, push)
        grad[:] = 0
        up(grad, none, table, curve, gap, none, push, fold, slope, whole(table))
        store_gradient(grad, bad, top, end, keys, out)
