"""Several runs in one process, by turns: a small scorer leaves most of a GPU idle, and a handful of them fill it.

Each run has a stream of its own, on which a turn asks for steps and does not wait for them, and random numbers of its
own, so that what is trained beside it changes nothing. On a CPU, which no run leaves idle, turns gain nothing.
"""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TypeVar

import torch

from truesort.engine.record import Facts, RunError

Training = Generator[None, None, Facts]
"""A run that stops after each turn, and in the end returns its result."""
Name = TypeVar("Name")


def finish(training: Training) -> Facts:
    """Take a run to its end."""
    while True:
        try:
            next(training)
        except StopIteration as end:
            result: Facts = end.value
            return result


def together(
    trainings: Iterable[tuple[Name, Training]], at_once: int, device: torch.device
) -> Iterator[tuple[Name, Facts | RunError]]:
    """Take runs to their ends, so many at once; the result of each as it ends, or why it has none."""
    waiting, going = iter(trainings), list[tuple[Name, Training, _Seat]]()
    while True:
        while len(going) < at_once and (more := next(waiting, None)) is not None:
            going.append((*more, _Seat(device)))
        if not going:
            return
        for place in list(going):
            name, training, seat = place
            outcome = seat.turn_of(training)
            if outcome is not None:
                going.remove(place)
                yield name, outcome


class _Seat:
    """A stream and random states that are in force during the turns of one run."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._cpu = device, torch.get_rng_state()
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # what all runs share must be there before their streams read it
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._own = self._generator().clone_state()

    def turn_of(self, training: Training) -> Facts | RunError | None:
        """The run's next turn; its outcome if that was the last."""
        try:
            with self._random_numbers(), self._work():
                next(training)
        except StopIteration as end:
            result: Facts = end.value
            return result
        except RunError as error:
            return error
        return None

    def _work(self) -> "torch.cuda.StreamContext | nullcontext[None]":
        return torch.cuda.stream(self._stream) if self._device.type == "cuda" else nullcontext()

    @contextmanager
    def _random_numbers(self) -> Iterator[None]:
        before = torch.get_rng_state()
        torch.set_rng_state(self._cpu)
        theirs = self._generator().graphsafe_get_state() if self._device.type == "cuda" else None
        if theirs is not None:
            self._generator().graphsafe_set_state(self._own)
        try:
            yield
        finally:
            self._cpu = torch.get_rng_state()
            torch.set_rng_state(before)
            if theirs is not None:
                self._generator().graphsafe_set_state(theirs)

    def _generator(self) -> torch.Generator:
        index = torch.cuda.current_device() if self._device.index is None else self._device.index
        generator: torch.Generator = torch.cuda.default_generators[index]
        return generator
