"""A sorting network with the matrix of each set of wires, and how a hard permutation is split."""

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from truesort import functional
from truesort.networks import network
from truesort.ops import Network
from truesort.paper.figures._style import BLUE, EDGE, INK, QUIET, VERMILION, arrow, blank, cells
from truesort.relaxations import sigma

VALUES = (3.0, 5.0, 2.0, 4.0, 1.0)
SOFT = Network(steepness=1.0, error_free=False)
HARD = Network(steepness=1.0)
SPLIT_VALUES, FIRST = (4.0, 1.0, 6.0, 3.0, 5.0, 2.0), 3
SWAPPING: dict[str, Any] = {"color": VERMILION, "linestyle": "-"}
STAYING: dict[str, Any] = {"color": BLUE, "linestyle": (0, (2, 1))}


def layer_matrices(values: Tensor, method: Network) -> list[Tensor]:
    """P of each set of wires, in the order in which the values meet them; the product is P of the network."""
    matrices = []
    for low, high, _ in network(method.layout, len(values)).layers():
        matrix = torch.eye(len(values), dtype=values.dtype)
        for a, b in zip(low.tolist(), high.tolist(), strict=True):
            stay = sigma(method.swap, values[b] - values[a], method.steepness, method.art)
            stay = (stay >= 0.5).to(values.dtype) if method.error_free else stay
            matrix[[a, b], [a, b]], matrix[[a, b], [b, a]] = stay, 1 - stay
        values = matrix.T @ values
        matrices.append(matrix)
    return matrices


def sorting_network() -> Figure:
    """Wires with the values on them, and below each set of wires its matrix, error-free and soft."""
    figure, axes = blank(11, 7.7)
    values = torch.tensor(VALUES, dtype=torch.float64)
    places = [2.0 + 1.55 * index for index in range(len(values))]
    hard, soft = (layer_matrices(values, method) for method in (HARD, SOFT))
    _wires(axes, values, hard, places)
    _matrices(axes, hard, places, 2.6, "error-free")
    _matrices(axes, soft, places, 0.72, "soft")
    note = "rows: wires before a set, columns: wires after it; soft: the optimal sigmoid at steepness 1"
    axes.text(places[2], 0.1, note, ha="center", size=11, color=QUIET)
    return figure


def _wires(axes: Axes, values: Tensor, matrices: Sequence[Tensor], places: Sequence[float]) -> None:
    ys = [6.85 - 0.5 * wire for wire in range(len(values))]
    for y in ys:
        axes.plot([places[0] - 0.7, places[-1] + 0.7], [y, y], color=INK, linewidth=1.4, zorder=1)
    _numbers(axes, values, ys, places[0] - 0.9)
    for index, (layer, matrix, x) in enumerate(
        zip(network(HARD.layout, len(values)).layers(), matrices, places, strict=True)
    ):
        axes.text(x, 7.3, f"wire set {index + 1}", ha="center")
        for a, b in zip(layer[0].tolist(), layer[1].tolist(), strict=True):
            style = SWAPPING if values[a] > values[b] else STAYING
            axes.plot([x, x], [ys[a], ys[b]], linewidth=2.8, zorder=2, **style)
            axes.plot([x, x], [ys[a], ys[b]], "o", color=style["color"], markersize=8, zorder=3)
        values = matrix.T @ values
        _numbers(axes, values, ys, x + 1.55 / 2 if matrix is not matrices[-1] else x + 0.9)
    for x, text, style in ((3.6, "swaps", SWAPPING), (5.6, "leaves as they are", STAYING)):
        axes.plot([x - 0.55, x - 0.1], [4.35, 4.35], linewidth=2.8, **style)
        axes.text(x, 4.35, text, va="center", size=11)


def _numbers(axes: Axes, values: Tensor, ys: Sequence[float], x: float) -> None:
    patch = {"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"}
    for value, y in zip(values.tolist(), ys, strict=True):
        axes.text(x, y, f"{value:g}", ha="center", va="center_baseline", size=13, bbox=patch, zorder=4)


def _matrices(axes: Axes, matrices: Sequence[Tensor], places: Sequence[float], y: float, name: str) -> None:
    """The matrices of all sets below their sets, and their product."""
    count, size = len(matrices[0]), 1.3
    whole, end = torch.linalg.multi_dot(list(matrices)), places[-1] + 1.75
    axes.text(places[0] - 0.85, y + size / 2, name, ha="right", va="center", weight="bold")
    for number, (matrix, x) in enumerate(zip([*matrices, whole], [*places, end], strict=True), 1):
        cells(axes, matrix, (x - size / 2, y), size / count, [BLUE] * count)
        label = rf"$P_{number}$" if x != end else rf"$P = P_1 \cdots P_{len(matrices)}$"
        axes.text(x, y - 0.22, label, ha="center", va="center", size=13)
    for x in places[1:]:
        axes.text(x - 1.55 / 2, y + size / 2, "·", ha="center", va="center", size=18)
    axes.text((places[-1] + end) / 2, y + size / 2, "=", ha="center", va="center", size=18)


def split() -> Figure:
    """A hard permutation of two subsequences: the rows of each, without the columns of the other, are again one."""
    figure, axes = blank(9.6, 4.1)
    values, cell = torch.tensor(SPLIT_VALUES), 0.5
    colours = [BLUE] * FIRST + [VERMILION] * (len(values) - FIRST)
    P = functional.permutation(values, HARD)
    cells(axes, P, (0.9, 0.35), cell, colours)
    axes.plot([0.6, 4.1], [1.85, 1.85], color=INK, linewidth=1.8, linestyle=(0, (5, 2)))
    axes.text(2.4, 3.7, r"$P_\mathrm{hard}$", ha="center", va="center", size=15)
    parts = ((slice(0, FIRST), 2.0, 1), (slice(FIRST, None), 0.42, 2))
    for part, y, number in parts:
        colour = colours[part][0]
        axes.text(0.55, y + 0.6, rf"$s_{number}$", ha="center", va="center", size=16, color=colour)
        arrow(axes, (4.05, y + 0.63), (4.55, y + 0.63))
        _strip(axes, P[part], (4.65, y), 0.42, colours[part])
        arrow(axes, (7.3, y + 0.63), (7.8, y + 0.63))
        cells(axes, functional.permutation(values[part], HARD), (7.9, y), 0.42, colours[part])
        axes.text(9.36, y + 0.63, rf"$P_{number}$", ha="center", va="center", size=16, color=colour)
    axes.text(5.91, 3.7, "columns with a 1 are kept", ha="center", va="center")
    return figure


def _strip(axes: Axes, rows: Tensor, corner: tuple[float, float], cell: float, colours: Sequence[str]) -> None:
    """Some rows of P, the columns in which they have nothing hatched."""
    cells(axes, rows, corner, cell, colours)
    for column in (rows.sum(0) == 0).nonzero().flatten().tolist():
        place = corner[0] + column * cell, corner[1]
        hatched: dict[str, Any] = {"facecolor": "white", "edgecolor": EDGE, "hatch": "////", "zorder": 4}
        axes.add_patch(Rectangle(place, cell, len(rows) * cell, **hatched))
