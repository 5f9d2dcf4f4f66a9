"""A group of rows on its way through a whole network, down with the keys and up again with gradients.

`steps` = (first layer, last layer + 1, part, parts) says which layers, and which share of each layer's comparators: a
single long row is worked on by several threads, layer by layer. An array (comparators, rows) may hold the whole network
or, where nothing is kept, just the widest layer.
"""

from typing import Any

import numpy as np

from ._curves import slopes, weigh
from ._jit import jit
from ._wires import differences, gaps, mix, sweep


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


@jit
def share(table: Any, layer: int, steps: Any) -> Any:
    """The first comparator of a layer, and the first and one past the last of our share of it."""
    first, last = table[3][layer], table[3][layer + 1]
    size = last - first
    return first, first + size * steps[2] // steps[3], first + size * (steps[2] + 1) // steps[3]


@jit
def part(array: Any, table: Any, first: int, begin: int, end: int) -> Any:
    """What `array` holds of comparators `begin` to `end` of the layer that starts at `first`."""
    shift = 0 if array.shape[0] == table[0].size else first
    return array[begin - shift : end - shift]


@jit
def down(
    wires: Any, values: Any, table: Any, count: Any, curve: Any, gap: Any, diff: Any, stay: Any, leave: Any, steps: Any
) -> None:
    """Soft layers on the keys and, if there are any, on `values`, whose differences are kept as well."""
    low, high, since, _ = table
    for layer in range(steps[0], steps[1]):
        first, begin, end = share(table, layer, steps)
        i, j = low[begin:end], high[begin:end]
        d = part(gap, table, first, begin, end)
        s, t = part(stay, table, first, begin, end), part(leave, table, first, begin, end)
        gaps(wires, i, j, since[begin:end], count, d)
        weigh(curve, d, s, t)
        mix(wires, i, j, s, t)
        if values.shape[0]:
            differences(values, i, j, part(diff, table, first, begin, end))
            mix(values, i, j, s, t)


@jit
def up(
    grad: Any, back: Any, table: Any, curve: Any, gap: Any, diff: Any, push: Any, stay: Any, leave: Any, slope: Any,
    steps: Any,
) -> None:  # fmt: skip
    """Soft layers in reverse: `back` is carried from outputs to inputs, then the gradient of the keys."""
    low, high, _, _ = table
    for layer in range(steps[1] - 1, steps[0] - 1, -1):
        first, begin, end = share(table, layer, steps)
        i, j = low[begin:end], high[begin:end]
        d, p = part(gap, table, first, begin, end), part(push, table, first, begin, end)
        s, t = part(stay, table, first, begin, end), part(leave, table, first, begin, end)
        weigh(curve, d, s, t)
        if grad.shape[0]:
            slopes(curve, d, s, t, part(slope, table, first, begin, end))
        if back.shape[0]:
            _pushed(back, i, j, part(diff, table, first, begin, end), p)
            mix(back, i, j, s, t)
        if grad.shape[0]:
            sweep(grad, i, j, s, t, part(slope, table, first, begin, end), d, p)


@jit
def _pushed(back: Any, low: Any, high: Any, diff: Any, push: Any) -> None:
    differences(back, low, high, push)
    for c in range(push.shape[0]):
        for r in range(push.shape[1]):
            push[c, r] *= diff[c, r]
