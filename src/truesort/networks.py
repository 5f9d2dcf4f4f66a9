"""Sorting networks as plain index arrays.

A sorting network is a fixed list of comparators: each puts the smaller of two wires on the lower one, so the same
list sorts every input. Written as index arrays instead of n×n matrices, a network of any size is a few kilobytes,
and every backend reads the same arrays. Nothing here knows torch.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int32]
Layer = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]


@dataclass(frozen=True, eq=False)
class SortingNetwork:
    """Comparators of `n` wires in layers; within a layer no wire is touched twice.

    Comparator `c` compares wires `low[c] < high[c]` and is part of the network of k wires exactly if
    `since[c] <= k`: dropping the others from this network leaves the network of the same layout on the first k wires.
    Layer `l` holds the comparators `start[l]` to `start[l + 1]`.
    """

    n: int
    low: Indices
    high: Indices
    since: Indices
    start: Indices

    @property
    def size(self) -> int:
        """Number of comparators."""
        return len(self.low)

    @property
    def depth(self) -> int:
        """Number of layers, the comparators of a layer working at once."""
        return len(self.start) - 1

    def layers(self) -> Iterator[tuple[Indices, Indices, Indices]]:
        """`(low, high, since)` of each layer, first to last."""
        for begin, end in zip(self.start[:-1], self.start[1:], strict=True):
            yield self.low[begin:end], self.high[begin:end], self.since[begin:end]

    @cached_property
    def partners(self) -> tuple[Indices, Indices]:
        """`(partner, since)`, both (depth, n): whom each wire meets in each layer; an idle wire meets itself."""
        partner = np.tile(np.arange(self.n, dtype=np.int32), (self.depth, 1))
        born = np.zeros((self.depth, self.n), np.int32)
        for layer, (low, high, since) in enumerate(self.layers()):
            partner[layer, low], partner[layer, high] = high, low
            born[layer, low] = born[layer, high] = since
        return partner, born

    def prune(self, outputs: Iterable[int]) -> "SortingNetwork":
        """The same network without the comparators that cannot reach the wires `outputs`."""
        wanted = np.zeros(self.n, bool)
        wanted[list(outputs)] = True
        kept = []
        for low, high, since in reversed(list(self.layers())):
            keep = wanted[low] | wanted[high]
            wanted[low[keep]] = wanted[high[keep]] = True
            kept.append((low[keep], high[keep], since[keep]))
        return _network(self.n, reversed(kept))


def _network(n: int, layers: Iterable[Layer]) -> SortingNetwork:
    full = [layer for layer in layers if len(layer[0])]
    columns = list(zip(*full, strict=True)) or [()] * 3
    low, high, since = (np.concatenate([np.empty(0, np.int32), *column]).astype(np.int32) for column in columns)
    start = np.cumsum([0, *(len(layer[0]) for layer in full)], dtype=np.int32)
    return SortingNetwork(n, low, high, since, start)


def _odd_even(n: int) -> Iterator[Layer]:
    """Odd-even transposition: neighbours only, n layers; k wires need just the first k layers."""
    for layer in range(n):
        low = np.arange(layer % 2, n - 1, 2)
        yield low, low + 1, np.maximum(low + 2, layer + 1)


def _bitonic(n: int) -> Iterator[Layer]:
    """Bitonic merge sort with mirrored first steps, so that every comparator points the same way and any n works."""
    wires = np.arange(n)
    block = 2
    while block < 2 * n:
        masks = [block - 1] + [1 << bit for bit in reversed(range(block.bit_length() - 2))]
        for mask in masks:
            high = wires ^ mask
            real = (wires < high) & (high < n)
            # A block of this size is only ever merged on more wires than half of it.
            yield wires[real], high[real], np.maximum(high[real], block // 2) + 1
        block *= 2


def _merge_exchange(n: int) -> Iterator[Layer]:
    """Batcher's merge exchange (Knuth 5.2.2, algorithm M): the fewest comparators of the three."""
    top = 1 << max(n - 1, 0).bit_length() >> 1
    p = top
    while p:
        q, r, d = top, 0, p
        while True:
            low = np.arange(n - d)
            low = low[low & p == r]
            yield low, low + d, low + d + 1
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


LAYOUTS: dict[str, Callable[[int], Iterator[Layer]]] = {
    "odd_even": _odd_even,
    "bitonic": _bitonic,
    "merge_exchange": _merge_exchange,
}


ODD_EVEN_LIMIT = 16_384


@lru_cache(maxsize=256)
def network(layout: str, n: int, outputs: int | None = None) -> SortingNetwork:
    """The sorting network `layout` of `n` wires, pruned to its first `outputs` wires if they are all that is wanted."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}; choose one of {', '.join(map(repr, LAYOUTS))}")
    if n < 0:
        raise ValueError(f"n is {n}; a network has 0 wires or more")
    if layout == "odd_even" and n > ODD_EVEN_LIMIT:
        raise ValueError(
            f"layout 'odd_even' has n²/2 comparators, too many for {n} items (its limit is {ODD_EVEN_LIMIT}); "
            "layout='merge_exchange' sorts as many in about n·log²(n)/4"
        )
    whole = _network(n, LAYOUTS[layout](n))
    return whole if outputs is None or outputs >= n else whole.prune(range(outputs))
