"""What soft swaps do to a pair: once, many times over, and the curve that does it with the least error.

All curves run at steepness 1, at which the paper's steps for Cauchy (9 and 15 until the pair is one) come out.
"""

from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from truesort import functional
from truesort.ops import Network
from truesort.paper.figures._style import BLUE, ERROR_FREE, LOOKS, QUIET, VERMILION
from truesort.relaxations import sigma

STEEPNESS, SAME, SWAPS = 1.0, 1e-3, 20
STARTS = (4.0, 8.0)


def swap_of(name: str) -> Network:
    """The method behind a name of `LOOKS`."""
    if name == ERROR_FREE:
        return Network(swap="optimal", steepness=STEEPNESS)
    return Network(swap=name, steepness=STEEPNESS, error_free=False)


def swapped(name: str, pairs: Tensor) -> Tensor:
    """Pairs (..., 2) after one swap."""
    return functional.sort(pairs, swap_of(name))


def path(name: str, x: float, y: float, swaps: int = SWAPS) -> Tensor:
    """A pair before and after each of so many swaps, (swaps + 1, 2)."""
    pairs = [torch.tensor([min(x, y), max(x, y)], dtype=torch.float64)]
    for _ in range(swaps):
        pairs.append(swapped(name, pairs[-1]))
    return torch.stack(pairs)


def swaps_until_same(name: str, x: float, y: float, swaps: int = SWAPS) -> int | None:
    """The first number of swaps after which the two values differ by less than 0.001."""
    small = (path(name, x, y, swaps).diff(dim=-1)[:, 0] < SAME).nonzero()
    return int(small[0]) if len(small) else None


def once() -> Figure:
    """Both values after one swap, and the softening error, against the difference of the two."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    values, error = figure.subplots(1, 2)
    gap = torch.linspace(-3, 3, 601, dtype=torch.float64)
    for name, look in LOOKS.items():
        low, high = swapped(name, torch.stack([gap, torch.zeros_like(gap)], -1)).unbind(-1)
        values.plot(gap, low, label=look.label, **look.styled())
        values.plot(gap, high, **look.styled())
        error.plot(gap, low - gap.clamp(max=0), **look.styled())
    values.set(xlabel="x   (y = 0)", ylabel="values after one swap", title="larger value above, smaller below")
    error.set(xlabel="x   (y = 0)", ylabel="smaller value − min(x, y)", title="softening error")
    _finish(figure, values, error)
    return figure


def repeated() -> Figure:
    """A pair swapped over and over, from two starts."""
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, x in zip(panels, STARTS, strict=True):
        for name, look in LOOKS.items():
            for side, values in enumerate(path(name, x, 0.0).unbind(-1)):
                axes.plot(
                    range(SWAPS + 1), values, label=look.label if x == STARTS[0] and not side else None, **look.styled()
                )
        _mark(axes, "cauchy", x)
        axes.set(title=f"x = {x:g}, y = 0", xlabel="number of swaps k", ylabel="the two values", xlim=(0, SWAPS))
        axes.set_xticks(range(0, SWAPS + 1, 5))
    _finish(figure, *panels)
    return figure


def _mark(axes: Axes, name: str, x: float) -> None:
    """Where the two values have become one."""
    step = swaps_until_same(name, x, 0.0)
    assert step is not None, "the curve has positive slope"
    label = f"{LOOKS[name].label}: less than {SAME:g} apart" if x == STARTS[0] else None
    style: dict[str, Any] = {
        "color": LOOKS[name].colour,
        "marker": LOOKS[name].marker,
        "markersize": 9,
        "linestyle": "none",
    }
    axes.plot([step], [x / 2], zorder=5, label=label, **style)
    offset: dict[str, Any] = {
        "xytext": (0, 10),
        "textcoords": "offset points",
        "ha": "center",
        "color": LOOKS[name].colour,
    }
    axes.annotate(f"k = {step}", (step, x / 2), weight="bold", **offset)


def optimal_sigmoid() -> Figure:
    """The optimal monotonic sigmoid: a line of slope 1 with hyperbolas at both ends."""
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    v = torch.linspace(-2, 2, 1601, dtype=torch.float64)
    inner = v.abs() <= 0.25
    curve = sigma("optimal", v)
    axes.plot(v[v <= -0.25], curve[v <= -0.25], color=BLUE, linewidth=2.5)
    axes.plot(v[v >= 0.25], curve[v >= 0.25], color=BLUE, linewidth=2.5)
    axes.plot(v[inner], curve[inner], color=VERMILION, linewidth=2.5, linestyle=(0, (3, 1.2)))
    joints = torch.tensor([-0.25, 0.25], dtype=torch.float64)
    axes.plot(joints, sigma("optimal", joints), "o", color="black", markersize=7, zorder=5)
    axes.text(-1.2, 0.14, r"$-\dfrac{1}{16\,\beta x}$", ha="center", color=BLUE, size=15)
    axes.text(1.2, 0.8, r"$1-\dfrac{1}{16\,\beta x}$", ha="center", color=BLUE, size=15)
    axes.text(0.12, 0.5, r"$\beta x + \frac{1}{2}$", va="center", color=VERMILION, size=15)
    axes.set(xlabel=r"$\beta x$", ylabel=r"$\sigma_{\mathcal{O}}(x)$", ylim=(-0.03, 1.03))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.grid(alpha=0.3)
    return figure


def _finish(figure: Figure, *panels: Axes) -> None:
    for axes in panels:
        axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, labelcolor="black", handlelength=4)
    figure.suptitle(f"steepness {STEEPNESS:g}", color=QUIET, size=11)
