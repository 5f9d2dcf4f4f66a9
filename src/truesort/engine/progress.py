"""What someone who waits sees: a live line in a terminal, a plain line now and then in a log."""

import time
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class Show(Protocol):
    """Is told how a run goes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def steps(self, done: int, of: int, loss: float) -> None:
        """So many steps are done, and this is the latest loss."""

    def accuracy(self, step: int, exact_match: float, best: bool) -> None:
        """The validation after a step."""


class Quiet:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def steps(self, done: int, of: int, loss: float) -> None:
        """Nothing."""

    def accuracy(self, step: int, exact_match: float, best: bool) -> None:
        """Nothing."""


class Line:
    """One live line: bar, loss, validation accuracy, speed and time left."""

    def __init__(self, console: Console, title: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[facts]}"), TimeRemainingColumn(compact=True), TextColumn("left"),
            console=console, speed_estimate_period=20,
        )  # fmt: skip
        self._title = title
        self._accuracy = ""
        self._speed = Speed()

    def __enter__(self) -> Self:
        self._progress.start()
        self._task = self._progress.add_task(self._title, facts="", total=None)
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def steps(self, done: int, of: int, loss: float) -> None:
        """Move the bar."""
        facts = f"loss {loss:.4f}{self._accuracy}  {self._speed(done)}"
        self._progress.update(self._task, completed=done, total=of, facts=facts)

    def accuracy(self, step: int, exact_match: float, best: bool) -> None:
        """Show the latest validation behind the loss."""
        self._accuracy = f"  exact match {exact_match:.1%}"


class Lines:
    """A line every few seconds and one for every validation, for logs and pipes."""

    SECONDS = 10.0

    def __init__(self, out: TextIO, title: str) -> None:
        self._out, self._title = out, title
        self._speed = Speed()
        self._last = time.monotonic()
        self._loss = float("nan")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def steps(self, done: int, of: int, loss: float) -> None:
        """Print a line if the last is old enough."""
        self._loss = loss
        speed = self._speed(done)
        if time.monotonic() - self._last > self.SECONDS:
            self._say(f"step {done}/{of}  loss {loss:.4f}  {speed}  {self._speed.left(of - done)} left")

    def accuracy(self, step: int, exact_match: float, best: bool) -> None:
        """Print the validation."""
        self._say(f"step {step}  loss {self._loss:.4f}  exact match {exact_match:.1%}{' (best)' if best else ''}")

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        print(f"{self._title}: {text}", file=self._out, flush=True)


class Speed:
    """Steps per second over the last seconds."""

    WINDOW = 5.0

    def __init__(self) -> None:
        self._marks: list[tuple[float, int]] = []

    def __call__(self, done: int) -> str:
        """Note where we are, and say how fast it went."""
        now = time.monotonic()
        self._marks.append((now, done))
        while len(self._marks) > 2 and self._marks[1][0] < now - self.WINDOW:
            self._marks.pop(0)
        return f"{self._rate():,.1f} steps/s" if len(self._marks) > 1 else "– steps/s"

    def _rate(self) -> float:
        (start, first), (end, last) = self._marks[0], self._marks[-1]
        return (last - first) / max(end - start, 1e-9)

    def left(self, steps: int) -> str:
        """How long so many steps take at this speed, as h:mm:ss."""
        seconds = round(steps / max(self._rate(), 1e-9))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def show_on(out: TextIO, title: str) -> Show:
    """The live line in a terminal, plain lines elsewhere."""
    console = Console(file=out)
    return Line(console, title) if console.is_terminal else Lines(out, title)
