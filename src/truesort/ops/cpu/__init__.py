"""The fused CPU backend: sorting networks compiled by Numba at their first call, one pass forward and one backward.

The functions compute what `ops.reference` computes, without autograd: `x_backward` takes the gradient of the result of
`x`. Numba is imported when one of them is first called, never before.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from ..network import Network


@cache
def available() -> str | None:
    """Why this backend cannot serve, or None if it can."""
    if find_spec("numba") is None:
        return "Numba is not installed (pip install numba)"
    return None


@cache
def _backend() -> ModuleType:
    return import_module("._calls", __name__)


def sort(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` sorted values, (rows, outputs)."""
    result: Tensor = _backend().sort(keys, count, net, outputs)
    return result


def sort_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys."""
    result: Tensor = _backend().sort_backward(keys, count, grad, net)
    return result


def rank(keys: Tensor, count: Tensor | None, net: "Network") -> Tensor:
    """The position of each item, (rows, n)."""
    result: Tensor = _backend().rank(keys, count, net)
    return result


def rank_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys."""
    result: Tensor = _backend().rank_backward(keys, count, grad, net)
    return result


def permutation(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` columns of P, (rows, n, outputs)."""
    result: Tensor = _backend().permutation(keys, count, net, outputs)
    return result


def permutation_backward(keys: Tensor, count: Tensor | None, grad: Tensor, net: "Network") -> Tensor:
    """The gradient of the keys."""
    result: Tensor = _backend().permutation_backward(keys, count, grad, net)
    return result


def reorder(keys: Tensor, payload: Tensor, count: Tensor | None, net: "Network") -> Tensor:
    """Pᵀ payload, (rows, n, c)."""
    result: Tensor = _backend().reorder(keys, payload, count, net)
    return result


def reorder_backward(
    keys: Tensor, payload: Tensor, count: Tensor | None, grad: Tensor, net: "Network", both: bool = True
) -> tuple[Tensor, Tensor | None]:
    """The gradients of keys and, of `both`, of the payload."""
    result: tuple[Tensor, Tensor | None] = _backend().reorder_backward(keys, payload, count, grad, net, both)
    return result


def project(
    keys: Tensor, count: Tensor | None, strength: float, kl: bool, ranks: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The permutahedron's soft ranks or values, (rows, n); item and block of each position, for `project_backward`.

    `kl` projects in the sense of the Kullback–Leibler divergence instead of the Euclidean distance.
    """
    result: tuple[Tensor, Tensor, Tensor] = _backend().project(keys, count, strength, kl, ranks)
    return result


def project_backward(
    keys: Tensor, count: Tensor | None, strength: float, kl: bool, ranks: bool,
    order: Tensor, block: Tensor, result: Tensor, grad: Tensor,
) -> Tensor:  # fmt: skip
    """The gradient of the keys, given what `project` answered."""
    gradient: Tensor = _backend().project_backward(keys, count, strength, kl, ranks, order, block, result, grad)
    return gradient
