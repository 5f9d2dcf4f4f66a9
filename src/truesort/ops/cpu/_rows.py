"""Between rows as the caller has them and wires as the network wants them."""

from typing import Any

import numpy as np

from ._group import aligned, whole_lines
from ._jit import jit


@jit
def lines(like: Any, size: int, group: int) -> Any:
    """Scratch for `size` wires or comparators of a group of rows; behind it lies room for whole squares."""
    return aligned(like, whole_lines(like, size) * group)[: size * group].reshape(size, group)


@jit
def by_row(like: Any, size: int, group: int) -> Any:
    """Scratch for as much, each row for itself."""
    return aligned(like, whole_lines(like, size) * group).reshape(group, whole_lines(like, size))


@jit
def store(wires: Any, bad: Any, begin: int, end: int, instead: Any, out: Any) -> None:
    """Wires as rows `begin` to `end` of `out`, or `instead` in bad rows."""
    for r in range(min(wires.shape[1], end - begin)):
        for w in range(out.shape[1]):
            out[begin + r, w] = instead if bad[r] else wires[w, r]


@jit
def store_gradient(grad: Any, bad: Any, begin: int, end: int, keys: Any, out: Any) -> None:
    """As `store`, with zero for keys that are infinite and for bad rows."""
    for r in range(min(grad.shape[1], end - begin)):
        for w in range(out.shape[1]):
            out[begin + r, w] = 0 if bad[r] or np.isinf(keys[begin + r, w]) else grad[w, r]


@jit
def take(rows: Any, bad: Any, begin: int, end: int, wires: Any) -> None:
    """Rows `begin` to `end` as wires, zeros in bad rows and where there is nothing."""
    for r in range(wires.shape[1]):
        there = begin + r < end and not bad[r]
        for w in range(wires.shape[0]):
            wires[w, r] = rows[begin + r, w] if there and w < rows.shape[1] else 0


@jit
def positions(wires: Any) -> None:
    """Every wire carries its own number."""
    for w in range(wires.shape[0]):
        wires[w] = w
