"""The figures of the paper, drawn by the library itself: what a curve, a network or a dataset shows is what it does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from truesort.engine.record import explained
from truesort.paper.figures import _style, accuracy, architecture, examples, swaps, wires

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What some figures need to know."""

    data: Path | None
    sequences: int
    say: Say


Drawing = Callable[[Request], Iterator[tuple[str, Figure]]]


def _one(name: str, figure: Callable[[], Figure]) -> Drawing:
    return lambda request: iter([(name, figure())])


FIGURES: dict[str, Drawing] = {
    "sorting-network": _one("sorting-network", wires.sorting_network),
    "swap-once": _one("swap-once", swaps.once),
    "architecture": _one("architecture", architecture.overview),
    "optimal-sigmoid": _one("optimal-sigmoid", swaps.optimal_sigmoid),
    "swap-repeated": _one("swap-repeated", swaps.repeated),
    "accuracy": lambda request: iter([("accuracy", accuracy.figure(request.sequences))]),
    "transformer": _one("transformer", architecture.transformer),
    "split": _one("split", wires.split),
    "examples": lambda request: examples.all_figures(request.data, request.say),
}
"""In the paper's order, then what it shows in passing."""


def draw(names: Sequence[str], folder: Path, data: Path | None, sequences: int, say: Say) -> Iterator[Path]:
    """Draw the named figures, all if none is named, and yield each file written."""
    for name in names:
        if name not in FIGURES:
            raise ValueError(f"unknown figure {name!r}; choices: {', '.join(FIGURES)}")
    if sequences < 1:
        raise ValueError(f"sequences must be at least 1, got {sequences}")
    request = Request(data, sequences, say)
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in names or FIGURES:
            with rc_context(_style.SETTINGS):
                drawn = list(FIGURES[name](request))
            for file, figure in drawn:
                yield from _style.save(figure, folder, file)
