"""Who is timed: our methods, and the packages people would pick instead, where they are installed.

Every contender answers the same question, for rows of keys, in a form that can be compared: a peer whose answer or
gradient differs from ours does something else, and its time would say nothing.
"""

import contextlib
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from truesort import functional
from truesort.networks import LAYOUTS, network
from truesort.ops import Method, Network, Permutahedron

WHATS = ("permutation", "values", "ranks", "top5")
TOP = 5
Function = Callable[[Tensor], Tensor]


class Case(NamedTuple):
    """What is computed, forward and backward, for so many rows of n keys."""

    what: str
    n: int
    rows: int
    layout: str = "odd_even"

    @property
    def top(self) -> int:
        """How many positions "top5" asks for."""
        return min(TOP, self.n)

    @property
    def matrix(self) -> tuple[int, ...]:
        """What the shape of the answer has behind rows and items."""
        return {"permutation": (self.n,), "top5": (self.top,)}.get(self.what, ())

    @property
    def columns(self) -> int:
        """Columns of that; 1 for a vector."""
        return math.prod(self.matrix)

    @property
    def comparators(self) -> int:
        """Comparators of the network of one row."""
        return self.n * (self.n - 1) // 2 if self.layout == "odd_even" else _comparators(self.layout, self.n)


@lru_cache(maxsize=64)
def _comparators(layout: str, n: int) -> int:
    return network(layout, n).size


@dataclass(frozen=True)
class Contender:
    """One way to the answer."""

    name: str
    whats: tuple[str, ...]
    """What it can compute."""
    build: Callable[[Case, torch.device], Function]
    """The function of the keys that is timed."""
    work: Callable[[Case], float]
    """Grows as its time does where there is much to do."""
    bytes: Callable[[Case], float]
    """About what memory it needs."""
    like: str | None = None
    """Whose answer a peer has to share; None for ours."""
    as_ours: Callable[[Function, Case], Function] = lambda function, case: function
    """The function in our conventions, to be compared."""
    package: str | None = None
    """What has to be installed."""
    layouts: tuple[str, ...] = tuple(LAYOUTS)
    """Which networks it has."""

    @property
    def family(self) -> str:
        """Those of a family have the same answer or, if error-free, the same gradient to begin with."""
        return "permutahedron" if "Permutahedron" in (self.name, self.like) else "network"

    def missing(self) -> bool:
        """Whether its package is not here."""
        return self.package is not None and find_spec(self.package) is None

    def serves(self, case: Case) -> bool:
        """Whether it computes this at all."""
        return case.what in self.whats and case.layout in self.layouts


def _ours(
    name: str, method: Callable[[Case], Method], whats: tuple[str, ...], work: Callable[[Case], float]
) -> Contender:
    def build(case: Case, device: torch.device) -> Function:
        chosen = method(case)
        match case.what:
            case "permutation":
                return lambda keys: functional.permutation(keys, chosen)
            case "values":
                return lambda keys: functional.sort(keys, chosen)
            case "ranks":
                return lambda keys: functional.rank(keys, chosen)
            case _:
                return lambda keys: functional.topk(keys, case.top, chosen)[1]

    return Contender(name, whats, build, work, _bytes)


def _bytes(case: Case) -> float:
    return 16 * case.rows * case.n * (case.columns + 2)


def _comparing(case: Case) -> float:
    return case.rows * case.comparators * case.columns


def _gathering(case: Case) -> float:
    return case.rows * (case.comparators + case.n * case.columns)


def _linear(case: Case) -> float:
    return case.rows * case.n


def _diffsort(case: Case, device: torch.device) -> Function:
    package: Any = import_module("diffsort")
    net = package.DiffSortNet("odd_even", case.n, device=device, steepness=10.0, distribution="optimal")
    places = torch.arange(case.n, dtype=torch.float32, device=device)
    answers: dict[str, Function] = {
        "permutation": lambda keys: net(keys)[1],
        "values": lambda keys: net(keys)[0],
        "ranks": lambda keys: net(keys)[1] @ places,
    }
    return answers[case.what]


