"""How often soft networks put random numbers in the right order, without any model: the paper's case against softness.

The paper does not say at which steepness; so there are two, that of its figures of swaps and this library's default.
"""

from collections.abc import Iterator
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from truesort import functional, metrics
from truesort.networks import LAYOUTS
from truesort.ops import Network
from truesort.paper.figures._style import ERROR_FREE, LOOKS, QUIET

LENGTHS = (2, 4, 8, 16, 32, 64)
STEEPNESSES = (1.0, 10.0)
RANGE, CHUNK, SEED = 10.0, 500, 0
TITLES = {"odd_even": "odd-even", "bitonic": "bitonic", "merge_exchange": "merge exchange"}


def measured(method: Network, length: int, sequences: int) -> tuple[float, float]:
    """Exact match and element-wise accuracy, in percent, of P on uniform random sequences."""
    shares = torch.cat([_shares(scores, method) for scores in _random(length, sequences)])
    return 100 * (shares == 1).float().mean().item(), 100 * shares.mean().item()


def _shares(scores: Tensor, method: Network) -> Tensor:
    return metrics.permutation_element_wise(functional.permutation(scores, method), scores)


def _random(length: int, sequences: int) -> Iterator[Tensor]:
    uniform = torch.rand(sequences, length, generator=torch.Generator().manual_seed(SEED))
    yield from torch.split((2 * uniform - 1) * RANGE, CHUNK)


def figure(sequences: int) -> Figure:
    """Both accuracies against length: a panel for each layout and steepness."""
    figure = Figure(figsize=(11, 7.4), layout="constrained")
    panels = figure.subplots(len(STEEPNESSES), len(LAYOUTS), sharex=True, sharey=True)
    for row, steepness in zip(panels, STEEPNESSES, strict=True):
        for axes, layout in zip(row, LAYOUTS, strict=True):
            _panel(axes, layout, steepness, sequences)
            axes.set_title(f"{TITLES.get(layout, layout)}, steepness {steepness:g}")
        row[0].set_ylabel("accuracy in percent")
    for axes in panels[-1]:
        axes.set_xlabel("sequence length")
    _legend(figure)
    figure.suptitle(f"{sequences:,} sequences of each length, uniform in [−10, 10]", color=QUIET, size=11)
    return figure


def _panel(axes: Axes, layout: str, steepness: float, sequences: int) -> None:
    for name, look in LOOKS.items():
        soft: dict[str, Any] = {} if name == ERROR_FREE else {"swap": name, "error_free": False}
        method = Network(layout=layout, steepness=steepness, **soft)
        exact, element = zip(*(measured(method, length, sequences) for length in LENGTHS), strict=True)
        common: dict[str, Any] = {
            "color": look.colour,
            "marker": look.marker,
            "markersize": 11 if look.marker == "*" else 6,
        }
        axes.plot(LENGTHS, exact, linestyle="-", linewidth=1.8, **common)
        axes.plot(LENGTHS, element, linestyle=(0, (4, 2)), linewidth=1.8, markerfacecolor="white", **common)
    axes.set_xscale("log", base=2)
    axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    axes.set_ylim(-4, 106)
    axes.grid(alpha=0.3)


def _legend(figure: Figure) -> None:
    swaps = [
        Line2D([], [], color=look.colour, marker=look.marker, markersize=9, label=look.label) for look in LOOKS.values()
    ]
    kinds = [
        Line2D([], [], color="black", label="exact match"),
        Line2D([], [], color="black", linestyle=(0, (4, 2)), label="element-wise"),
    ]
    figure.legend(handles=[*swaps, *kinds], loc="outside lower center", ncols=4, frameon=False, handlelength=3.5)
