"""A few sequences of every dataset as a scorer meets them, and in the right order."""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from truesort import data
from truesort.data import Batch, DataError, Dataset
from truesort.data._files import FOLDER_VARIABLE, cache_folder
from truesort.ops import hard
from truesort.paper.figures._style import QUIET, arrow, blank, picture

TITLES = {
    "digits4": "Numbers of four embedded digits",
    "mnist4": "Four-digit MNIST",
    "svhn": "SVHN house numbers",
    "mnist_2x2": "MNIST in 2×2 fragments",
    "mnist_3x3": "MNIST in 3×3 fragments",
    "cifar10_2x2": "CIFAR-10 in 2×2 fragments",
    "cifar10_3x3": "CIFAR-10 in 3×3 fragments",
}
SEQUENCES, LENGTH, LENGTH_OF_WIDE = 3, 5, 3
TALLEST, WIDEST, GAP, LABEL, SEAM = 0.62, 1.4, 0.12, 0.3, 0.05
TOP, SIDE, BETWEEN = 0.8, 0.3, 1.0


def all_figures(folder: Path | None, say: Callable[[str], None]) -> Iterator[tuple[str, Figure]]:
    """A figure for each dataset whose files are there; nothing is downloaded for a picture."""
    named = folder or os.environ.get(FOLDER_VARIABLE) or cache_folder()
    for task, title in TITLES.items():
        try:
            dataset = data.open(task, named)
        except DataError as error:
            say(f"examples of {task} are left out: {str(error).splitlines()[0]}")
            continue
        yield f"examples-{task}", figure(dataset, title)


def figure(dataset: Dataset, title: str) -> Figure:
    """Sequences of a dataset: on the left as they came, on the right in order."""
    layout = Layout.of(dataset)
    (batch,) = dataset.fixed("test", SEQUENCES, layout.length).batches(SEQUENCES)
    drawn, axes = blank(layout.right + layout.width_of_order + SIDE, TOP + SEQUENCES * layout.pitch)
    _headings(axes, title, layout)
    for number in range(SEQUENCES):
        one = Batch(batch.items[number], batch.values[number])
        middle = (SEQUENCES - number - 0.5) * layout.pitch
        _row(axes, one, SIDE, middle, layout)
        arrow(axes, (layout.right - BETWEEN + 0.2, middle), (layout.right - 0.2, middle))
        if layout.grid:
            _whole(axes, _in_order(one).items, middle, layout)
        else:
            _row(axes, _in_order(one), layout.right, middle, layout)
    return drawn


@dataclass(frozen=True)
class Layout:
    """Sizes in inches; `grid` is the number of fragments along a side, 0 for other data."""

    length: int
    grid: int
    wide: float
    tall: float

    @classmethod
    def of(cls, dataset: Dataset) -> "Layout":
        """The layout that suits the items of a dataset."""
        aspect = dataset.item_shape[2] / dataset.item_shape[1]
        grid = math.isqrt(dataset.length) if dataset.length else 0
        length = dataset.length or (LENGTH if aspect < 2 else LENGTH_OF_WIDE)
        wide = min(TALLEST * aspect, WIDEST)
        return cls(length, grid, wide, wide / aspect)

    @property
    def row(self) -> float:
        """Width of a sequence."""
        return self.length * (self.wide + GAP) - GAP

    @property
    def right(self) -> float:
        """Where the sequences in order begin."""
        return SIDE + self.row + BETWEEN

    @property
    def width_of_order(self) -> float:
        """Width of a sequence in order."""
        return self.grid * (self.wide + SEAM) if self.grid else self.row

    @property
    def pitch(self) -> float:
        """From one sequence to the next."""
        return max(self.grid * (self.tall + SEAM), self.tall + LABEL) + 0.25


def _headings(axes: Axes, title: str, layout: Layout) -> None:
    top = axes.get_ylim()[1]
    axes.text(SIDE, top - 0.25, title, va="center", size=13, weight="bold")
    words = "as they came" if layout.grid else "as they came, with their numbers"
    axes.text(SIDE, top - 0.58, words, va="center", size=11, color=QUIET)
    axes.text(layout.right, top - 0.58, "in order", va="center", size=11, color=QUIET)


def _in_order(one: Batch) -> Batch:
    order = hard.order(one.values, None)
    return Batch(one.items[order], one.values[order])


def _row(axes: Axes, one: Batch, x: float, middle: float, layout: Layout) -> None:
    """Items beside each other, their values below."""
    bottom = middle - (layout.tall - LABEL) / 2
    for item, value in zip(one.items, one.values.tolist(), strict=True):
        picture(axes, item, (x, bottom), (layout.wide, layout.tall))
        axes.text(x + layout.wide / 2, bottom - 0.16, str(value), ha="center", va="center", size=11)
        x += layout.wide + GAP


def _whole(axes: Axes, items: Tensor, middle: float, layout: Layout) -> None:
    """Fragments put together again, with seams."""
    for place, item in enumerate(items):
        row, column = divmod(place, layout.grid)
        x = layout.right + column * (layout.wide + SEAM)
        y = middle + (layout.grid / 2 - 1 - row) * (layout.tall + SEAM)
        picture(axes, item, (x, y), (layout.wide, layout.tall))
