"""Draws the figures of the site while it is built, with the library's own curves, so that they cannot go stale."""

import io

import torch
from matplotlib.figure import Figure
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from truesort.relaxations import CURVES, sigma, slope


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs: add the figures to the site."""
    files.append(File.generated(config, "figures/swaps.svg", content=_svg(swaps())))
    return files


def swaps() -> Figure:
    """The six curves, at steepness 1 and at slope 1 at a tie."""
    gap = torch.linspace(-3, 3, 601, dtype=torch.float64)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    equal_steepness, equal_slope = figure.subplots(1, 2, sharey=True)
    for swap in CURVES:
        at_tie = slope(swap, torch.zeros(1, dtype=torch.float64)).item()
        equal_steepness.plot(gap, sigma(swap, gap), label=swap)
        equal_slope.plot(gap, sigma(swap, gap, steepness=1 / at_tie), label=swap)
    equal_steepness.set_title("steepness 1")
    equal_slope.set_title("slope 1 at a tie")
    equal_steepness.set_ylabel("σ: how surely a stays before b")
    for axes in (equal_steepness, equal_slope):
        axes.set_xlabel("gap d = b − a")
        axes.grid(alpha=0.3)
    equal_slope.legend(frameon=False)
    return figure


def _svg(figure: Figure) -> bytes:
    drawing = io.BytesIO()
    figure.savefig(drawing, format="svg", metadata={"Date": None})
    return drawing.getvalue()
