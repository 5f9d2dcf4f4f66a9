"""One long row among all cores: within a layer no two comparators share a wire, so its shares run side by side.

Only where there are fewer rows than threads, and layers are long enough to be worth waking a thread for.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._group import down, up
from ._hard import down_hard, up_hard
from ._jit import entry
from ._threads import split

WORTH = 8_192
"""Comparators of a layer below which its shares are not worth their threads."""


@entry
def _down(*args: Any) -> None:
    down(*args)


@entry
def _up(*args: Any) -> None:
    up(*args)


@entry
def _down_hard(*args: Any) -> None:
    down_hard(*args)


@entry
def _up_hard(*args: Any) -> None:
    up_hard(*args)


Table = tuple[Any, Any, Any, Any]


def _layers(step: Callable[..., None], table: Table, parts: int, *args: Any, upwards: bool = False) -> None:
    """Call `step` on every layer, its comparators split in parts."""
    depth = len(table[3]) - 1
    for layer in reversed(range(depth)) if upwards else range(depth):
        split(lambda part, _, at=layer: step(*args, (at, at + 1, part, parts)), parts, parts)  # type: ignore[misc]


def _scratch(table: Table, dtype: Any, kept: bool) -> NDArray[Any]:
    return np.empty((len(table[0]) if kept else int(np.diff(table[3]).max()), 1), dtype)


def _soft_down(
    wires: Any, values: Any, table: Table, count: Any, curve: Any, parts: int, kept: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    gap, diff = _scratch(table, wires.dtype, kept), _scratch(table, wires.dtype, kept and len(values) > 0)
    fold = _scratch(table, wires.dtype, False)
    _layers(_down, table, parts, wires, values, table, count, curve, gap, diff, fold)
    return gap, diff


def _soft_up(grad: Any, back: Any, table: Table, curve: Any, gap: Any, diff: Any, parts: int) -> None:
    push, fold, slope = (_scratch(table, gap.dtype, False) for _ in range(3))
    push[:] = 0
    _layers(_up, table, parts, grad, back, table, curve, gap, diff, push, fold, slope, upwards=True)


def _positions(like: NDArray[Any]) -> NDArray[Any]:
    return np.arange(len(like), dtype=like.dtype)[:, None]


def sort(wires: NDArray[Any], table: Table, count: Any, curve: Any, parts: int) -> NDArray[Any]:
    """Soft values of one row, (n, 1)."""
    _soft_down(wires, wires[:0], table, count, curve, parts, False)
    return wires


def rank(wires: Any, table: Table, count: Any, curve: Any, parts: int) -> NDArray[Any]:
    """Soft ranks of one row."""
    gap, _ = _soft_down(wires, wires[:0], table, count, curve, parts, True)
    back = _positions(wires)
    _soft_up(wires[:0], back, table, curve, gap, gap, parts)
    return back


def soft_backward(wires: Any, table: Table, count: Any, curve: Any, parts: int, ranks: bool, above: Any) -> Any:
    """Gradient of one row of keys from that of its soft values or ranks."""
    values, grad = (above, np.zeros_like(wires)) if ranks else (wires[:0], above)
    back = _positions(wires) if ranks else wires[:0]
    gap, diff = _soft_down(wires, values, table, count, curve, parts, True)
    _soft_up(grad, back, table, curve, gap, diff, parts)
    return grad


def hard_backward(
    wires: Any, table: Table, count: Any, curve: Any, parts: int, ranks: bool, matrix: bool, above: Any
) -> Any:
    """As `soft_backward`, error-free."""
    items, stays = np.arange(len(wires), dtype=np.int32)[:, None], np.empty((len(table[0]), 1), np.uint8)
    values, grad = (above, np.zeros_like(wires)) if ranks else (wires[:0], above)
    gap, push, fold, slope = (_scratch(table, wires.dtype, False) for _ in range(4))
    push[:] = 0
    _layers(_down_hard, table, parts, wires, items, table, count, stays)
    before = (wires, items, grad, _positions(wires), values, table, count, curve, matrix)
    _layers(_up_hard, table, parts, *before, stays, gap, push, fold, slope, upwards=True)
    return grad
