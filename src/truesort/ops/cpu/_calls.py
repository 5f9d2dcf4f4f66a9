"""From torch tensors to the compiled rows and back: layouts, groups, blocks and threads are chosen here.

Importing this module imports Numba, so `ops.cpu` does so at the first call only.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...networks import network
from . import _hard, _isotonic, _long, _order, _reorder, _soft
from ._columns import everywhere, reach
from ._curves import CODES
from ._threads import parts_for, split

if TYPE_CHECKING:
    from ..network import Network

_EVERY_ROW = np.empty(0, np.int64)
_CACHED = 65_536
"""How many numbers of a group's scratch array stay in the second-level cache."""


class _Task(NamedTuple):
    """What all functions need: the rows, how many of each are real, the network, the curve; and how to split them."""

    keys: NDArray[Any]
    counts: NDArray[np.int64]
    table: tuple[Any, Any, Any, Any]
    curve: tuple[int, float, float]
    group: int
    parts: int
    alone: bool

    def run_alone(self, function: Any, *settings: Any, above: NDArray[Any] | None, out: NDArray[Any]) -> None:
        """Call the function for one long row on each, all threads at once."""
        threads = torch.get_num_threads()
        for row, keys in enumerate(self.keys):
            real = keys.size if not self.counts.size else int(self.counts[row])
            if np.isnan(keys[:real]).any():
                out[row] = np.nan if above is None else 0
                continue
            last = () if above is None else (_padded(above[row], keys.size),)
            before = (keys[:, None].copy(), self.table, np.array([real], np.int32), self.curve, threads)
            out[row] = function(*before, *settings, *last)[: out.shape[1], 0]
            if above is not None:
                out[row, np.isinf(keys)] = 0

    def run(self, function: Any, *settings: Any, arrays: tuple[Any, ...]) -> None:
        """Call the compiled function on all rows."""
        before = (self.keys, self.counts, self.table, self.curve, *settings, self.group)
        split(lambda begin, end: function(*before, begin, end, *arrays), len(self.keys), self.parts)

    def run_hard(self, function: Any, *arrays: Any) -> None:
        """Call the compiled function of the stable order on all rows."""
        _run_rows(function, self.keys, self.counts, *arrays)


def _run_rows(function: Any, keys: NDArray[Any], counts: NDArray[np.int64], *arrays: Any) -> None:
    parts = min(parts_for(15 * keys.size), max(len(keys), 1))
    split(lambda begin, end: function(keys, counts, begin, end, *arrays), len(keys), parts)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


def _padded(row: NDArray[Any], size: int) -> NDArray[Any]:
    wires = np.zeros((size, 1), row.dtype)
    wires[: row.size, 0] = row
    return wires


def _counts(count: Tensor | None) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = _EVERY_ROW if count is None else _array(count)
    return counts


@lru_cache(maxsize=256)
def _table(layout: str, n: int, outputs: int) -> tuple[Any, Any, Any, Any]:
    net = network(layout, n, outputs)
    return net.low, net.high, net.since, net.start


