"""Sequences before and after sorting, with the soft permutation beside the exact one."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from truesort import functional
from truesort.data import Batch, Dataset
from truesort.engine.inference import TrainedScorer
from truesort.ops import Network, hard

MONO = "DejaVu Sans Mono"
INK, RIGHT, WRONG, QUIET, EDGE = "#1b1f24", "#0b6e99", "#c2410c", "#6b7280", "#d0d5db"
RIGHT_ONES, WRONG_ONES = 3, 1
HEADINGS = ("as they came", "soft\npermutation", "exact\npermutation", "sorted by\nthe network")
NOTE = "Rows of a permutation are the pictures as they came, columns their positions.   ✗ stands in the wrong place"


def draw(trained: TrainedScorer, dataset: Dataset, length: int, file: Path) -> None:
    """Save the first test sequences that came out right, and the first that did not, two beside each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    (batch,) = dataset.fixed("test", 200, length).batches(200)
    scores = trained.score(batch.items)
    chosen = _chosen(scores, batch.values)
    lines = -(-len(chosen) // 2)
    figure = Figure(figsize=(15, 1.15 + 2.4 * lines), facecolor="white")
    FigureCanvasAgg(figure)
    top, bottom = 1 - 0.7 / figure.get_figheight(), 0.45 / figure.get_figheight()
    grid = figure.add_gridspec(lines, 2, left=0.045, right=0.945, top=top, bottom=bottom, wspace=0.27, hspace=0.2)
    for at, row in enumerate(chosen):
        place = grid[divmod(at, 2)].subgridspec(1, 4, width_ratios=[1.5, 1.12, 1.12, 1.5], wspace=0.16)
        _sequence(figure, place, Batch(batch.items[row], batch.values[row]), scores[row], _steepness(trained))
        if at < 2:
            _headings(figure, place)
    figure.text(0.5, 0.16 / figure.get_figheight(), NOTE, ha="center", size=10, color=QUIET)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=140)


def _chosen(scores: Tensor, values: Tensor) -> list[int]:
    right = (hard.order(scores, None) == hard.order(values, None)).all(-1)
    return [*right.nonzero().flatten().tolist()[:RIGHT_ONES], *(~right).nonzero().flatten().tolist()[:WRONG_ONES]]


def _steepness(trained: TrainedScorer) -> float:
    return float(trained.facts["config"]["method"].get("steepness", 10.0))


def _sequence(figure: Any, place: Any, one: Batch, scores: Tensor, steepness: float) -> None:
    """The pictures as they came, each in the line of its row of the matrices, and sorted."""
    order = hard.order(scores, None)
    _stack(figure, place[0], one, torch.arange(len(order)), None)
    for column, error_free in ((1, False), (2, True)):
        P = functional.permutation(scores, Network(steepness=steepness, error_free=error_free))
        _matrix(figure.add_subplot(place[column]), P)
    _stack(figure, place[3], one, order, order == hard.order(one.values, None))


def _stack(figure: Any, place: Any, one: Batch, order: Tensor, right: Tensor | None) -> None:
    """Pictures below each other in an order, their numbers beside, coloured by whether they stand where they should."""
    inner = place.subgridspec(len(order), 1, hspace=0.14)
    for position, item in enumerate(order.tolist()):
        axes = figure.add_subplot(inner[position])
        axes.imshow(one.items[item, 0].numpy(), cmap="gray_r", vmin=0, vmax=255, interpolation="nearest", aspect="auto")
        good = None if right is None else bool(right[position])
        colour = QUIET if good is None else RIGHT if good else WRONG
        label = f"{int(one.values[item]):04d}" + (" ✗" if good is False else "")
        side = {"x": -0.04, "ha": "right"} if right is None else {"x": 1.04, "ha": "left"}
        axes.text(s=label, y=0.5, va="center", transform=axes.transAxes, size=11, color=colour, family=MONO, **side)
        _frame(axes, EDGE if good is None else colour)


def _matrix(axes: Any, P: Tensor) -> None:
    n = len(P)
    axes.imshow(P.numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for at in range(1, n):
        axes.axhline(at - 0.5, color="white", linewidth=1.5)
        axes.axvline(at - 0.5, color="white", linewidth=1.5)
    _frame(axes, EDGE)


def _frame(axes: Any, colour: str) -> None:
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_color(colour)


def _headings(figure: Any, place: Any) -> None:
    y = 1 - 0.38 / figure.get_figheight()
    for column, text in enumerate(HEADINGS):
        box = place[column].get_position(figure)
        figure.text((box.x0 + box.x1) / 2, y, text, ha="center", va="center", size=12, color=INK, weight="bold")