def _difftopk(case: Case, device: torch.device) -> Function:
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it can do without
        package: Any = import_module("difftopk")
    net = package.DiffTopkNet("odd_even", case.n, case.top, device=device, steepness=10.0, distribution="optimal")
    return lambda keys: net(keys)[1]


def _turned(function: Function, case: Case) -> Function:
    """Of keys in reverse order, last position first: ours sorts −keys, which is the mirror image of this for even n."""
    return lambda keys: function(keys.flip(1)).flip((1, 2))


def _fast_soft_sort(module: str) -> Callable[[Case, torch.device], Function]:
    """Both packages have the same two functions."""

    def build(case: Case, device: torch.device) -> Function:
        package: Any = import_module(module)
        function: Function = {"ranks": package.soft_rank, "values": package.soft_sort}[case.what]
        return function

    return build


def _from_zero(function: Function, case: Case) -> Function:
    return (lambda keys: function(keys) - 1) if case.what == "ranks" else function


NETWORKS = ("soft", "error-free, swap", "error-free, matrix")
CONTENDERS = {
    contender.name: contender
    for contender in (
        _ours("soft", lambda case: Network(case.layout, error_free=False), WHATS, _comparing),
        _ours("error-free, swap", lambda case: Network(case.layout), WHATS, _comparing),
        _ours("error-free, matrix", lambda case: Network(case.layout, backward="matrix"), WHATS, _gathering),
        _ours("Permutahedron", lambda case: Permutahedron(), ("values", "ranks"), _linear),
        Contender(
            "diffsort", ("permutation", "values", "ranks"), _diffsort,
            work=lambda case: case.n**4 * case.rows,
            bytes=lambda case: case.n**3 * (24 + 8 * case.rows),
            like="soft", package="diffsort", layouts=("odd_even",),
        ),
        Contender(
            "difftopk", ("top5",), _difftopk,
            work=lambda case: case.n**3 * case.top * case.rows,
            bytes=lambda case: case.n**3 * (24 + 8 * case.rows),
            like="soft", as_ours=_turned, package="difftopk", layouts=("odd_even",),
        ),
        Contender(
            "torchsort", ("values", "ranks"), _fast_soft_sort("torchsort"), _linear, _bytes,
            like="Permutahedron", as_ours=_from_zero, package="torchsort",
        ),
        Contender(
            "fast-soft-sort", ("values", "ranks"), _fast_soft_sort("fast_soft_sort.pytorch_ops"), _linear, _bytes,
            like="Permutahedron", as_ours=_from_zero, package="fast_soft_sort",
        ),
    )
}  # fmt: skip


def difference(peer: Function, ours: Function, case: Case, device: torch.device) -> str | None:
    """How a peer's answer or gradient differs from ours by more than float32 explains; None if it does not."""
    seed = torch.Generator(device).manual_seed(0)
    keys = _without_ties(case, seed)
    answers: list[Tensor] = []
    gradients: list[Tensor] = []
    for function in (peer, ours):
        leaf = keys.clone().requires_grad_()
        answer = function(leaf)
        above = torch.randn(answer.shape, generator=seed.manual_seed(0), device=device)
        answers.append(answer.detach())
        gradients += torch.autograd.grad(answer, leaf, above.to(answer.dtype))
    rounding = 4 * torch.finfo(torch.float32).eps * case.n  # sums on the way are as large as n
    for name, (theirs, own), share in (("answer", answers, 1e-4), ("gradient", gradients, 1e-3)):
        off = (theirs - own).abs().max().item()
        if not off <= share * max(1.0, own.abs().max().item()) + rounding:
            return f"its {name} differs from ours by {off:.1g}"
    return None


def _without_ties(case: Case, seed: torch.Generator) -> Tensor:
    """Normal quantiles in random order: which of two equal keys comes first is nobody's mistake."""
    order = torch.rand(case.rows, case.n, generator=seed, device=seed.device).argsort(1)
    quantiles: Tensor = torch.special.ndtri((order + 0.5) / case.n)
    return quantiles


def versions() -> dict[str, str]:
    """The peers' versions."""
    found = {}
    for contender in CONTENDERS.values():
        if contender.package is not None:
            found[contender.name] = "not installed" if contender.missing() else _version(contender.name)
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "of unknown version"