def _task(keys: Tensor, count: Tensor | None, net: "Network", outputs: int, columns: int) -> _Task:
    """`columns` is how many payload columns pass the network; with none, more rows may go side by side."""
    rows, n = keys.shape
    table = _table(net.layout, n, outputs)
    size = max(len(table[0]), 1)
    parts = min(parts_for(rows * size * (2 + columns // 8)), max(rows, 1))
    line = 64 // keys.element_size()
    side_by_side = min(line, -(-rows // parts), _CACHED * (1 if columns else 4) // size)
    if 4 * side_by_side >= line and line * size <= 4 * _CACHED:  # vectors pay, even with some lanes idle
        side_by_side = line
    counts = _counts(count)
    curve = (CODES[net.swap], float(net.steepness), float(net.art))
    alone = columns == 0 and rows < torch.get_num_threads() and size > _long.WORTH * len(table[3])
    return _Task(_array(keys), counts, table, curve, max(side_by_side, 1), parts, alone)


@lru_cache(maxsize=256)
def _items(layout: str, n: int, outputs: int, itemsize: int, upwards: bool) -> tuple[Any, Any, tuple[int, ...]]:
    """Of the identity: which comparators each block of columns can reach from its end, and how wide a block is."""
    line = 64 // itemsize
    width = line if n <= line or 2 * line < n <= 3 * line else 2 * line
    return *reach(network(layout, n, outputs), width, outputs if upwards else n, upwards), (0,) * width


@lru_cache(maxsize=256)
def _payload(layout: str, n: int, columns: int, itemsize: int) -> tuple[Any, Any, tuple[int, ...]]:
    line = 64 // itemsize
    width = 4 if columns <= 4 else line if columns <= line else 2 * line
    return *everywhere(network(layout, n)), (0,) * width


def sort(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    out = keys.new_empty(keys.shape[0], outputs)
    task = _task(keys, count, net, outputs, 0)
    if net.error_free:
        task.run_hard(_order.sort, out.numpy())
    elif task.alone:
        task.run_alone(_long.sort, above=None, out=out.numpy())
    else:
        task.run(_soft.sort, arrays=(out.numpy(),))
    return out


def sort_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    return _values_backward(keys, count, grad, net, grad.shape[1], False)


def rank(keys: Tensor, count: Tensor | None, net: "Network") -> Tensor:
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    task = _task(keys, count, net, keys.shape[1], 0)
    if net.error_free:
        task.run_hard(_order.rank, out.numpy())
    elif task.alone:
        task.run_alone(_long.rank, above=None, out=out.numpy())
    else:
        task.run(_soft.rank, arrays=(out.numpy(),))
    return out


def rank_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    return _values_backward(keys, count, grad, net, keys.shape[1], True)


def _values_backward(
    keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network", outputs: int, ranks: bool
) -> Tensor:
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    task = _task(keys, count, net, outputs, 0)
    arrays, matrix = (_array(grad), out.numpy()), net.backward == "matrix"
    if task.alone and net.error_free:
        task.run_alone(_long.hard_backward, ranks, matrix, above=arrays[0], out=arrays[1])
    elif task.alone:
        task.run_alone(_long.soft_backward, ranks, above=arrays[0], out=arrays[1])
    elif net.error_free:
        task.run(_hard.values_backward, arrays=(ranks, matrix, *arrays))
    else:
        task.run(_soft.rank_backward if ranks else _soft.sort_backward, arrays=arrays)
    return out


def permutation(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    rows, n = keys.shape
    out = keys.new_empty(rows, n, outputs)
    task = _task(keys, count, net, outputs, n)
    if net.error_free:
        task.run_hard(_order.permutation, out.numpy())
    else:
        blocks = _items(net.layout, n, outputs, keys.element_size(), True)
        task.run(_soft.permutation, *blocks, arrays=(out.numpy(),))
    return out


def permutation_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    n, outputs = grad.shape[1:]
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    above = _array(grad)
    if net.error_free and net.backward == "matrix":
        none = np.empty((0, 0, 0), above.dtype)
        _task(keys, count, net, outputs, 0).run(_hard.matrix_backward, arrays=(none, above, out.numpy()))
        return out
    blocks = _items(net.layout, n, outputs, keys.element_size(), not net.error_free)
    source = _hard if net.error_free else _soft
    _task(keys, count, net, outputs, n).run(source.permutation_backward, *blocks, arrays=(above, out.numpy()))
    return out


def reorder(keys: Tensor, payload: Tensor, count: Tensor | None, net: "Network") -> Tensor:
    out = torch.empty_like(payload, memory_format=torch.contiguous_format)
    n, columns = payload.shape[1:]
    task = _task(keys, count, net, n, columns)
    if net.error_free:
        task.run_hard(_order.reorder, _array(payload), out.numpy())
    else:
        blocks = _payload(net.layout, n, columns, keys.element_size())
        task.run(_reorder.reorder, *blocks, arrays=(_array(payload), out.numpy()))
    return out


def reorder_backward(
    keys: Tensor, payload: Tensor, count: Tensor | None, grad: Tensor, net: "Network", both: bool
) -> tuple[Tensor, Tensor | None]:
    n, columns = payload.shape[1:]
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    out_payload = torch.empty_like(payload, memory_format=torch.contiguous_format)
    above, given = _array(grad), _array(payload)
    blocks = _payload(net.layout, n, columns, keys.element_size())
    if not net.error_free:
        arrays = (given, above, out.numpy(), out_payload.numpy())
        _task(keys, count, net, n, columns).run(_reorder.reorder_backward, *blocks, arrays=arrays)
        return out, out_payload
    task = _task(keys, count, net, n, columns)
    if both:
        task.run_hard(_order.reorder_back, above, out_payload.numpy())
    finite = (np.where(np.isfinite(given), given, given.dtype.type(0)), above, out.numpy())
    if net.backward == "matrix":
        task.run(_hard.matrix_backward, arrays=finite)
    else:
        task.run(_hard.reorder_backward, *blocks, arrays=finite)
    return out, out_payload if both else None


def project(
    keys: Tensor, count: Tensor | None, strength: float, kl: bool, ranks: bool
) -> tuple[Tensor, Tensor, Tensor]:
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    order, block = keys.new_empty(2, *keys.shape, dtype=torch.int32)
    settings = (strength, kl, ranks)
    _run_rows(_isotonic.project, _array(keys), _counts(count), *settings, out.numpy(), order.numpy(), block.numpy())
    return out, order, block


def project_backward(
    keys: Tensor, count: Tensor | None, strength: float, kl: bool, ranks: bool, *saved: Tensor
) -> Tensor:
    out = torch.empty_like(keys, memory_format=torch.contiguous_format)
    arrays = (*map(_array, saved), out.numpy())
    _run_rows(_isotonic.project_backward, _array(keys), _counts(count), strength, kl, ranks, *arrays)
    return out
