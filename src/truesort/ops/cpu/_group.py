"""A group of rows on its way through a whole network, down with the keys and up again with gradients.

`steps` = (first layer, last layer + 1, part, parts) says which layers, and which share of each layer's comparators: a
single long row is worked on by several threads, layer by layer.
"""

from typing import Any

import numpy as np

from ._curves import slopes, weigh
from ._jit import inlined, jit
from ._wires import differences, gaps, mix, skipped, sweep


@jit
def load(keys: Any, counts: Any, begin: int, end: int, wires: Any, count: Any, bad: Any) -> None:
    """Rows `begin` to `end` of the keys as wires; a row with a nan becomes zeros and is noted as bad."""
    n = keys.shape[1]
    count[:] = 0
    bad[:] = False
    for r in range(wires.shape[1]):
        row = begin + r
        if row < end:
            count[r] = counts[row] if counts.size else n
            for w in range(count[r]):
                bad[r] |= np.isnan(keys[row, w])
        for w in range(n):
            wires[w, r] = keys[row, w] if row < end and not bad[r] else 0


@jit
def aligned(like: Any, size: int) -> Any:
    """Scratch for `size` numbers that begins with a cache line, so that no vector straddles two."""
    line = 64 // like.itemsize
    whole = np.empty(size + line, like.dtype)
    skip = (-whole.ctypes.data % 64) // like.itemsize
    return whole[skip : skip + size]


@jit
def whole_lines(like: Any, size: int) -> int:
    """The next multiple of how many numbers fill a cache line."""
    line: int = 64 // like.itemsize
    return (size + line - 1) // line * line


@jit
def widest(table: Any) -> int:
    """The most comparators of a layer."""
    start, most = table[3], 0
    for layer in range(start.size - 1):
        most = max(most, start[layer + 1] - start[layer])
    return most


@jit
def whole(table: Any) -> Any:
    """All layers, undivided."""
    return 0, table[3].size - 1, 0, 1


@inlined
def share(table: Any, layer: int, steps: Any) -> Any:
    """The first comparator of a layer, and the first and one past the last of our share of it."""
    first, last = np.intp(table[3][layer]), np.intp(table[3][layer + 1])
    size = last - first
    return first, first + size * steps[2] // steps[3], first + size * (steps[2] + 1) // steps[3]


@jit
def down(
    wires: Any, values: Any, table: Any, count: Any, curve: Any, gap: Any, diff: Any, fold: Any, steps: Any
) -> None:
    """Soft layers on the keys and, if there are any, on `values`, whose differences are kept as well."""
    for layer in range(steps[0], steps[1]):
        span = share(table, layer, steps)
        gaps(wires, table, count, gap, span)
        weigh(curve, table, gap, fold, span)
        mix(wires, table, fold, span)
        if values.shape[0]:
            differences(values, table, diff, span)
            mix(values, table, fold, span)


@jit
def up(
    grad: Any, back: Any, table: Any, curve: Any, gap: Any, diff: Any, push: Any, fold: Any, slope: Any, steps: Any
) -> None:
    """Soft layers in reverse: `back` is carried from outputs to inputs, then the gradient of the keys.

    A `fold` of the whole network has been filled on the way down.
    """
    for layer in range(steps[1] - 1, steps[0] - 1, -1):
        span = share(table, layer, steps)
        if fold.shape[0] != table[0].size:
            weigh(curve, table, gap, fold, span)
        if back.shape[0]:
            _pushed(back, table, diff, push, span)
            mix(back, table, fold, span)
        if grad.shape[0]:
            slopes(curve, table, gap, fold, slope, span)
            sweep(grad, table, fold, slope, gap, push, span)


@jit
def _pushed(back: Any, table: Any, diff: Any, push: Any, span: Any) -> None:
    differences(back, table, push, span)
    of_push, of_diff = skipped(push, table, span), skipped(diff, table, span)
    for c in range(span[1], span[2]):
        for r in range(push.shape[1]):
            push[c - of_push, r] *= diff[c - of_diff, r]
