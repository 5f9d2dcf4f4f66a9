"""The curve of a run for TensorBoard, which is an extra that few need."""

from pathlib import Path
from typing import Any, Self

from truesort.engine.progress import Show
from truesort.engine.record import RunError


class Events:
    """Writes what it is told as TensorBoard's events, and passes it on."""

    def __init__(self, inner: Show, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise RunError("TensorBoard is not installed: pip install 'truesort[tensorboard]'") from None
        self._inner, self._folder, self._make = inner, folder, SummaryWriter
        self._writer: Any = None
        self._loss = float("nan")

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()
        self._inner.__exit__(*error)

    def steps(self, done: int, of: int, loss: float) -> None:
        """Pass it on, and remember the loss."""
        self._loss = loss
        self._inner.steps(done, of, loss)

    def accuracy(self, step: int, exact_match: float, best: bool) -> None:
        """Write a point of the curve; what an earlier process wrote of later steps is hidden."""
        if self._writer is None:
            self._writer = self._make(str(self._folder), purge_step=step)
        self._writer.add_scalar("loss", self._loss, step)
        self._writer.add_scalar("validation/exact_match", exact_match, step)
        self._inner.accuracy(step, exact_match, best)
