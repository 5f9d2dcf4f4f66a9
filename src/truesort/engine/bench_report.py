"""Results of the benchmark as tables and as a picture, from nothing but the JSON, so that both can be made again."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from truesort.engine.bench_ops import ODD_EVEN_UP_TO, TARGETS, Target
from truesort.engine.peers import CONTENDERS, NETWORKS, WHATS, Case
from truesort.engine.record import Facts
from truesort.engine.tables import Sheet

ROWS_SHOWN = 100
"""The batch size of the picture, where the results have it."""
PANELS = {
    "permutation": "permutation matrix P", "values": "sorted values", "ranks": "ranks", "top5": "selection of the top 5"
}  # fmt: skip
STYLES = dict(
    zip(
        CONTENDERS,
        [
            ("#0072b2", "o", "-"), ("#d55e00", "s", "-"), ("#009e73", "^", "-"), ("#cc79a7", "D", "-"),
            ("#000000", "x", "--"), ("#000000", "+", ":"), ("#e69f00", "v", "--"), ("#56b4e9", "*", "--"),
        ],
        strict=True,
    )
)  # fmt: skip
"""Colour, marker and line, told apart also without the colours; peers are broken lines."""


Results = dict[Case, dict[str, Facts]]


def by_case(results: list[Facts]) -> Results:
    """Case, contender, result."""
    found: Results = {}
    for result in results:
        found.setdefault(Case(*(result[name] for name in Case._fields)), {})[result["contender"]] = result
    return found


def sheets(facts: Facts, with_targets: bool) -> dict[str, Sheet]:
    """All that is worth printing, by title."""
    results = facts["results"]
    title = "forward + backward, ms: medians"
    found = {title: targets(results, facts["device"]) if with_targets else times(results)}
    if any(result.get("graph_ms") for result in results):
        found["the same as CUDA graphs, ms"] = times(results, "graph_ms")
    found["memory at its peak, MiB"] = times(results, "peak_bytes")
    found["left out"] = left_out(results)
    if facts["compile_s"]:
        found["first calls in a fresh process, s"] = compile_time(facts["compile_s"])
    return {title: sheet for title, sheet in found.items() if sheet.rows}


def compile_time(seconds: dict[str, dict[str, float]]) -> Sheet:
    """What is compiled at the first call, and what comes from the cache after that."""
    paths = next(iter(seconds.values()))
    rows = [[path, *(f"{state[path]:.2f}" for state in seconds.values())] for path in paths]
    return Sheet(["", *seconds], [*rows, ["all", *(f"{sum(state.values()):.2f}" for state in seconds.values())]], 1)


def times(results: list[Facts], key: str = "ms") -> Sheet:
    """A row for each case, a column for each contender; cases that nobody ran are left out."""
    cases = by_case(results)
    names = [name for name in CONTENDERS if any(facts.get(name, {}).get(key) for facts in cases.values())]
    sheet = Sheet(["", "n", "B", *names], labels=3)
    for case, facts in cases.items():
        if any(result.get(key) is not None for result in facts.values()):
            sheet.rows.append(_label(case) + [_number(facts.get(name, {}).get(key), key) for name in names])
    return sheet


def _number(value: float | None, key: str = "ms") -> str:
    if value is None:
        return "–"
    if key.endswith("bytes"):
        return f"{value / 2**20:,.1f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def targets(results: list[Facts], device: str) -> Sheet:
    """What was asked and what was measured; a ratio is that of the peer's time to ours."""
    graphs = ["soft, graph", "peer, graph"] if device == "cuda" else []
    columns = ["", "n", "B", *NETWORKS, "Permutahedron", "peer", *graphs, "floor", "measured", "asked", "reached"]
    cases = by_case(results)
    rows = [_target(target, cases[target.case], bool(graphs)) for target in TARGETS[device] if target.case in cases]
    return Sheet(columns, rows, 3)


