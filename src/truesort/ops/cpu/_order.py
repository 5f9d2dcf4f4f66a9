"""The stable order of each row, and the hard answers it gives: no network is needed to go forward without errors."""

from typing import Any

import numpy as np

from ._jit import entry, jit

_RUN = 16


@jit
def _insertion(keys: Any, items: Any, begin: int, end: int) -> None:
    for w in range(begin + 1, end):
        key, item, at = keys[w], items[w], w
        while at > begin and keys[at - 1] > key:
            keys[at], items[at] = keys[at - 1], items[at - 1]
            at -= 1
        keys[at], items[at] = key, item


@jit
def _merge(keys: Any, items: Any, begin: int, middle: int, end: int, to_keys: Any, to_items: Any) -> None:
    a, b = begin, middle
    for w in range(begin, end):
        if b >= end or (a < middle and keys[a] <= keys[b]):
            to_keys[w], to_items[w] = keys[a], items[a]
            a += 1
        else:
            to_keys[w], to_items[w] = keys[b], items[b]
            b += 1


@jit
def _order(row: Any, size: int, keys: Any, items: Any, spare_keys: Any, spare_items: Any) -> Any:
    """The items of a row in stable order, those from `size` on in place, or none of them if one is nan."""
    for w in range(row.size):
        items[w] = w
    for w in range(size):
        keys[w] = row[w]
        if np.isnan(row[w]):
            return items[:0]
    for begin in range(0, size, _RUN):
        _insertion(keys, items, begin, min(begin + _RUN, size))
    width = _RUN
    while width < size:
        for begin in range(0, size, 2 * width):
            middle = min(begin + width, size)
            _merge(keys, items, begin, middle, min(middle + width, size), spare_keys, spare_items)
        spare_items[size:] = items[size:]
        keys, items, spare_keys, spare_items = spare_keys, spare_items, keys, items
        width *= 2
    return items


@jit
def _scratch(keys: Any) -> Any:
    n = keys.shape[1]
    return np.empty(n, keys.dtype), np.empty(n, np.int32), np.empty(n, keys.dtype), np.empty(n, np.int32)


@entry
def sort(keys: Any, counts: Any, begin: int, end: int, out: Any) -> None:
    """The first sorted values."""
    a, b, c, d = _scratch(keys)
    for row in range(begin, end):
        items = _order(keys[row], counts[row] if counts.size else keys.shape[1], a, b, c, d)
        for w in range(out.shape[1]):
            out[row, w] = keys[row, items[w]] if items.size else np.nan


@entry
def rank(keys: Any, counts: Any, begin: int, end: int, out: Any) -> None:
    """The position of each item."""
    a, b, c, d = _scratch(keys)
    for row in range(begin, end):
        items = _order(keys[row], counts[row] if counts.size else keys.shape[1], a, b, c, d)
        if not items.size:
            out[row] = np.nan
        for w in range(items.size):
            out[row, items[w]] = w


@entry
def permutation(keys: Any, counts: Any, begin: int, end: int, out: Any) -> None:
    """The first columns of the permutation matrix."""
    a, b, c, d = _scratch(keys)
    for row in range(begin, end):
        items = _order(keys[row], counts[row] if counts.size else keys.shape[1], a, b, c, d)
        out[row] = 0 if items.size or not keys.shape[1] else np.nan
        for w in range(min(items.size, out.shape[2])):
            out[row, items[w], w] = 1


@entry
def reorder(keys: Any, counts: Any, begin: int, end: int, payload: Any, out: Any) -> None:
    """The payload in the order of its keys."""
    a, b, c, d = _scratch(keys)
    for row in range(begin, end):
        items = _order(keys[row], counts[row] if counts.size else keys.shape[1], a, b, c, d)
        if not items.size:
            out[row] = np.nan
        for w in range(items.size):
            out[row, w] = payload[row, items[w]]


@entry
def reorder_back(keys: Any, counts: Any, begin: int, end: int, above: Any, out: Any) -> None:
    """The gradient of the payload: that of the reordered one, brought back to where each item came from."""
    a, b, c, d = _scratch(keys)
    for row in range(begin, end):
        items = _order(keys[row], counts[row] if counts.size else keys.shape[1], a, b, c, d)
        if not items.size:
            out[row] = 0
        for w in range(items.size):
            out[row, items[w]] = above[row, w]
