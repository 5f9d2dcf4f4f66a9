"""Differentiable sorting networks as a method, and the two operators behind it.

One operator goes forward, one backward, whatever is asked of the network; both are registered with torch, so that
`torch.compile`, `torch.export` and `torch.func.vmap` see a box with known shapes instead of Python, and a second
derivative falls back on the reference by itself.
"""

from dataclasses import astuple, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..networks import LAYOUTS
from ..relaxations import CURVES
from . import reference
from ._backend import fused, module_for
from ._method import Method, require_choice, require_positive

BACKWARDS = ("swap", "matrix")


@dataclass(frozen=True)
class Network(Method):
    """A sorting network with soft swaps (Petersen et al. 2021, 2022), exact in its forward pass if `error_free`.

    `layout` is the network and `swap` the curve of relaxations; `steepness` sharpens it, `art` is the exponent of
    "logistic_art" alone. With `error_free` (Kim et al. 2024) results are bitwise those of a stable hard sort, while
    gradients are those of soft swaps met on the way: `backward="swap"` passes what comes from above through the soft
    weights, `backward="matrix"` through the hard ones, which costs O(1) a comparator.
    """

    layout: str = "odd_even"
    swap: str = "optimal"
    steepness: float = 10.0
    art: float = 0.25
    error_free: bool = True
    backward: str = "swap"

    finite_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_choice("Network", "layout", self.layout, LAYOUTS)
        require_choice("Network", "swap", self.swap, CURVES)
        require_positive("Network", "steepness", self.steepness)
        if isinstance(self.art, bool) or not isinstance(self.art, int | float) or not 0 <= self.art < 1:
            raise ValueError(f"Network's art is {self.art!r}; it must be at least 0 and below 1")
        if not isinstance(self.error_free, bool):
            raise ValueError(f"Network's error_free is {self.error_free!r}; it must be True or False")
        require_choice("Network", "backward", self.backward, BACKWARDS)

    def sort(self, keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
        """The first `outputs` sorted values, (rows, outputs)."""
        return self._call("sort", keys, None, count, outputs)

    def rank(self, keys: Tensor, count: Tensor | None) -> Tensor:
        """The position of every item, (rows, n)."""
        return self._call("rank", keys, None, count, keys.shape[1])

    def permutation(self, keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
        """The first `outputs` columns of P, (rows, n, outputs)."""
        return self._call("permutation", keys, None, count, outputs)

    def reorder(self, keys: Tensor, payload: Tensor, count: Tensor | None) -> Tensor:
        """Pᵀ payload, (rows, n, c)."""
        return self._call("reorder", keys, payload, count, keys.shape[1])

    def _call(self, what: str, keys: Tensor, payload: Tensor | None, count: Tensor | None, outputs: int) -> Tensor:
        settings = (what, *astuple(self), outputs)
        if fused(keys.device.type) == "reference":
            return _compute(reference, (keys, payload, count), settings)
        result: Tensor = torch.ops.truesort.network(keys, payload, count, *settings)
        return result


_SETTINGS = "str what, str layout, str swap, float steepness, float art, bool error_free, str backward, SymInt outputs"
_INPUTS = "Tensor keys, Tensor? payload, Tensor? count"
torch.library.define("truesort::network", f"({_INPUTS}, {_SETTINGS}) -> Tensor")
torch.library.define("truesort::network_backward", f"({_INPUTS}, Tensor grad, {_SETTINGS}) -> (Tensor, Tensor)")

Inputs = tuple[Tensor, Tensor | None, Tensor | None]
Settings = tuple[Any, ...]


def _compute(source: Any, inputs: Inputs, settings: Settings) -> Tensor:
    """Call the function of `source` (the reference or a backend) that the settings name."""
    keys, payload, count = inputs
    what, *fields, outputs = settings
    net = Network(*fields)
    result: Tensor
    match what:
        case "sort" | "permutation":
            result = getattr(source, what)(keys, count, net, outputs)
        case "reorder":
            result = source.reorder(keys, payload, count, net)
        case _:
            result = source.rank(keys, count, net)
    return result


@torch.library.impl("truesort::network", "CompositeExplicitAutograd")
def _forward(keys: Tensor, payload: Tensor | None, count: Tensor | None, *settings: Any) -> Tensor:
    return _compute(module_for(keys), (keys, payload, count), settings)


@torch.library.impl("truesort::network_backward", "CompositeExplicitAutograd")
def _backward(
    keys: Tensor, payload: Tensor | None, count: Tensor | None, grad: Tensor, *settings: Any
) -> tuple[Tensor, Tensor]:
    source, net = module_for(keys), Network(*settings[1:-1])
    if payload is not None:
        gkeys, gpayload = source.reorder_backward(keys, payload, count, grad, net)
        return gkeys, gpayload
    return getattr(source, f"{settings[0]}_backward")(keys, count, grad, net), keys.new_empty(0)


def _shape(keys: Tensor, payload: Tensor | None, count: Tensor | None, *settings: Any) -> Tensor:
    rows, n = keys.shape
    what, outputs = settings[0], settings[-1]
    if what == "reorder":
        assert payload is not None
        return payload.new_empty(payload.shape)
    sizes = {"sort": (rows, outputs), "rank": (rows, n), "permutation": (rows, n, outputs)}
    return keys.new_empty(sizes[what])


def _backward_shape(
    keys: Tensor, payload: Tensor | None, count: Tensor | None, grad: Tensor, *settings: Any
) -> tuple[Tensor, Tensor]:
    return keys.new_empty(keys.shape), keys.new_empty(0 if payload is None else payload.shape)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    tensors = 4 if isinstance(output, tuple) else 3
    ctx.save_for_backward(*inputs[:tensors])
    ctx.settings = inputs[tensors:]


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    keys, payload, count = ctx.saved_tensors
    gkeys, gpayload = torch.ops.truesort.network_backward(keys, payload, count, grad, *ctx.settings)
    return gkeys, None if payload is None else gpayload, None, *[None] * len(ctx.settings)


def _differentiate_twice(ctx: Any, *above: Tensor) -> tuple[Any, ...]:
    """Differentiate the backward pass of the reference, which computes the same function."""
    saved: Any = (tensor if tensor is None else tensor.detach() for tensor in ctx.saved_tensors)
    keys, payload, count, grad = saved
    leaves = [tensor.requires_grad_() for tensor in (keys, payload, grad) if tensor is not None]
    with torch.enable_grad():
        result = _compute(reference, (keys, payload, count), ctx.settings)
        once = torch.autograd.grad(result, leaves[:-1], grad, create_graph=True, materialize_grads=True)
        second = list(torch.autograd.grad(once, leaves, above[: len(once)], materialize_grads=True))
    gpayload = None if payload is None else second[1]
    return second[0], gpayload, None, second[-1], *[None] * len(ctx.settings)


def _over_rows(operator: Any) -> Any:
    """How an operator acts under vmap: the new axis is just more rows."""

    def batched(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        size = info.batch_size

        def fold(value: Any, dim: int | None) -> Any:
            if not isinstance(value, Tensor):
                return value
            whole = value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
            return whole.reshape(-1, *whole.shape[2:])

        def unfold(result: Tensor) -> tuple[Tensor, int | None]:
            absent = result.shape == (0,)  # the gradient of a payload that is not there
            return (result, None) if absent else (result.reshape(size, -1, *result.shape[1:]), 0)

        results = operator(*map(fold, args, in_dims))
        if isinstance(results, Tensor):
            return unfold(results)
        unfolded, dims = zip(*map(unfold, results), strict=True)
        return unfolded, dims

    return batched


torch.library.register_fake("truesort::network", _shape)
torch.library.register_fake("truesort::network_backward", _backward_shape)
torch.library.register_autograd("truesort::network", _differentiate, setup_context=_remember)
torch.library.register_autograd("truesort::network_backward", _differentiate_twice, setup_context=_remember)
torch.library.register_vmap("truesort::network", _over_rows(torch.ops.truesort.network))
torch.library.register_vmap("truesort::network_backward", _over_rows(torch.ops.truesort.network_backward))
