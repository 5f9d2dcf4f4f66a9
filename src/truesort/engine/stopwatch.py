"""How long a call takes, what memory it needs at its worst, and what the machine could do at best.

A GPU works after the call that asks it has returned, so its times come from events in its own queue. Memory on the CPU
is the high-water mark of the process, which Linux resets on request, because code compiled by Numba takes memory that
torch cannot see.
"""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

Run = Callable[[], object]
WARM = 2
"""Calls before a capture: they compile, and libraries allocate in them."""


class Rates(NamedTuple):
    """What a machine does per second: bytes copied (read and written), operations of a float32 matrix product."""

    bytes: float
    operations: float


class Stopwatch:
    """Measures calls on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._gpu = device.type == "cuda"

    def seconds(self, run: Run, calls: int = 1) -> float:
        """The mean time of so many calls, one right after another."""
        if not self._gpu:
            start = time.perf_counter()
            for _ in range(calls):
                run()
            return (time.perf_counter() - start) / calls
        start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        with torch.cuda.device(self.device):
            start_event.record()
            for _ in range(calls):
                run()
            end_event.record()
            end_event.synchronize()
        milliseconds: float = start_event.elapsed_time(end_event)
        return milliseconds / 1000 / calls

    def first(self, run: Run) -> float:
        """The time until a call is done, on the wall clock: with all that is compiled in it."""
        self.finish()
        start = time.perf_counter()
        run()
        self.finish()
        return time.perf_counter() - start

    def finish(self) -> None:
        """Wait until all is done."""
        if self._gpu:
            torch.cuda.synchronize(self.device)

    def peak(self, run: Run) -> int | None:
        """Bytes that a call needs at its worst beyond those taken before it; None where the system cannot tell."""
        if not self._gpu:
            return _resident_peak(run)
        self.finish()
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        run()
        self.finish()
        return torch.cuda.max_memory_allocated(self.device) - before

    def captured(self, run: Run) -> Run | None:
        """The call as a CUDA graph; None on a CPU, and for what waits for the GPU or cannot be captured."""
        if not self._gpu or self._waits(run):
            return None
        try:
            for _ in range(WARM):
                run()
            self.finish()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                run()
            graph.replay()
            self.finish()
        except RuntimeError:
            return None
        return graph.replay

    def _waits(self, run: Run) -> bool:
        torch.cuda.set_sync_debug_mode("error")
        try:
            run()
        except RuntimeError:
            return True
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return False

    def free(self) -> int:
        """Bytes that can still be had."""
        if self._gpu:
            kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
            return torch.cuda.mem_get_info(self.device)[0] + kept
        try:
            return _kilobytes("/proc/meminfo", "MemAvailable")
        except OSError:
            return 4 << 30

    def rates(self) -> Rates:
        """What this device does at best: a copy of 256 MB and a float32 product of 2048×2048 matrices, best of five."""
        source = torch.ones(64 << 20, device=self.device)
        target, factor = torch.empty_like(source), torch.ones(2048, 2048, device=self.device)
        copy = self._best(lambda: target.copy_(source))
        product = self._best(lambda: factor @ factor)
        return Rates(2 * 4 * source.numel() / copy, 2 * 2048**3 / product)

    def _best(self, run: Run) -> float:
        run()
        return min(self.seconds(run) for _ in range(5))


def _resident_peak(run: Run) -> int | None:
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark falls to what is taken now
        before = _kilobytes("/proc/self/status", "VmRSS")
        run()
        return max(0, _kilobytes("/proc/self/status", "VmHWM") - before)
    except (OSError, AttributeError, TypeError):
        return None


def _kilobytes(file: str, name: str) -> int:
    for line in Path(file).read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) << 10
    raise OSError(f"{file} has no {name}")
