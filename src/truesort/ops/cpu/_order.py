"""The stable order of each row, and the hard answers it gives: no network is needed to go forward without errors."""

from typing import Any

import numpy as np

from ._jit import entry, jit
from ._simd import ordered_bits

_SHORT = 48
"""Rows up to here are sorted by insertion, longer ones byte by byte."""


@jit
def _insert(codes: Any, items: Any, size: int) -> None:
    for w in range(1, size):
        code, item, at = codes[w], items[w], w
        while at > 0 and codes[at - 1] > code:
            codes[at], items[at] = codes[at - 1], items[at - 1]
            at -= 1
        codes[at], items[at] = code, item


@jit
def _count_bytes(codes: Any, size: int, places: Any) -> None:
    """Where each value of each byte begins in the order by that byte."""
    places[:] = 0
    for w in range(size):
        code = codes[w]
        for byte in range(places.shape[0]):
            places[byte, np.intp((code >> np.uint64(8 * byte)) & np.uint64(255))] += 1
    for byte in range(places.shape[0]):
        total = 0
        for value in range(256):
            places[byte, value], total = total, total + places[byte, value]


@jit
def stable_order(row: Any, size: int, scratch: Any) -> Any:
    """The items of a row in stable order, those from `size` on in place; none of them if one is nan."""
    codes, items, next_codes, next_items, places = scratch
    for w in range(row.size):
        items[w] = next_items[w] = w
    for w in range(size):
        codes[w] = ordered_bits(row[w])
        if np.isnan(row[w]):
            return items[:0]
    if size <= _SHORT:
        _insert(codes, items, size)
        return items
    _count_bytes(codes, size, places)
    for byte in range(places.shape[0]):
        for w in range(size):
            value = np.intp((codes[w] >> np.uint64(8 * byte)) & np.uint64(255))
            to = places[byte, value]
            places[byte, value] = to + 1
            next_codes[to], next_items[to] = codes[w], items[w]
        codes, items, next_codes, next_items = next_codes, next_items, codes, items
    return items


@jit
def order_scratch(keys: Any) -> Any:
    """What `stable_order` works in."""
    n = keys.shape[1]
    codes, items = np.empty(n, np.uint64), np.empty(n, np.int32)
    return codes, items, np.empty_like(codes), np.empty_like(items), np.empty((keys.itemsize, 256), np.int32)


@entry
def sort(keys: Any, counts: Any, begin: int, end: int, out: Any) -> None:
    """The first sorted values."""
    scratch = order_scratch(keys)
    for row in range(begin, end):
        items = stable_order(keys[row], counts[row] if counts.size else keys.shape[1], scratch)
        for w in range(out.shape[1]):
            out[row, w] = keys[row, items[w]] if items.size else np.nan


@entry
def rank(keys: Any, counts: Any, begin: int, end: int, out: Any) -> None:
    """The position of each item."""
    scratch = order_scratch(keys)
    for row in range(begin, end):
        items = stable_order(keys[row], counts[row] if counts.size else keys.shape[1], scratch)
        if not items.size:
            out[row] = np.nan
        for w in range(items.size):
            out[row, items[w]] = w


@entry
def permutation(keys: Any, counts: Any, begin: int, end: int, out: Any) -> None:
    """The first columns of the permutation matrix."""
    scratch = order_scratch(keys)
    for row in range(begin, end):
        items = stable_order(keys[row], counts[row] if counts.size else keys.shape[1], scratch)
        out[row] = 0 if items.size or not keys.shape[1] else np.nan
        for w in range(min(items.size, out.shape[2])):
            out[row, items[w], w] = 1


@entry
def reorder(keys: Any, counts: Any, begin: int, end: int, payload: Any, out: Any) -> None:
    """The payload in the order of its keys."""
    scratch = order_scratch(keys)
    for row in range(begin, end):
        items = stable_order(keys[row], counts[row] if counts.size else keys.shape[1], scratch)
        if not items.size:
            out[row] = np.nan
        for w in range(items.size):
            out[row, w] = payload[row, items[w]]


@entry
def reorder_back(keys: Any, counts: Any, begin: int, end: int, above: Any, out: Any) -> None:
    """The gradient of the payload: that of the reordered one, brought back to where each item came from."""
    scratch = order_scratch(keys)
    for row in range(begin, end):
        items = stable_order(keys[row], counts[row] if counts.size else keys.shape[1], scratch)
        if not items.size:
            out[row] = 0
        for w in range(items.size):
            out[row, items[w]] = above[row, w]
