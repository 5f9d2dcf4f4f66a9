"""The public functions: from any tensor to rows that a method understands, and back.

Dims, masks, directions, half precision, infinities and nan are dealt with here once, so that no method has to. What is
masked (and, for methods that want finite numbers, what is infinite) is moved behind the real items of its row before
the method runs and is given its place in the answer afterwards, hard and without a gradient to anything real.
"""

import math

import torch
from torch import Tensor

from .ops import Method, Network, known_finite


def sort(
    x: Tensor, method: Method | None = None, *, dim: int = -1, descending: bool = False, mask: Tensor | None = None
) -> Tensor:
    """The values of `x` in order along `dim`, as `torch.sort`, with a gradient.

    `mask` is True where an item is real; what is masked follows at the end in its own order.
    """
    rows = _Rows(x, method, dim, descending, mask)
    return rows.restore(rows.values(rows.n))


def rank(
    x: Tensor, method: Method | None = None, *, dim: int = -1, descending: bool = False, mask: Tensor | None = None
) -> Tensor:
    """The position of every item of `x` along `dim`, from 0: `x.argsort().argsort()` when hard."""
    rows = _Rows(x, method, dim, descending, mask)
    places = rows.method.rank(rows.keys, rows.count)
    return rows.restore(rows.to_items(rows.shift_ranks(places)))


def permutation(
    x: Tensor, method: Method | None = None, *, dim: int = -1, descending: bool = False, mask: Tensor | None = None
) -> Tensor:
    """P of shape (..., n, n), `dim` moved last: P[..., i, j] is the weight of item i at position j; sorted = Pᵀx."""
    rows = _Rows(x, method, dim, descending, mask)
    return rows.matrix(rows.n)


