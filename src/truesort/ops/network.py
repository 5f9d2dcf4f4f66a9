"""Differentiable sorting networks as a method, and the two operators behind it.

One operator goes forward, one backward, whatever is asked of the network; both are registered with torch, so that
`torch.compile` and `torch.export` see a box with known shapes instead of Python. A second derivative and the transforms
of `torch.func` fall back on the reference by themselves.
"""

from dataclasses import astuple, dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from ..networks import LAYOUTS
from ..relaxations import CURVES
from . import reference
from ._backend import fused, module_for, transformed, unwatched
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
        asked, inputs = Asked(what, self, outputs), (keys, payload, count)
        if fused(keys.device.type) == "reference" or transformed():
            return _answer(reference, inputs, asked)
        if unwatched(keys):
            direct: Tensor = _Direct.apply(*inputs, asked)  # type: ignore[no-untyped-call]
            return direct
        registered: Tensor = torch.ops.truesort.network(*inputs, *asked.flat())
        return registered


Inputs = tuple[Tensor, Tensor | None, Tensor | None]
"""Keys, payload (of "reorder" alone) and count."""


class Asked(NamedTuple):
    """What is asked of which network: "sort", "rank", "permutation" or "reorder"; for how many first positions."""

    what: str
    net: Network
    outputs: int

    def flat(self) -> tuple[Any, ...]:
        """As the operators take it, who know strings and numbers only."""
        return self.what, *astuple(self.net), self.outputs


def _asked(what: str, *rest: Any) -> Asked:
    return Asked(what, Network(*rest[:-1]), rest[-1])


def _answer(source: Any, inputs: Inputs, asked: Asked) -> Tensor:
    """The answer of `source`, the reference or a fused backend."""
    keys, payload, count = inputs
    answer: Tensor
    match asked.what:
        case "reorder":
            answer = source.reorder(keys, payload, count, asked.net)
        case "rank":
            answer = source.rank(keys, count, asked.net)
        case _:
            answer = getattr(source, asked.what)(keys, count, asked.net, asked.outputs)
    return answer


def _gradients(inputs: Inputs, grad: Tensor, asked: Asked, both: bool = True) -> tuple[Tensor, Tensor | None]:
    """Gradients with respect to keys and, of `both`, to the payload, by the fused backend."""
    keys, payload, count = inputs
    back = getattr(module_for(keys), f"{asked.what}_backward")
    if payload is None:
        return back(keys, count, grad, asked.net), None
    gkeys, gpayload = back(keys, payload, count, grad, asked.net, both)
    return gkeys, gpayload


class _Direct(torch.autograd.Function):
    """The operators without their registration; a second derivative comes back to them."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, payload: Tensor | None, count: Tensor | None, asked: Asked) -> Tensor:
        ctx.save_for_backward(keys, payload, count)
        ctx.asked = asked
        return _answer(module_for(keys), (keys, payload, count), asked)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():  # somebody wants to differentiate this as well
            gkeys, gpayload = torch.ops.truesort.network_backward(*ctx.saved_tensors, grad, *ctx.asked.flat())
            return gkeys, None if ctx.saved_tensors[1] is None else gpayload, None, None
        return *_gradients(ctx.saved_tensors, grad, ctx.asked, ctx.needs_input_grad[1]), None, None


_SETTINGS = "str what, str layout, str swap, float steepness, float art, bool error_free, str backward, SymInt outputs"
_INPUTS = "Tensor keys, Tensor? payload, Tensor? count"
torch.library.define("truesort::network", f"({_INPUTS}, {_SETTINGS}) -> Tensor")
torch.library.define("truesort::network_backward", f"({_INPUTS}, Tensor grad, {_SETTINGS}) -> (Tensor, Tensor)")


@torch.library.impl("truesort::network", "CompositeExplicitAutograd")
def _forward(keys: Tensor, payload: Tensor | None, count: Tensor | None, *settings: Any) -> Tensor:
    return _answer(module_for(keys), (keys, payload, count), _asked(*settings))


@torch.library.impl("truesort::network_backward", "CompositeExplicitAutograd")
def _backward(
    keys: Tensor, payload: Tensor | None, count: Tensor | None, grad: Tensor, *settings: Any
) -> tuple[Tensor, Tensor]:
    gkeys, gpayload = _gradients((keys, payload, count), grad, _asked(*settings))
    return gkeys, keys.new_empty(0) if gpayload is None else gpayload


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
        result = _answer(reference, (keys, payload, count), _asked(*ctx.settings))
        once = torch.autograd.grad(result, leaves[:-1], grad, create_graph=True, materialize_grads=True)
        second = list(torch.autograd.grad(once, leaves, above[: len(once)], materialize_grads=True))
    gpayload = None if payload is None else second[1]
    return second[0], gpayload, None, second[-1], *[None] * len(ctx.settings)


torch.library.register_fake("truesort::network", _shape)
torch.library.register_fake("truesort::network_backward", _backward_shape)
torch.library.register_autograd("truesort::network", _differentiate, setup_context=_remember)
torch.library.register_autograd("truesort::network_backward", _differentiate_twice, setup_context=_remember)
