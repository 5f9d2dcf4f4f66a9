"""What a layer does to the keys, for a group of rows at once.

Arrays are (wires, rows of the group) or (comparators of the layer, rows of the group): a network compares the same
wires in every row, so neighbouring rows fill a vector register whatever the layout, and a single long row is just a
group of one. Weights and slopes are functions of the gap between two keys, so the gap is all that is ever kept of a
comparator.
"""

from typing import Any

import numpy as np

from ._jit import jit


@jit
def gaps(keys: Any, low: Any, high: Any, since: Any, count: Any, gap: Any) -> None:
    """How much more the higher wire carries; wires that do not compare are infinitely far apart, in order."""
    zero, apart = keys.dtype.type(0), keys.dtype.type(np.inf)
    for c in range(low.size):
        i, j, born = low[c], high[c], since[c]
        for r in range(keys.shape[1]):
            a, b = keys[i, r], keys[j, r]
            d = zero if a == b else b - a
            gap[c, r] = d if born <= count[r] else apart


@jit
def mix(values: Any, low: Any, high: Any, stay: Any, leave: Any) -> None:
    """Each wire keeps the part `stay` of its value and takes `leave` of the other's; all or nothing exactly."""
    for c in range(low.size):
        i, j = low[c], high[c]
        for r in range(values.shape[1]):
            a, b, s, t = values[i, r], values[j, r], stay[c, r], leave[c, r]
            x, y = s * a + t * b, t * a + s * b
            values[i, r] = a if t == 0 else (b if s == 0 else x)
            values[j, r] = b if t == 0 else (a if s == 0 else y)


@jit
def differences(values: Any, low: Any, high: Any, out: Any) -> None:
    """What the lower wire carries minus what the higher one carries."""
    for c in range(low.size):
        i, j = low[c], high[c]
        for r in range(values.shape[1]):
            out[c, r] = values[i, r] - values[j, r]


@jit
def swap_hard(keys: Any, items: Any, low: Any, high: Any, since: Any, count: Any, stays: Any) -> None:
    """Put the smaller key, of equal ones the earlier item, on the lower wire; `stays` says where it was there."""
    for c in range(low.size):
        i, j, born = low[c], high[c], since[c]
        for r in range(keys.shape[1]):
            a, b, p, q = keys[i, r], keys[j, r], items[i, r], items[j, r]
            keep = (a < b) | ((a == b) & (p < q)) | (born > count[r])
            keys[i, r], keys[j, r] = (a, b) if keep else (b, a)
            items[i, r], items[j, r] = (p, q) if keep else (q, p)
            stays[c, r] = keep


@jit
def undo_hard(keys: Any, items: Any, low: Any, high: Any, stays: Any) -> None:
    """Take back `swap_hard`: a hard swap is its own inverse, once we know whether it swapped."""
    for c in range(low.size):
        i, j = low[c], high[c]
        for r in range(keys.shape[1]):
            a, b, p, q = keys[i, r], keys[j, r], items[i, r], items[j, r]
            keep = stays[c, r] != 0
            keys[i, r], keys[j, r] = (a, b) if keep else (b, a)
            items[i, r], items[j, r] = (p, q) if keep else (q, p)


@jit
def harden(stays: Any, stay: Any, leave: Any) -> None:
    """The weights 0 and 1 of what a hard swap did."""
    for c in range(stays.shape[0]):
        for r in range(stays.shape[1]):
            stay[c, r] = stays[c, r]
            leave[c, r] = 1 - stays[c, r]


@jit
def sweep(grad: Any, low: Any, high: Any, stay: Any, leave: Any, slope: Any, gap: Any, push: Any) -> None:
    """Carry the gradient of the keys from a layer's outputs to its inputs.

    `push` is what everything but the keys themselves says about dL/dσ; the keys add their own share.
    """
    zero = grad.dtype.type(0)
    for c in range(low.size):
        i, j = low[c], high[c]
        for r in range(grad.shape[1]):
            a, b, s, t = grad[i, r], grad[j, r], stay[c, r], leave[c, r]
            pull = slope[c, r] * (push[c, r] - (a - b) * gap[c, r])
            pull = zero if slope[c, r] == 0 else pull
            x, y = s * a + t * b, t * a + s * b
            grad[i, r] = (a if t == 0 else (b if s == 0 else x)) - pull
            grad[j, r] = (b if t == 0 else (a if s == 0 else y)) + pull
