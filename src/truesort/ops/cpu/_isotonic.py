"""Projections onto a permutahedron: sort, pool adjacent violators from left to right, put back; one pass over a row.

Pooling works on a stack of blocks, in float64, so that a block of thousands keeps the digits of float32.
"""

import math
from typing import Any

import numpy as np

from ._jit import entry, jit
from ._order import order_scratch, stable_order


@jit
def _both(a: float, b: float) -> float:
    """log(eᵃ + eᵇ)."""
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


@jit
def _pool(start: Any, target: Any, kl: bool, first: Any, upper: Any, lower: Any) -> int:
    """How many blocks the ascending fit to start − target has.

    Block b begins at item `first[b]`; `upper` and `lower` sum up its start and target: totals, or, if `kl`, the
    logarithms of those of exponentials. The fit there is their difference, over the size unless `kl`.
    """
    n, top = start.size, -1
    for w in range(n):
        top += 1
        first[top], upper[top], lower[top] = w, start[w], target[w]
        end = w + 1
        while top > 0:
            here, before = upper[top] - lower[top], upper[top - 1] - lower[top - 1]
            if not kl:
                here, before = here * (first[top] - first[top - 1]), before * (end - first[top])
            if here >= before:
                break
            top -= 1
            upper[top] = _both(upper[top], upper[top + 1]) if kl else upper[top] + upper[top + 1]
            lower[top] = _both(lower[top], lower[top + 1]) if kl else lower[top] + lower[top + 1]
    return top + 1


@jit
def _lay_out(keys: Any, order: Any, size: int, strength: float, kl: bool, ranks: bool, start: Any, target: Any) -> None:
    middle = 0.5 * keys[order[0]] + 0.5 * keys[order[size - 1]] if ranks and size else 0.0
    for w in range(size):
        key = np.float64(keys[order[w]])
        if ranks:
            start[w], target[w] = (key - middle) / strength, math.log1p(w) if kl else w
        else:
            start[w], target[w] = w / strength, key


@entry
def project(
    keys: Any, counts: Any, begin: int, end: int, strength: float, kl: bool, ranks: bool,
    out: Any, order: Any, block: Any,
) -> None:  # fmt: skip
    """Soft ranks or values of rows `begin` to `end`, the items in order, and to which block each position belongs."""
    n = keys.shape[1]
    start, target, upper, lower = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    first, scratch = np.empty(n + 1, np.int32), order_scratch(keys)
    for row in range(begin, end):
        size = counts[row] if counts.size else n
        items = stable_order(keys[row], size, scratch)
        order[row, : items.size], order[row, items.size :] = items, 0
        block[row] = n
        if not items.size:
            out[row] = np.nan
            continue
        _lay_out(keys[row], items, size, strength, kl, ranks, start, target)
        pools = _pool(start[:size], target[:size], kl, first, upper, lower)
        first[pools] = size
        for b in range(pools):
            length = first[b + 1] - first[b]
            for w in range(first[b], first[b + 1]):
                block[row, w] = b
                value = start[w] - (upper[b] - lower[b]) / (1 if kl else length)
                if not ranks:
                    out[row, w] = value
                else:
                    out[row, items[w]] = math.exp(value) - 1 if kl else value
        for w in range(size, n):
            out[row, w] = w if ranks else keys[row, w]


@entry
def project_backward(
    keys: Any, counts: Any, begin: int, end: int, strength: float, kl: bool, ranks: bool, order: Any, block: Any,
    result: Any, above: Any, out: Any,
) -> None:  # fmt: skip
    """Gradient of the keys; within a block, that of a mean or, if `kl`, of a softmax."""
    n = keys.shape[1]
    share = np.empty(n)
    for row in range(begin, end):
        size = counts[row] if counts.size else n
        out[row] = 0
        if block[row, 0] == n and size:  # the row has a nan
            continue
        first = 0
        while first < size:
            last = first
            while last < size and block[row, last] == block[row, first]:
                last += 1
            _shares(keys[row], order[row], first, last, strength, kl, ranks, share)
            mean = total = 0.0
            for w in range(first, last):
                given = above[row, order[row, w]] if ranks else above[row, w]
                mean += share[w] * given
                total += given
            for w in range(first, last):
                item = order[row, w]
                if not ranks:
                    out[row, item] = share[w] * total
                else:
                    gain = (result[row, item] + 1) / strength if kl else 1 / strength
                    out[row, item] = gain * (above[row, item] - mean)
            first = last
        for w in range(size, n):
            out[row, w] = 0 if ranks else above[row, w]


@jit
def _shares(
    keys: Any, order: Any, first: int, last: int, strength: float, kl: bool, ranks: bool, share: Any
) -> None:  # fmt: skip
    """Of each item of a block in what the block sums up: equal shares or, if `kl`, a softmax of the keys."""
    scale, total = 1 / strength if ranks else 1.0, 0.0
    for w in range(first, last):
        ahead = np.float64(keys[order[w]]) - np.float64(keys[order[last - 1]])
        share[w] = math.exp(scale * ahead) if kl else 1.0
        total += share[w]
    for w in range(first, last):
        share[w] /= total
