"""Writes what was measured into docs/speed.md: tables between its marks, and one picture for each device.

    truesort bench ops --targets --save benchmarks/results/ops-cpu-targets.json    # measure, on each device
    python benchmarks/ops_report.py                                                # then write

Reads all of benchmarks/results/ops-<device>-*.json and nothing else, so the page can be made again at any time.
"""

import json
import re
from pathlib import Path
from typing import Any

from truesort.engine import bench_report

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "speed.md"
DEVICES = ("cpu", "cuda")


def main() -> None:
    """Draw the pictures and write the page."""
    for device in DEVICES:
        if results := [result for run in runs(device) for result in run["results"]]:
            bench_report.draw(results, runs(device)[0]["hardware"], PAGE.with_name(f"speed-{device}.svg"))
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def written(page: str) -> str:
    """The page with what the results say between the marks of each device."""
    for device in DEVICES:
        begin, end = f"<!-- measured: {device} -->", f"<!-- end: {device} -->"
        text = f"{begin}\n\n{section(device, runs(device))}\n\n{end}"
        page = re.sub(f"{begin}.*?{end}", lambda _, text=text: text, page, flags=re.DOTALL)
    return page


def runs(device: str) -> list[dict[str, Any]]:
    """The results of a device, file by file."""
    files = sorted(RESULTS.glob(f"ops-{device}-*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def section(device: str, found: list[dict[str, Any]]) -> str:
    """Everything measured on a device, as Markdown."""
    if not found:
        return f"*Not measured yet:* `truesort bench ops --device {device} --targets` and the two commands above."
    aimed = [result for run in found if run["targets"] for result in run["results"]]
    grid = [result for run in found if not run["targets"] for result in run["results"]]
    parts = [machine(found), f"![time against n, ours and peers](speed-{device}.svg)"]
    parts += titled("Targets, ms", bench_report.targets(aimed, device))
    for title, key in (("Time, ms", "ms"), ("As CUDA graphs, ms", "graph_ms"), ("Peak memory, MiB", "peak_bytes")):
        parts += titled(title, bench_report.times(grid or aimed, key))
    for run in found:
        if run["compile_s"]:
            parts += titled("First calls in a fresh process, s", bench_report.compile_time(run["compile_s"]))
    parts += titled("Left out", bench_report.left_out(grid or aimed))
    return "\n\n".join(parts)


def titled(title: str, sheet: bench_report.Sheet) -> list[str]:
    """A heading and a table, or nothing where the table is empty."""
    return [f"### {title}", sheet.markdown()] if sheet.rows else []


def machine(found: list[dict[str, Any]]) -> str:
    """What it was measured on."""
    run = found[0]
    rates = [max(one["rates"][name] for one in found) for name in ("bytes", "operations")]
    versions = ", ".join(f"{name} {run['versions'][name]}" for name in ("python", "torch", "numba", "triton"))
    peers = ", ".join(f"{name} {version}" for name, version in run["peers"].items())
    return (
        f"{run['hardware']}, which copies {rates[0] / 1e9:,.0f} GB/s (read and written) and multiplies float32 "
        f"matrices at {rates[1] / 1e9:,.0f} billion operations a second. {versions}; {peers}. Seed {run['seed']}."
    )


if __name__ == "__main__":
    main()