def _target(target: Target, facts: dict[str, Facts], graphs: bool) -> list[str]:
    own = "Permutahedron" if target.case.what == "ranks" else "soft"
    peer = target.peer or next((name for name in facts if CONTENDERS[name].like), "")
    cells = [(name, "ms") for name in (*NETWORKS, "Permutahedron", peer)]
    cells += [(own, "graph_ms"), (peer, "graph_ms")] if graphs else []
    shown = [_number(facts.get(name, {}).get(key), key) for name, key in [*cells, (own, "floor_ms")]]
    return [*_label(target.case), *shown, *_verdict(target, facts, own)]


def _verdict(target: Target, facts: dict[str, Facts], own: str) -> list[str]:
    """Measured, asked, reached."""
    key = "graph_ms" if target.graphs else "ms"
    mine, theirs = (facts.get(name, {}).get(key) for name in (own, target.peer or ""))
    if target.ratio is None:
        assert target.milliseconds is not None
        asked = f"≤ {target.milliseconds:g} ms"
        return ["–", asked, "–"] if mine is None else [f"{_number(mine)} ms", asked, _yes(mine <= target.milliseconds)]
    asked = f"≥ {target.ratio:g}×" + (" in graphs" if target.graphs else "")
    if mine is None or theirs is None:
        return ["–", asked, "–"]
    return [f"{_number(theirs / mine)}×", asked, _yes(theirs >= target.ratio * mine)]


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"


def _label(case: Case) -> list[str]:
    layout = "" if case.layout == "odd_even" else f", {case.layout.replace('_', ' ')}"
    return [case.what + layout, f"{case.n:,}", f"{case.rows:,}"]


def left_out(results: list[Facts]) -> Sheet:
    """What has no time, and why."""
    sheet = Sheet(["", "n", "B", "who", "why not"], labels=5)
    for case, facts in by_case(results).items():
        for name, result in facts.items():
            if result["left_out"]:
                sheet.rows.append([case.what, f"{case.n:,}", f"{case.rows:,}", name, result["left_out"]])
    return sheet


def draw(results: list[Facts], title: str, path: Path) -> None:
    """Time against n, double logarithmic: a panel for each thing computed, a line for each contender."""
    cases = by_case([result for result in results if result["ms"]])
    panels = [what for what in WHATS if any(case.what == what for case in cases)]
    if not panels:
        raise ValueError("there is no time to draw; the results are empty")
    with mpl.rc_context({"svg.hashsalt": "truesort", "font.size": 9}):
        figure = Figure(figsize=(3.1 * len(panels) + 0.6, 4.1), layout="constrained")
        for axes, what in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
            _panel(axes, what, {case: facts for case, facts in cases.items() if case.what == what})
        figure.axes[0].set_ylabel("forward + backward, ms")
        figure.suptitle(title, fontsize=10)
        shown = {
            name: line for axes in figure.axes for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        names = [name for name in CONTENDERS if name in shown]
        figure.legend([shown[name] for name in names], names, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(axes: Axes, what: str, cases: Results) -> None:
    batches = {case.rows for case in cases}
    rows = ROWS_SHOWN if ROWS_SHOWN in batches else max(batches)
    for name, (colour, marker, line) in STYLES.items():
        found = sorted(
            (case.n, facts[name]["ms"]) for case, facts in cases.items() if case.rows == rows and name in facts
        )
        if found:
            axes.plot(
                *zip(*found, strict=True), line, color=colour, marker=marker, label=name, markersize=5, linewidth=1.4
            )
    axes.set(xscale="log", yscale="log", xlabel="n", title=f"{PANELS[what]}, B = {rows:,}")
    sizes = sorted({case.n for case in cases})
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes], minor=False, fontsize=7)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(10))
    axes.grid(alpha=0.3)
    if any(case.n > ODD_EVEN_UP_TO for case in cases):
        axes.axvline(3 * ODD_EVEN_UP_TO, color="0.6", linewidth=0.8, linestyle=":")
        place = (3 * ODD_EVEN_UP_TO, 0.99)
        axes.text(*place, " merge\n exchange", transform=axes.get_xaxis_transform(), va="top", color="0.4", fontsize=7)