def reorder(
    keys: Tensor,
    payload: Tensor,
    method: Method | None = None,
    *,
    dim: int = -1,
    descending: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """The payload in the order of its keys, Pᵀ payload, without building P where the method can do without.

    `payload` has the shape of `keys`, followed by as many feature dims as one likes.
    """
    rows = _Rows(keys, method, dim, descending, mask)
    if not isinstance(payload, Tensor) or not payload.is_floating_point():
        raise TypeError(f"payload is {_describe(payload)}; it must be a tensor of floating point numbers")
    if payload.shape[: keys.ndim] != keys.shape:
        raise ValueError(
            f"payload has shape {tuple(payload.shape)}; it must begin with the shape of keys, {tuple(keys.shape)}"
        )
    moved = payload.movedim(rows.dim, keys.ndim - 1)
    dtype = torch.promote_types(rows.keys.dtype, payload.dtype)
    carried = moved.reshape(rows.rows, rows.n, math.prod(moved.shape[keys.ndim :])).to(dtype)
    carried = rows.method.reorder(rows.keys.to(dtype), rows.to_slots(carried), rows.count)
    carried = rows.to_positions(carried)
    return rows.blank(carried).reshape(moved.shape).movedim(keys.ndim - 1, rows.dim).to(payload.dtype)


def topk(
    x: Tensor,
    k: int,
    method: Method | None = None,
    *,
    dim: int = -1,
    largest: bool = True,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) values, in order along `dim`, and their selection of shape (..., n, k).

    The selection is the first k columns of P; a row with fewer than k real items is filled up with masked ones.
    """
    rows = _Rows(x, method, dim, largest, mask)
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= rows.n:
        raise ValueError(f"k is {k!r}; it must be a whole number from 0 to {rows.n}, the size of dim {dim}")
    selection = rows.matrix(k)
    return rows.restore(rows.values(k)), selection


def quantile(
    x: Tensor, q: float | Tensor, method: Method | None = None, *, dim: int = -1, mask: Tensor | None = None
) -> Tensor:
    """The q-th quantiles along `dim`, linear between two values as `torch.quantile`; several q come first in the shape.

    A row with nothing real has the quantile nan.
    """
    rows = _Rows(x, method, dim, False, mask)
    levels, outputs = _levels(q, rows)
    values = rows.values(outputs)
    last = torch.full_like(rows.keys[:, :1], rows.n) if rows.given is None else rows.given[:, None].to(rows.keys.dtype)
    last = last - 1
    at = (levels * last).clamp(min=0)
    low = at.floor()
    below = values.gather(1, low.long())
    above = values.gather(1, torch.minimum(low + 1, last.clamp(min=0)).long())
    found = torch.where(below == above, below, below + (above - below) * (at - low))
    found = rows.blank(found.masked_fill(last < 0, torch.nan)).to(x.dtype).T
    shape = [*x.shape[: rows.dim], *x.shape[rows.dim + 1 :]]
    return found.reshape([*levels.shape, *shape] if isinstance(q, Tensor) and q.ndim else shape)


def median(x: Tensor, method: Method | None = None, *, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """The quantile at ½: the mean of the two middle values where their number is even."""
    return quantile(x, 0.5, method, dim=dim, mask=mask)


def _levels(q: float | Tensor, rows: "_Rows") -> tuple[Tensor, int]:
    """The levels as a vector, and how many of the smallest values they need."""
    if rows.n == 0:
        raise ValueError(f"dim {rows.dim} has size 0; a quantile needs at least one item")
    if isinstance(q, Tensor):
        if q.ndim > 1 or not q.is_floating_point():
            raise ValueError(f"q is {_describe(q)}; it must be a number or a 1-dimensional tensor of them")
        if q.device.type == "cpu" and not torch.compiler.is_compiling() and not ((q >= 0) & (q <= 1)).all():
            raise ValueError(f"q is {q.tolist()}; every level must lie between 0 and 1")
        return q.reshape(-1).to(rows.keys), rows.n
    if isinstance(q, bool) or not isinstance(q, int | float) or not 0 <= q <= 1:
        raise ValueError(f"q is {q!r}; it must lie between 0 and 1")
    return rows.keys.new_tensor([q]), min(rows.n, math.floor(q * (rows.n - 1)) + 2)


class _Rows:
    """A problem as rows of keys, ascending, with what is real first; and the way back to the shape it came in.

    Three numberings: items as given, slots as the method sees them (real first), positions in the answer. `items` says
    which item is in which slot and `slots` which slot ends at which position; None where the two are the same.
    """

    def __init__(self, x: Tensor, method: Method | None, dim: int, descending: bool, mask: Tensor | None) -> None:
        _check(x, method, dim, mask)
        self.method = Network() if method is None else method
        self.x, self.dim, self.descending = x, dim % x.ndim, descending
        moved = x if self.dim == x.ndim - 1 else x.movedim(dim, -1)
        self.shape, self.n = moved.shape, moved.shape[-1]
        self.rows = math.prod(moved.shape[:-1])
        keys = moved if moved.ndim == 2 else moved.reshape(self.rows, self.n)
        keys = keys.float() if keys.dtype in (torch.float16, torch.bfloat16) else keys
        self.keys = -keys if descending else keys
        self.items: Tensor | None = None
        self.slots: Tensor | None = None
        self.count: Tensor | None = None
        self.lead: Tensor | None = None
        self.bad: Tensor | None = None
        real = None if mask is None else mask.movedim(dim, -1).reshape(self.rows, self.n)
        self.given = None if real is None else real.sum(1)
        if self.method.finite_only and not (real is None and known_finite(self.keys)):
            self._keep_finite(real)
        elif real is not None:
            self._arrange((~real).byte(), real.sum(1))

    def _keep_finite(self, real: Tensor | None) -> None:
        """Groups of a row, in this order: finite, −inf, +inf, masked; nan counts as 0 and spoils the answer later."""
        masked = torch.zeros_like(self.keys, dtype=torch.bool) if real is None else ~real
        self.bad = (self.keys.isnan() & ~masked).any(1, keepdim=True)
        self.keys = self.keys.masked_fill(self.bad, 0)
        least, most = self.keys == -torch.inf, self.keys == torch.inf
        group = torch.where(masked, 3, torch.where(most, 2, least.byte()))
        self.lead = (group == 1).sum(1, keepdim=True)
        self._arrange(group, (group == 0).sum(1))
        assert self.count is not None
        position, count = torch.arange(self.n, device=self.keys.device), self.count[:, None]
        swapped = torch.where(position < self.lead, position + count, position - self.lead)
        self.slots = torch.where(position < self.lead + count, swapped, position)

    def _arrange(self, group: Tensor, count: Tensor) -> None:
        self.items = group.argsort(dim=1, stable=True)
        self.count = count
        self.keys = self.keys.gather(1, self.items)

    def values(self, outputs: int) -> Tensor:
        """The first sorted values, in the direction asked for."""
        whole = self.n if self.slots is not None else outputs
        values = self.to_positions(self.method.sort(self.keys, self.count, whole))[:, :outputs]
        return -values if self.descending else values

    def matrix(self, outputs: int) -> Tensor:
        """The first columns of P, in the shape the user sees."""
        whole = self.n if self.slots is not None else outputs
        weights = self.method.permutation(self.keys, self.count, whole)
        if self.slots is not None:
            weights = weights.gather(2, self.slots[:, None].expand(-1, self.n, -1))[..., :outputs]
        weights = self.blank(self.to_items(weights))
        shaped = weights if len(self.shape) == 2 else weights.reshape(*self.shape, outputs)
        return shaped.to(self.x.dtype)

    def shift_ranks(self, places: Tensor) -> Tensor:
        """Ranks among slots as ranks among positions."""
        if self.lead is None or self.count is None:
            return places
        slot, count = torch.arange(self.n, device=places.device), self.count[:, None]
        least = (slot >= count) & (slot < count + self.lead)
        return places + torch.where(slot < count, self.lead, torch.where(least, -count, 0))

    def to_slots(self, by_item: Tensor) -> Tensor:
        return by_item if self.items is None else by_item.gather(1, _like(self.items, by_item))

    def to_items(self, by_slot: Tensor) -> Tensor:
        if self.items is None:
            return by_slot
        return by_slot.gather(1, _like(self.items.argsort(dim=1), by_slot))

    def to_positions(self, by_slot: Tensor) -> Tensor:
        return by_slot if self.slots is None else by_slot.gather(1, _like(self.slots, by_slot))

    def blank(self, result: Tensor) -> Tensor:
        """nan in the rows that held one."""
        return result if self.bad is None else result.masked_fill(_like(self.bad, result), torch.nan)

    def restore(self, by_position: Tensor) -> Tensor:
        """(rows, m) as the shape and dtype of x, with m instead of n along dim."""
        result = self.blank(by_position)
        if result.ndim != len(self.shape):
            result = result.reshape(*self.shape[:-1], by_position.shape[1])
        return (result if self.dim == len(self.shape) - 1 else result.movedim(-1, self.dim)).to(self.x.dtype)


def _like(index: Tensor, values: Tensor) -> Tensor:
    """An index of (rows, m) stretched over the features of values (rows, m, c)."""
    return index if values.ndim == 2 else index[..., None].expand(-1, -1, values.shape[2])


def _check(x: object, method: object, dim: object, mask: object) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"x is {_describe(x)}; it must be a torch.Tensor")
    if not x.is_floating_point():
        raise TypeError(f"x has dtype {x.dtype}, which has no gradient; convert it first, for example x.float()")
    if not x.ndim:
        raise ValueError("x has no dims; there is nothing to sort along")
    if isinstance(dim, bool) or not isinstance(dim, int) or not -x.ndim <= dim < x.ndim:
        raise ValueError(f"dim is {dim!r}; for x of {x.ndim} dims it must lie between {-x.ndim} and {x.ndim - 1}")
    if method is not None and not isinstance(method, Method):
        raise TypeError(
            f"method is {method!r}; it must be a method such as ts.Network(), ts.NeuralSort(), ts.SoftSort(), "
            "ts.Sinkhorn() or ts.Permutahedron()"
        )
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError(f"mask is {_describe(mask)}; it must be a boolean tensor, True where an item is real")
    if mask.shape != x.shape:
        raise ValueError(f"mask has shape {tuple(mask.shape)}; it must have that of x, {tuple(x.shape)}")


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of {value.dtype} and shape {tuple(value.shape)}"
    return f"{value!r} of type {type(value).__name__}"
