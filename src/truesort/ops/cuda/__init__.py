"""The CUDA backend: what each public function launches. The kernels are in the files beside this one.

All functions are pure, wait for nothing, and may be captured in a CUDA graph once they have run before. A permutation
is never treated apart: P is the identity carried back from the outputs, a rank is P times the positions, and the
gradients of both are those of a reorder whose payload is the gradient itself.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...networks import network

try:
    import triton
except ImportError as error:  # pragma: no cover
    raise ImportError("triton is not installed; it comes with torch on Linux, or: pip install triton") from error

from . import _registers as registers
from . import _wires as wires
from ._isotonic import project as project
from ._isotonic import project_backward as project_backward
from ._launch import halves, on, up

if TYPE_CHECKING:
    from ..network import Network

COLUMNS = 16
"""Columns a program of the memory kernels carries."""
TILE = 64
WARPS = 2
"""With more, several warps would hold the same comparator of a tile, and one might read what another has swapped."""
SCRATCH_PROGRAMS = 1056
SHARED = 16_384
"""From this many wires on, several programs share a row and wait for each other after every layer."""


def available() -> str | None:
    """Why this backend cannot run here, or None if it can."""
    return None if torch.cuda.is_available() else "no CUDA device is visible to torch"


@dataclass(frozen=True)
class _Tables:
    """A network's arrays on the device, and the sizes the host needs."""

    low: Tensor
    high: Tensor
    since: Tensor
    start: Tensor
    size: int
    depth: int
    widest: int

    @property
    def arrays(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.low, self.high, self.since, self.start


@lru_cache(maxsize=64)
def _tables(layout: str, n: int, outputs: int, device: torch.device) -> _Tables:
    net = network(layout, n, outputs)
    arrays = (net.low, net.high, net.since, net.start)
    low, high, since, start = (torch.from_numpy(array).to(device) for array in arrays)
    widest = int((net.start[1:] - net.start[:-1]).max(initial=0))
    return _Tables(low, high, since, start, net.size, net.depth, widest)


@dataclass
class _Rows:
    """Rows of keys without nan, and everything the kernels read beside them."""

    keys: Tensor
    bad: Tensor
    real: Tensor | None
    count: Tensor | None
    net: "Network"
    tables: _Tables

    @property
    def curve(self) -> tuple[float, float]:
        return halves(self.net.steepness)

    @property
    def flags(self) -> dict[str, Any]:
        return {"SWAP": self.net.swap, "ART": self.net.art, "COUNTED": self.count is not None}

    def scale(self) -> tuple[int, int]:
        return self.keys.shape[1], self.tables.size

    def parts(self) -> int:
        """Programs that share a row: as many as surely run at once, where a row is long enough to gain by it."""
        if self.keys.shape[1] < SHARED or self.keys.device.type != "cuda":
            return 1
        programs = registers.processors(self.keys.device) // len(self.keys)
        return max(1, min(programs, -(-self.tables.widest // 512)))

    def launch(self) -> tuple[tuple[int, int], Tensor, dict[str, Any]]:
        """The grid, the counters of programs at the end of a layer, and how the kernels of all layers are compiled."""
        parts = self.parts()
        arrived = torch.zeros(len(self.keys), dtype=torch.int32, device=self.keys.device)
        tile = 512 if parts > 1 else min(1024, max(32, triton.next_power_of_2(self.tables.widest)))
        options: dict[str, Any] = {"TILE": tile, "FAR": parts > 1, "num_warps": _warps(self.tables.widest)}
        if parts > 1:
            options["launch_cooperative_grid"] = True
        return (len(self.keys), parts), arrived, options


def _rows(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> _Rows:
    real = None
    if count is not None:
        real = torch.arange(keys.shape[1], device=keys.device) < count[:, None]
    wrong = keys.isnan()
    bad = (wrong if real is None else wrong & real).any(1, keepdim=True)
    tables = _tables(net.layout, keys.shape[1], outputs, keys.device)
    return _Rows(keys.masked_fill(bad, 0).contiguous(), bad, real, count, net, tables)


def _order(rows: _Rows) -> Tensor:
    keys = rows.keys if rows.real is None else rows.keys.masked_fill(~rows.real, torch.inf)
    return keys.argsort(dim=1, stable=True)


def _places(order: Tensor) -> Tensor:
    positions = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, positions)


def _soft(rows: _Rows) -> tuple[Tensor, Tensor]:
    """(sorted values, gaps of all comparators) of the soft network."""
    state, gaps = rows.keys.clone(), rows.keys.new_empty(len(rows.keys), rows.tables.size)
    grid, arrived, options = rows.launch()
    wires.trace_soft[grid](
        state, gaps, *rows.tables.arrays, rows.count, arrived, *rows.scale(), rows.tables.depth, *rows.curve,
        **rows.flags, **options,
    )  # fmt: skip
    return state, gaps


def _warps(widest: int) -> int:
    return 1 << min(8, max(1, widest // 64)).bit_length() - 1


def _hard(rows: _Rows, places: Tensor) -> tuple[Tensor, Tensor]:
    """(items on the wires at the end, who was swapped) of the hard network; both are what its way back needs."""
    count, n = rows.keys.shape
    items = torch.arange(n, dtype=torch.int32, device=places.device).repeat(count, 1)
    swapped = torch.empty(count, rows.tables.size, dtype=torch.int8, device=places.device)
    grid, arrived, options = rows.launch()
    wires.trace_hard[grid](
        items, places, swapped, *rows.tables.arrays, rows.count, arrived, *rows.scale(), rows.tables.depth,
        COUNTED=rows.count is not None, **options,
    )  # fmt: skip
    return items, swapped


def _mixed(rows: _Rows, gaps: Tensor, flow: Tensor, reverse: bool) -> Tensor:
    """Carry `flow` (rows, n, columns), which is overwritten, through the soft network."""
    columns, wide = flow.shape[2], _wide(flow)
    wires.mix_layers[(len(flow), up(columns, wide))](
        flow, gaps, *rows.tables.arrays, rows.count, *rows.scale(), columns, rows.tables.depth, *rows.curve, reverse,
        **rows.flags, TILE=TILE, WIDE=wide, num_warps=WARPS,
    )  # fmt: skip
    return flow


def _wide(flow: Tensor) -> int:
    return min(COLUMNS, 1 << (flow.shape[2] - 1).bit_length())


def _shares_soft(rows: _Rows, gaps: Tensor, payload: Tensor, flow: Tensor) -> Tensor:
    """dL/dσ of every comparator, (rows, blocks, size); carries `flow`, the gradient of what came out, back in place."""
    count, n, columns = flow.shape
    depth, wide = rows.tables.depth, _wide(flow)
    blocks, stretch = up(columns, wide), max(1, round(depth**0.5))
    room = n * (1 + up(depth, stretch)) + stretch * rows.tables.widest
    programs = max(1, min(count * blocks, SCRATCH_PROGRAMS, 2**28 // (room * wide)))
    shares, scratch = flow.new_empty(count, blocks, rows.tables.size), flow.new_empty(programs * room * wide)
    wires.shares_soft[(programs,)](
        flow, payload, gaps, shares, scratch, *rows.tables.arrays, rows.count, *rows.scale(), columns, depth, count,
        blocks, stretch, room, rows.tables.widest, *rows.curve, *payload.stride(),
        **rows.flags, TILE=TILE, WIDE=wide, num_warps=WARPS,
    )  # fmt: skip
    return shares


def _shares_hard(rows: _Rows, traced: tuple[Tensor, Tensor], payload: Tensor, flow: Tensor) -> Tensor:
    """The same where the payload moved hard and the gradient goes back through soft weights."""
    count, columns = len(flow), flow.shape[2]
    wide = _wide(flow)
    blocks = up(columns, wide)
    shares = flow.new_empty(count, blocks, rows.tables.size)
    items, swapped = traced[0].repeat_interleave(blocks, 0), traced[1]
    wires.shares_hard[(count, blocks)](
        flow, payload, rows.keys, items, swapped, shares, *rows.tables.arrays, rows.count, *rows.scale(), columns,
        rows.tables.depth, blocks, *rows.curve, *payload.stride(), **rows.flags, TILE=TILE, WIDE=wide, num_warps=WARPS,
    )  # fmt: skip
    return shares


def _keys_back(
    rows: _Rows, flow: Tensor, *, gaps: Tensor | None = None, hard: tuple[Tensor, Tensor] | None = None,
    shares: Tensor | None = None, places: Tensor | None = None, grad: Tensor | None = None,
    payload: Tensor | None = None, kind: str = "none",
) -> Tensor:  # fmt: skip
    """The gradient of the keys from that of the sorted values, `flow` (rows, n), and the comparators' shares."""
    items, swapped = hard or (None, None)
    grad_strides = grad.stride() if grad is not None else (0, 0, 0)
    payload_strides = payload.stride() if payload is not None else (0, 0, 0)
    columns = 0 if payload is None else payload.shape[2]
    matrix = hard is not None and rows.net.backward == "matrix"
    grid, arrived, options = rows.launch()
    wires.values_back[grid](
        flow, shares, gaps, rows.keys, items, swapped, places, grad, rows.keys if payload is None else payload,
        *rows.tables.arrays, rows.count, arrived, *rows.scale(), columns, 1 if shares is None else shares.shape[1],
        columns, rows.tables.depth, *rows.curve, *grad_strides, *payload_strides, kind, hard is not None, matrix,
        **rows.flags, **options,
    )  # fmt: skip
    return flow.masked_fill_(rows.bad | rows.keys.isinf(), 0)


def sort(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` sorted values, (rows, outputs)."""
    if keys.numel() == 0:
        return keys.new_empty(len(keys), outputs)
    with on(keys):
        if registers.serves(keys, net) and not net.error_free:
            return registers.sort(keys, count, net, outputs)
        rows = _rows(keys, count, net, outputs)
        done = rows.keys.gather(1, _order(rows)) if net.error_free else _soft(rows)[0]
        return done[:, :outputs].masked_fill(rows.bad, torch.nan)


def sort_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys from that of `sort`."""
    if keys.numel() == 0 or grad.shape[1] == 0:
        return torch.zeros_like(keys, memory_format=torch.contiguous_format)
    with on(keys):
        if registers.serves(keys, net):
            return registers.sort_backward(keys, count, grad, net)
        rows = _rows(keys, count, net, grad.shape[1])
        flow = torch.zeros_like(rows.keys)
        flow[:, : grad.shape[1]] = grad
        if not net.error_free:
            return _keys_back(rows, flow, gaps=_soft(rows)[1])
        return _keys_back(rows, flow, hard=_hard(rows, _places(_order(rows))))


def rank(keys: Tensor, count: Tensor | None, net: "Network") -> Tensor:
    """The position of every item, (rows, n)."""
    if keys.numel() == 0:
        return torch.empty_like(keys)
    with on(keys):
        rows = _rows(keys, count, net, keys.shape[1])
        if net.error_free:
            return _places(_order(rows)).to(keys.dtype).masked_fill_(rows.bad, torch.nan)
        flow = _positions(rows.keys)
        return _mixed(rows, _soft(rows)[1], flow, True)[..., 0].masked_fill(rows.bad, torch.nan)


def rank_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys from that of `rank`."""
    if keys.numel() == 0:
        return torch.zeros_like(keys)
    with on(keys):
        rows = _rows(keys, count, net, keys.shape[1])
        return _from_above(rows, grad[..., None], _positions(rows.keys))


def permutation(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` columns of P, (rows, n, outputs)."""
    if keys.numel() == 0 or outputs == 0:
        return keys.new_empty(*keys.shape, outputs)
    with on(keys):
        if net.error_free and keys.shape[1] <= registers.HARD_WIRES:
            return registers.permutation_hard(keys, count, outputs)
        if registers.serves(keys, net) and not net.error_free:
            return registers.permutation(keys, count, net, outputs)
        rows = _rows(keys, count, net, outputs)
        if net.error_free:
            positions = torch.arange(outputs, device=keys.device)
            done = (_places(_order(rows))[..., None] == positions).to(keys.dtype)
        else:
            done = _mixed(rows, _soft(rows)[1], _identity(rows.keys, outputs), True)
        return done.masked_fill_(rows.bad[..., None], torch.nan)


def permutation_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys from that of `permutation`."""
    if grad.numel() == 0:
        return torch.zeros_like(keys, memory_format=torch.contiguous_format)
    with on(keys):
        if registers.serves(keys, net):
            return registers.permutation_backward(keys, count, grad, net)
        rows = _rows(keys, count, net, grad.shape[2])
        if net.error_free and net.backward == "matrix":
            places = _places(_order(rows))
            flow = torch.zeros_like(rows.keys)
            return _keys_back(rows, flow, hard=_hard(rows, places), places=places, payload=grad, kind="entries")
        return _from_above(rows, grad, _identity(rows.keys, grad.shape[2]))


def reorder(keys: Tensor, payload: Tensor, count: Tensor | None, net: "Network") -> Tensor:
    """Pᵀ payload, (rows, n, c)."""
    if payload.numel() == 0:
        return payload.new_empty(payload.shape)
    with on(keys):
        rows = _rows(keys, count, net, keys.shape[1])
        if net.error_free:
            done = payload.gather(1, _order(rows)[..., None].expand_as(payload))
        else:
            done = _mixed(rows, _soft(rows)[1], payload.clone(memory_format=torch.contiguous_format), False)
        return done.masked_fill_(rows.bad[..., None], torch.nan)


def reorder_backward(
    keys: Tensor, payload: Tensor, count: Tensor | None, grad: Tensor, net: "Network", both: bool = True
) -> tuple[Tensor, Tensor | None]:
    """The gradients of the keys and, of `both`, of the payload from that of `reorder`."""
    if payload.numel() == 0:
        return torch.zeros_like(keys, memory_format=torch.contiguous_format), payload.new_empty(payload.shape)
    with on(keys):
        rows = _rows(keys, count, net, keys.shape[1])
        if not net.error_free:
            flow = grad.clone(memory_format=torch.contiguous_format)
            return _from_above(rows, payload, flow), flow.masked_fill_(rows.bad[..., None], 0)
        if payload.shape[2] < keys.shape[1]:
            gkeys = _from_above(rows, payload, grad.clone(memory_format=torch.contiguous_format))
        else:
            gkeys = permutation_backward(keys, count, _entries(payload, grad), net)
        if not both:
            return gkeys, None
        back = grad.gather(1, _places(_order(rows))[..., None].expand_as(grad))
        return gkeys, back.masked_fill_(rows.bad[..., None], 0)


def _entries(payload: Tensor, grad: Tensor) -> Tensor:
    """The gradient of P from that of Pᵀ payload: with more columns than items it is the smaller of the two."""
    return payload.nan_to_num(0, 0, 0) @ grad.transpose(1, 2)


def _from_above(rows: _Rows, payload: Tensor, flow: Tensor) -> Tensor:
    """The gradient of the keys if `payload` went through the network and `flow` is the gradient of what came out.

    `flow`, contiguous, is overwritten: in the soft network by the gradient of the payload.
    """
    values = torch.zeros_like(rows.keys)
    if not rows.net.error_free:
        gaps = _soft(rows)[1]
        return _keys_back(rows, values, gaps=gaps, shares=_shares_soft(rows, gaps, payload, flow), kind="blocks")
    places = _places(_order(rows))
    hard = _hard(rows, places)
    if rows.net.backward == "matrix":
        return _keys_back(rows, values, hard=hard, places=places, grad=flow, payload=payload, kind="items")
    return _keys_back(rows, values, hard=hard, shares=_shares_hard(rows, hard, payload, flow), kind="blocks")


def _identity(keys: Tensor, outputs: int) -> Tensor:
    return torch.eye(keys.shape[1], outputs, dtype=keys.dtype, device=keys.device).repeat(len(keys), 1, 1)


def _positions(keys: Tensor) -> Tensor:
    positions = torch.arange(keys.shape[1], dtype=keys.dtype, device=keys.device)
    return positions.repeat(len(keys), 1)[..., None]
