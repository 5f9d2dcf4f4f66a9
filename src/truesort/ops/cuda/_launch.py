"""How a kernel gets from Python to the device.

Triton looks every launch up anew (options, environment, the text of what a kernel refers to), which can take it 0.2 ms,
ten times what a small kernel takes itself. So a kernel remembers what it was compiled to for each set of sizes,
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
from torch import Tensor

_TAKES_ALL_ARGUMENTS = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 3)
"""Whether a compiled kernel is called with the constants too."""
ALIGNED = 16
"""Bytes; what Triton compiles depends on whether an address divides by them."""
REMEMBERED = 4096
"""Most sets of sizes."""


class Kernel:
    """A jitted function that is launched by `kernel[grid](...)`, constants in any order behind the other arguments."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._jitted = triton.jit(function)
        self._names = list(inspect.signature(function).parameters)
        self._compiled: dict[Any, Any] = {}

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(self, grid: tuple[int, ...], *args: Any, **flags: Any) -> None:
        alike = [(x.dtype, x.data_ptr() % ALIGNED) if isinstance(x, Tensor) else x for x in args]
        key = (args[0].device.index, *alike, *flags.items())
        compiled = self._compiled.get(key)
        if compiled is not None:
            compiled[(*grid, 1, 1)[:3]](*args, *[flags[name] for name in self._names[len(args) :]])
            return
        compiled = self._jitted[grid](*args, **flags)
        if _TAKES_ALL_ARGUMENTS:
            if len(self._compiled) >= REMEMBERED:
                self._compiled.clear()
            self._compiled[key] = compiled


def up(whole: int, part: int) -> int:
    """How many parts there are, the last perhaps not full; Triton's own `cdiv` takes Python twenty times as long."""
    return -(-whole // part)


def on(tensor: Tensor) -> AbstractContextManager[Any]:
    """Where kernels run on the device of the tensor."""
    if tensor.device.type != "cuda" or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def halves(number: float) -> tuple[float, float]:
    """A float64 as the two float32 that kernels take."""
    most = torch.tensor(number, dtype=torch.float32).item()
    return most, number - most
