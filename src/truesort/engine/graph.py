"""One training step as one CUDA graph: captured once, then replayed by a single call.

A step is hundreds of short kernels, which the CPU cannot launch as fast as a GPU runs them. The first calls run one
kernel at a time, on a stream of their own, because libraries allocate, tune and compile in them; they are steps like
all others. Graphs of several runs may be replayed side by side, so each has a workspace of its own for matrix products:
the one torch keeps for a stream would be shared by all that are captured there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

BEFORE_CAPTURE = 3


class Replayed:
    """A function without arguments or results whose work on the GPU is captured on the fourth call."""

    def __init__(self, function: Callable[[], None], draws: torch.Generator) -> None:
        self._function = function
        self._draws = draws
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do the work, or ask for it."""
        self._calls += 1
        if self._calls <= BEFORE_CAPTURE:
            self._one_by_one()
            return
        if self._graph is None:
            self._graph = self._captured()
        self._graph.replay()

    def _one_by_one(self) -> None:
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            self._function()
        here.wait_stream(aside)

    def _captured(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._draws)
        with own_workspace(), torch.cuda.graph(graph):
            self._function()
        return graph


@contextmanager
def own_workspace() -> Iterator[None]:
    """Where matrix products take their workspace anew, so that what is captured takes it from its own memory."""
    torch._C._cuda_clearCublasWorkspaces()
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
