"""How this package compiles: machine code is cached on disk, the lock of Python is released, and x/0 is inf.

Sums may fuse into multiply-adds but are otherwise computed as written, so that nan, ±inf and −0 keep their meaning.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def jit(function: Function) -> Function:
    """Compile for the use of other compiled code, at the first call for each dtype."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """As `jit`, of a function so short that handing over its arrays would take longer than what it does."""
    return _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def entry(function: Function) -> Function:
    """Compile for calls from Python, at the first one for each dtype."""
    return _compiled(function, no_cfunc_wrapper=True)


def _compiled(function: Function, **wrappers: bool) -> Function:
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, **wrappers}
    try:
        compiled: Function = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written: compile once per process
        compiled = numba.njit(**options)(function)
    return compiled
