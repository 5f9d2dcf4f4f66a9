"""What is trained, as drawings of our own: the whole, and the scorer that sees all items of a sequence.

The pictures are numbers of the embedded digits, which every installation has; the matrices are computed from the
numbers themselves, which stand for the scores of a scorer that knows how to sort.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from truesort import data, functional
from truesort.data import Batch
from truesort.networks import network
from truesort.ops import Network, hard
from truesort.paper.figures._style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    QUIET,
    SKY,
    VERMILION,
    arrow,
    blank,
    box,
    cells,
    picture,
)

ITEMS, LOWEST, PITCH = 4, 1.45, 0.68
WIDTH, HEIGHT = 1.5, 0.48
MIDDLES = [LOWEST + PITCH * (ITEMS - 1 - item) + HEIGHT / 2 for item in range(ITEMS)]
CENTRE = sum(MIDDLES) / ITEMS


def _sequence() -> Batch:
    (batch,) = data.open("digits4").fixed("test", 1, ITEMS).batches(1)
    return Batch(batch.items[0], batch.values[0])


def _pictures(axes: Axes, items: Tensor, x: float, up: float = 0.0) -> None:
    for item, y in zip(items, MIDDLES, strict=True):
        picture(axes, item, (x, y + up - HEIGHT / 2), (WIDTH, HEIGHT))


def _scores(axes: Axes, x: float) -> None:
    for number, y in enumerate(MIDDLES, 1):
        axes.add_patch(Rectangle((x, y - HEIGHT / 2), 0.6, HEIGHT, facecolor="white", edgecolor=INK))
        axes.text(x + 0.3, y, rf"$s_{number}$", ha="center", va="center", size=15)


def _between(axes: Axes, start: float, end: float, colour: str = INK) -> None:
    """An arrow on the level of every item."""
    for y in MIDDLES:
        arrow(axes, (start, y), (end, y), colour)


def overview() -> Figure:
    """Items to scores, scores through soft and error-free swaps, and a loss on either."""
    figure, axes = blank(13.4, 5.2)
    one = _sequence()
    _pictures(axes, one.items, 0.2)
    axes.text(0.2 + WIDTH / 2, 4.25, "items X", ha="center", va="center", size=13)
    _between(axes, 1.75, 2.2)
    words = "permutation-\nequivariant\nnetwork g\n\nCNN or\nTransformer"
    box(axes, (2.25, LOWEST), (1.65, 3 * PITCH + HEIGHT), words, GREEN)
    _between(axes, 3.95, 4.35)
    _scores(axes, 4.4)
    axes.text(4.7, 4.25, "scores s", ha="center", va="center", size=13)
    _wires(axes, 5.0, 7.1)
    axes.text(6.05, 4.25, "sorting network", ha="center", va="center", size=13)
    scores = one.values.double() / 1000
    _branch(axes, scores, 3.2, soft=True)
    _branch(axes, scores, 0.65, soft=False)
    _losses(axes, one)
    return figure


def _wires(axes: Axes, start: float, end: float) -> None:
    """The odd-even network between the scores and the matrices."""
    for y in MIDDLES:
        axes.plot([start, end], [y, y], color=INK, linewidth=1.3, zorder=1)
    for index, (low, high, _) in enumerate(network("odd_even", ITEMS).layers(), 1):
        x = start + index * (end - start) / (ITEMS + 1)
        for a, b in zip(low.tolist(), high.tolist(), strict=True):
            axes.plot([x, x], [MIDDLES[a], MIDDLES[b]], "o-", color=PURPLE, linewidth=2.6, markersize=7)


def _branch(axes: Axes, scores: Tensor, y: float, soft: bool) -> None:
    """The matrix of soft or of error-free swaps."""
    P = functional.permutation(scores, Network(steepness=1.0, error_free=not soft))
    colour, name = (BLUE, "soft") if soft else (VERMILION, "hard")
    arrow(axes, (7.15, CENTRE), (7.85, y + 0.74), colour, connectionstyle="arc3,rad=0")
    cells(axes, P, (7.95, y), 0.37, [colour] * ITEMS)
    words = "soft swaps" if soft else "error-free swaps"
    axes.text(8.69, y + 1.62, rf"$P_\mathrm{{{name}}}$: {words}", ha="center", va="center", color=colour, size=13)


def _losses(axes: Axes, one: Batch) -> None:
    arrow(axes, (9.5, 3.94), (10.15, 3.94), BLUE)
    box(axes, (10.2, 3.54), (3.0, 0.8), "cross-entropy with $P_\\mathrm{gt}$\n$\\mathcal{L}_\\mathrm{soft}$", BLUE)
    arrow(axes, (9.5, 1.39), (10.15, 1.39), VERMILION)
    order = hard.order(one.values, None)
    for place, item in enumerate(order.tolist()):
        y = 1.39 + 0.37 * (1 - place)
        picture(axes, one.items[item], (10.2, y), (1.15, 0.37))
    axes.text(10.78, 2.31, r"$P_\mathrm{hard}^{\top} X$", ha="center", va="center", color=VERMILION, size=13)
    arrow(axes, (11.4, 1.39), (11.75, 1.39), VERMILION)
    text = "distance to\n$P_\\mathrm{gt}^{\\top} X$\n$\\lambda\\,\\mathcal{L}_\\mathrm{hard}$"
    box(axes, (11.8, 0.89), (1.4, 1.0), text, VERMILION)


def transformer() -> Figure:
    """Features of each item, attention of all items to all, and one score an item; no item knows its place."""
    figure, axes = blank(12.6, 5.0)
    _pictures(axes, _sequence().items, 0.2)
    axes.text(0.2 + WIDTH / 2, 4.6, "items X", ha="center", va="center", size=13)
    _between(axes, 1.75, 2.15)
    _each(axes, 2.2, 0.7, "FE", GREEN)
    _between(axes, 2.95, 3.45)
    _attention(axes, 3.5, 3.1)
    arrow(axes, (6.65, CENTRE), (7.25, CENTRE), QUIET)
    axes.text(6.95, CENTRE + 0.2, "…", ha="center", size=16, color=QUIET)
    _attention(axes, 7.3, 3.1)
    _between(axes, 10.45, 10.75)
    _each(axes, 10.8, 0.55, "FC", ORANGE)
    _between(axes, 11.4, 11.65)
    _scores(axes, 11.7)
    axes.text(12.0, 4.6, "scores s", ha="center", va="center", size=13)
    note = "FE: feature extractor, a small CNN.  FC: fully connected.  No positional encoding: no item knows its place."
    axes.text(6.3, 0.6, note, ha="center", va="center", size=11, color=QUIET)
    return figure


def _each(axes: Axes, x: float, width: float, text: str, colour: str) -> None:
    """The same small network for every item."""
    for y in MIDDLES:
        box(axes, (x, y - HEIGHT / 2), (width, HEIGHT), text, colour)


def _attention(axes: Axes, x: float, width: float) -> None:
    """A layer: every item looks at every item, then each is widened and narrowed by itself."""
    box(axes, (x, LOWEST - 0.3), (width, 3 * PITCH + HEIGHT + 0.6), "", PURPLE)
    for start in MIDDLES:
        for end in MIDDLES:
            axes.plot([x + 0.2, x + 1.55], [start, end], color=PURPLE, linewidth=1.1, alpha=0.8)
        axes.plot([x + 0.2, x + 1.55], [start, start], "o", color=PURPLE, markersize=6, linestyle="none")
        arrow(axes, (x + 1.65, start), (x + 1.95, start))
        box(axes, (x + 2.0, start - HEIGHT / 2), (0.9, HEIGHT), "MLP", SKY)
    axes.text(x + width / 2, 4.6, "multi-head attention", ha="center", va="center", size=13)
