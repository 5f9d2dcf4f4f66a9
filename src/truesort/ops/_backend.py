"""Which code computes a network: the plain reference or one of the fused backends.

`auto` takes the fused backend of the tensor's device where it can serve and the reference where it cannot, so that
nothing a user writes depends on what is installed; forcing one makes what is missing an error instead.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor

CHOICES = ("auto", "reference", "cpu", "cuda")
_chosen = "auto"
Answer = TypeVar("Answer", bound=Callable[..., Any])


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Force one backend inside the `with` block: "reference", "cpu" or "cuda"; "auto" is the default choice."""
    global _chosen
    if name not in CHOICES:
        raise ValueError(f"backend is {name!r}; choose one of {', '.join(map(repr, CHOICES))}")
    missing = None if name in ("auto", "reference") else missing_for(name)
    if missing:
        raise RuntimeError(f"backend {name!r} cannot serve here: {missing}; use ts.backend('auto') or 'reference'")
    before, _chosen = _chosen, name
    try:
        yield
    finally:
        _chosen = before


@cache
def missing_for(name: str) -> str | None:
    """Why the fused backend `name` cannot run on this machine, or None if it can."""
    try:
        module = import_module(f".{name}", __package__)
    except ImportError as error:
        return str(error)
    reason: str | None = module.available()
    return reason


@cache
def _automatic(device: str) -> str:
    if device not in ("cpu", "cuda"):
        return "reference"
    missing = missing_for(device)
    if missing is None:
        return device
    warnings.warn(f"truesort's fused {device} backend is off, the slower reference serves: {missing}", stacklevel=2)
    return "reference"


def constant(function: Answer) -> Answer:
    """Let `torch.compile` call `function` once and keep the result.

    `torch.compiler.assume_constant_result` sets the same mark, but imports the whole compiler to do so, which would
    double the time of `import truesort`.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant
def fused(device: str) -> str:
    """The backend for tensors on this kind of device: "cpu", "cuda" or "reference"."""
    if _chosen == "auto":
        return _automatic(device)
    if _chosen not in ("reference", device):
        raise RuntimeError(f"backend {_chosen!r} is forced, but the tensor is on {device!r}; move one of them")
    return _chosen


def module_for(keys: Tensor) -> ModuleType:
    """The fused backend's module for these keys."""
    return _module(keys.device.type)


@cache
def _module(device: str) -> ModuleType:
    return import_module(f".{device}", __package__)


def transformed() -> bool:
    """Whether torch.func is at work, which composes plain torch as it likes but not the derivatives of operators."""
    return not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None


def unwatched(keys: Tensor) -> bool:
    """Whether nothing but autograd looks on, so that the operators' own cost, several small sorts, can be saved."""
    return type(keys) is Tensor and not torch.compiler.is_compiling() and not torch._C._len_torch_dispatch_stack()
