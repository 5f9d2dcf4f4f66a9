"""Several processes that train as one: each takes its part of one common batch, and their gradients are averaged.

Every process draws the whole batch's integers from the same seeded generator and takes its slice, so how many processes
there are changes nothing but rounding. `torchrun` starts them and sets the environment this module reads.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from truesort.engine.record import RunError


@dataclass(frozen=True)
class Team:
    """The processes of one run, seen from one of them."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def share(self, choice: Tensor) -> Tensor:
        """This process's part of a common batch."""
        part = len(choice) // self.size
        return choice[self.rank * part : (self.rank + 1) * part]

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their mean over the processes, in one exchange."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        with _meeting():
            dist.all_reduce(flat)
        parts = torch.split(flat.div_(self.size), [tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over the processes."""
        if self.size > 1:
            with _meeting():
                dist.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.size > 1:
            with _meeting():
                dist.barrier()


@contextmanager
def _meeting() -> Iterator[None]:
    """Whoever waits for a process that has ended says so; why it ended, that process has said."""
    try:
        yield
    except RuntimeError as error:
        raise RunError("another process of this run has ended; what it said tells why") from error


def leads() -> bool:
    """Whether this is the process that speaks, of all that `torchrun` started."""
    return os.environ.get("RANK", "0") == "0"


def choose_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the GPU of this process if there is one."""
    if name == "auto":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be auto, cpu, cuda or cuda:<number>, got {name!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {name!r}, but this torch sees no GPU; use --device cpu")
    return device


@contextmanager
def team(device: torch.device, batch: int) -> Iterator[Team]:
    """The team that `torchrun` made, or a team of one."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Team()
        return
    if batch % size:
        raise RunError(f"batch must be a multiple of the {size} processes, got {batch}")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Team(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()
