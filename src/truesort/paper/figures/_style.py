"""How the figures look: colours that colour-blind readers tell apart (Okabe and Ito), and never colour alone.

Figures are made without pyplot, so that drawing them in a program disturbs none of its own figures or settings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from torch import Tensor

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
INK, QUIET, EDGE, PAPER = "#1b1f24", "#57606a", "#b8bfc7", "#f3f5f7"

SETTINGS: Any = {
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 11,
    "savefig.facecolor": "white",
    "svg.hashsalt": "truesort",
}


@dataclass(frozen=True)
class Look:
    """How a swap is drawn wherever it appears."""

    label: str
    colour: str
    line: Any
    marker: str

    def styled(self, **more: Any) -> dict[str, Any]:
        """Arguments of a plain line."""
        return {"color": self.colour, "linestyle": self.line, "linewidth": 2.0, **more}


ERROR_FREE = "error_free"
LOOKS = {
    "logistic": Look("logistic", SKY, (0, (6, 2)), "v"),
    "logistic_art": Look("logistic with ART", ORANGE, (0, (6, 2, 1.2, 2)), "s"),
    "reciprocal": Look("reciprocal", GREEN, (0, (1.2, 1.4)), "^"),
    "cauchy": Look("Cauchy", VERMILION, (0, (3, 1.3)), "D"),
    "optimal": Look("optimal", BLUE, (0, (10, 2, 1.2, 2, 1.2, 2)), "o"),
    ERROR_FREE: Look("error-free (ours)", BLACK, "-", "*"),
}


def blank(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure whose coordinates are inches from its lower left corner, for what is drawn by hand."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    axes.set_autoscale_on(False)
    return figure, axes


def box(axes: Axes, corner: tuple[float, float], size: tuple[float, float], text: str, colour: str) -> None:
    """A rounded box with words in it."""
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, facecolor=f"{colour}26", edgecolor=colour, lw=1.4))
    axes.text(corner[0] + size[0] / 2, corner[1] + size[1] / 2, text, ha="center", va="center", color=INK)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = INK, **more: Any) -> None:
    """An arrow between two points."""
    shape: dict[str, Any] = {
        "arrowstyle": "-|>",
        "mutation_scale": 12,
        "shrinkA": 0,
        "shrinkB": 0,
        "lw": 1.3,
        "color": colour,
    }
    axes.add_patch(FancyArrowPatch(start, end, **(shape | more)))


def picture(axes: Axes, item: Tensor, corner: tuple[float, float], size: tuple[float, float]) -> None:
    """An item, bytes (C, H, W), grey ones dark on white."""
    extent = (corner[0], corner[0] + size[0], corner[1], corner[1] + size[1])
    pixels = item.movedim(0, -1).squeeze(-1).numpy()
    axes.imshow(pixels, "gray_r", vmin=0, vmax=255, extent=extent, aspect="auto", interpolation="nearest")
    axes.add_patch(Rectangle(corner, *size, facecolor="none", edgecolor=EDGE))


def cells(axes: Axes, matrix: Tensor, corner: tuple[float, float], cell: float, colours: Sequence[str]) -> None:
    """A matrix as squares, the darker the larger, with their numbers; each row has its colour."""
    for row, (entries, colour) in enumerate(zip(matrix.tolist(), colours, strict=True)):
        for column, entry in enumerate(entries):
            place = corner[0] + column * cell, corner[1] + (len(matrix) - 1 - row) * cell
            shade = to_rgba(colour, 0.85 * entry)
            axes.add_patch(Rectangle(place, cell, cell, facecolor=shade, edgecolor=EDGE, linewidth=0.8))
            middle = place[0] + cell / 2, place[1] + cell / 2
            ink = "white" if entry > 0.55 else INK if entry else EDGE
            axes.text(*middle, short(entry), ha="center", va="center_baseline", color=ink, size=30 * cell)


def short(entry: float) -> str:
    """An entry of P in at most three signs."""
    if entry in (0, 1):
        return f"{entry:.0f}"
    return f"{entry:.2f}".lstrip("0") if entry >= 0.005 else "~0"


def save(figure: Figure, folder: Path, name: str) -> Iterator[Path]:
    """Write a figure as PNG and as SVG, the same bytes every time."""
    kinds: dict[str, dict[str, Any]] = {"png": {"dpi": 200}, "svg": {"metadata": {"Date": None}}}
    for kind, options in kinds.items():
        file = folder / f"{name}.{kind}"
        with rc_context(SETTINGS):
            figure.savefig(file, **options)
        yield file
