"""How a kernel gets from Python to the device.

Triton looks every launch up anew (options, environment, the text of what a kernel refers to), which can take it 0.2 ms,
ten times what a small kernel takes itself. So a kernel remembers what it was compiled to for arguments of each kind,
and goes there at once the next time. In the interpreter, and with a Triton too old to be called like that, nothing is
remembered.
"""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_TAKES_ALL_ARGUMENTS = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 3)
"""Whether a compiled kernel is called with the constants too."""


class Kernel:
    """A jitted function that is launched by `kernel[grid](...)`, constants in any order behind the other arguments."""

    def __init__(self, function: Callable[..., None]) -> None:
        parameters = inspect.signature(function).parameters.values()
        self._jitted = triton.jit(function)
        self._names = [parameter.name for parameter in parameters]
        self._constant = [parameter.annotation is tl.constexpr for parameter in parameters]
        self._compiled: dict[Any, Any] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(self, grid: tuple[int, ...], *args: Any, **flags: Any) -> None:
        known = zip(args, self._constant, strict=False)
        kinds = [value if constant else _kind(value) for value, constant in known]
        key = (args[0].device.index, *kinds, *flags.items())
        compiled = self._compiled.get(key)
        if compiled is not None:
            compiled[(*grid, 1, 1)[:3]](*args, *[flags[name] for name in self._names[len(args) :]])
            return
        compiled = self._jitted[grid](*args, **flags)
        if _TAKES_ALL_ARGUMENTS:
            self._compiled[key] = compiled


def _kind(value: Any) -> Any:
    """What of an argument Triton compiles for: types, alignment, whether a number is 1, a multiple of 16, or long."""
    if isinstance(value, Tensor):
        return value.dtype, value.data_ptr() % 16 == 0
    if type(value) is int:
        return value == 1, value % 16 == 0, -(2**31) <= value < 2**31
    return float if type(value) is float else value


def on(tensor: Tensor) -> AbstractContextManager[Any]:
    """Where kernels run on the device of the tensor."""
    if tensor.device.type != "cuda" or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def halves(number: float) -> tuple[float, float]:
    """A float64 as the two float32 that kernels take."""
    most = torch.tensor(number, dtype=torch.float32).item()
    return most, number - most
