"""A fused backend against the reference in float64: results and every gradient, on keys with all that is special."""

import math
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from truesort.ops import Network, Permutahedron, reference

WHAT = ("sort", "rank", "permutation", "reorder")
TOLERANCE = {torch.float64: (1e-8, 1e-10), torch.float32: (2e-4, 2e-5)}
"""Of each type: what an entry may be off by as a share of itself, and as a share of the largest entry from 1 up."""
MODES = {
    "soft": {"error_free": False},
    "swap": {"error_free": True, "backward": "swap"},
    "matrix": {"error_free": True, "backward": "matrix"},
}


def keys_of(n: int, rows: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    """Rows with nothing special, with ties, with infinities and with a nan."""
    keys = torch.randn(rows, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64).to(dtype)
    if n > 1 and rows > 3:
        keys[1] = keys[1].round()
        keys[2, 0], keys[2, n // 2], keys[2, -1] = math.inf, -math.inf, math.inf
        keys[3, n // 2] = math.nan
    return keys


def counts_of(n: int) -> Tensor:
    """How many items of the five rows of `keys_of` are real."""
    return torch.tensor([n, n // 2, max(n - 1, 0), n, min(n, 2)])


def payload_of(keys: Tensor, columns: int = 3) -> Tensor:
    """What the rows carry."""
    shape = (*keys.shape, columns)
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return numbers.to(keys)


def grad_like(result: Tensor) -> Tensor:
    """A gradient of a result."""
    numbers = torch.randn(result.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return numbers.to(result)


class Case(NamedTuple):
    """One question to a network: what, of which keys and payload, how many of them real, for how many outputs."""

    what: str
    keys: Tensor
    payload: Tensor
    count: Tensor | None
    net: Network
    outputs: int

    def ask(self, source: ModuleType) -> Tensor:
        """The answer of a backend."""
        match self.what:
            case "rank":
                return source.rank(self.keys, self.count, self.net)
            case "reorder":
                return source.reorder(self.keys, self.payload, self.count, self.net)
            case _:
                return getattr(source, self.what)(self.keys, self.count, self.net, self.outputs)

    def truth(self, grad=grad_like) -> list[Tensor]:
        """Result and gradients of keys and payload, by autograd of the reference in float64."""
        leaves = [tensor.detach().double().clone().requires_grad_() for tensor in (self.keys, self.payload)]
        result = self._replace(keys=leaves[0], payload=leaves[1]).ask(reference)
        if not result.requires_grad:
            return [result, *map(torch.zeros_like, leaves)]
        return [result.detach(), *torch.autograd.grad(result, leaves, grad(result), materialize_grads=True)]

    def fused(self, source: ModuleType, grad=grad_like) -> list[Tensor]:
        """The same by the backend's own forward and backward functions."""
        result = self.ask(source)
        if self.what == "reorder":
            return [result, *source.reorder_backward(self.keys, self.payload, self.count, grad(result), self.net)]
        back = getattr(source, f"{self.what}_backward")
        return [result, back(self.keys, self.count, grad(result), self.net), torch.zeros_like(self.payload)]


def check(
    source: ModuleType,
    net: Network,
    keys: Tensor,
    count: Tensor | None = None,
    columns: int = 3,
    what: tuple[str, ...] = WHAT,
    outputs: int | None = None,
) -> None:
    """Ask a backend everything, and leave nothing changed."""
    payload = payload_of(keys, columns)
    before = keys.clone(), payload.clone()
    for name in what:
        wanted = keys.shape[1] if outputs is None or name in ("rank", "reorder") else outputs
        compare(source, Case(name, keys, payload, count, net, wanted))
    assert torch.equal(keys.nan_to_num(), before[0].nan_to_num()), "the keys were changed"
    assert torch.equal(payload, before[1]), "the payload was changed"


def compare(source: ModuleType, case: Case, grad=grad_like) -> None:
    """Assert that a backend agrees with the reference, bit by bit where the result is exact."""
    parts = zip(("result", "gradient of keys", "of payload"), case.fused(source, grad), case.truth(grad), strict=True)
    for part, ours, theirs in parts:
        message = f"{case.what}, {part}: {case.net}, n = {case.keys.shape[1]}, outputs = {case.outputs}"
        close(ours, theirs, case.keys.dtype, message, exact=part == "result" and case.net.error_free)


def close(ours: Tensor, truth: Tensor, dtype: torch.dtype, message: str, exact: bool = False) -> None:
    """Assert that numbers computed in `dtype` are the truth up to rounding, which grows with the largest of them."""
    relative, absolute = (0.0, 0.0) if exact else TOLERANCE[dtype]
    largest = max(1.0, truth.nan_to_num(0, 0, 0).abs().max().item() if truth.numel() else 0.0)
    torch.testing.assert_close(
        ours.double(), truth.double(), equal_nan=True, rtol=relative, atol=absolute * largest,
        msg=lambda text: f"{message}\n{text}",
    )  # fmt: skip


def check_projection(source: ModuleType, method: Permutahedron, keys: Tensor, count: Tensor | None = None) -> None:
    """The same for the permutahedron: ranks and values of rows without infinities, away from its kinks."""
    keys = 0.983 * keys.masked_fill(keys.isinf(), 4.0)
    settings = (count, method.strength, method.regularization == "kl")
    places = torch.arange(keys.shape[1], device=keys.device).expand(keys.shape)
    real = places >= 0 if count is None else places < count[:, None]
    bad = (keys.isnan() & real).any(1, keepdim=True)
    for ranks, plain in ((True, method._rank), (False, method._sort)):
        leaf = keys.masked_fill(bad, 0).double().requires_grad_()
        truth = plain(leaf, count)
        above = grad_like(truth)
        (gradient,) = torch.autograd.grad(truth, leaf, above, materialize_grads=True)
        result, *parts = source.project(keys, *settings, ranks)
        ours = source.project_backward(keys, *settings, ranks, *parts, result, above.to(keys))
        wanted = truth.detach().masked_fill(bad, math.nan)
        close(result[real], wanted[real], keys.dtype, f"{method}, ranks: {ranks}")
        close(ours, gradient.masked_fill(bad, 0), keys.dtype, f"gradient of {method}, ranks: {ranks}")
