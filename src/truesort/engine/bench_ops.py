"""How fast the functions are, forward and backward, beside the packages people would pick instead.

A grid of sizes shows where each method belongs, a list of targets what we promise. Results carry machine, versions and
seed, and are written after each case, so that a run that is cut short leaves what it has.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import torch

from truesort.engine import compile_time, machine, peers
from truesort.engine.heat import Heat, History, Pace, entrants, floor, left_out
from truesort.engine.parallel import choose_device
from truesort.engine.peers import Case
from truesort.engine.record import Facts, write_json
from truesort.engine.stopwatch import Rates, Stopwatch

ODD_EVEN_UP_TO = 1000
"""From here on the grid asks for merge exchange, whose depth grows as log² n."""


@dataclass(frozen=True)
class OpsBench:
    """What to time."""

    device: str = "auto"
    """auto, cpu, cuda or cuda:<number>."""
    what: tuple[Literal["permutation", "values", "ranks", "top5"], ...] = ("permutation", "values", "ranks", "top5")
    """What is computed."""
    sizes: tuple[int, ...] = (2, 8, 32, 128, 1000, 10_000, 100_000)
    """Items of a row."""
    rows: tuple[int, ...] = (1, 100, 10_000, 100_000)
    """Rows of a call."""
    targets: bool = False
    """Time the cases that have a target, in place of the grid of sizes and rows."""
    quick: bool = False
    """Up to 1,000 items and 100 rows, and less time for each case."""
    compile_time: bool = False
    """Also time the first calls in a fresh process that has nothing compiled (CPU)."""
    limit: float = 2.0
    """Seconds a call may take; what needs longer is left out."""
    budget: float = 1.5
    """Seconds for the rounds of a case."""
    total: float = 3600.0
    """Seconds for all; the cases not begun by then are left out."""
    seed: int = 0
    """Seed of the keys."""
    save: Path | None = None
    """Write the results as JSON here, anew after each case."""
    plot: Path | None = None
    """Draw time against n into this file (.svg, .png or .pdf)."""


@dataclass(frozen=True)
class Target:
    """What a case has to reach: a ratio to a peer, or a time in ms."""

    case: Case
    peer: str | None = None
    ratio: float | None = None
    milliseconds: float | None = None
    graphs: bool = False
    """Whether both are replayed as CUDA graphs."""


_LONG = [Case("values", 100_000, 1, layout) for layout in ("merge_exchange", "bitonic")]
_RANKS = Target(Case("ranks", 1000, 100), "torchsort", 1.0)


def _permutations(*asked: tuple[int, int, float]) -> list[Target]:
    return [Target(Case("permutation", n, rows), "diffsort", ratio) for n, rows, ratio in asked]


TARGETS = {
    "cpu": [
        *_permutations((5, 100, 20), (15, 100, 60), (32, 100, 100), (64, 100, 100), (128, 10, 100)),
        _RANKS,
        *(Target(case, milliseconds=300) for case in _LONG),
    ],
    "cuda": [
        *_permutations((5, 100, 30), (15, 100, 80), (32, 100, 200), (64, 100, 400), (128, 100, 400)),
        Target(Case("permutation", 32, 100), "diffsort", 100, graphs=True),
        Target(Case("permutation", 32, 10_000), milliseconds=0.25),
        Target(Case("permutation", 128, 1000), milliseconds=2),
        _RANKS,
        *(Target(case, milliseconds=5) for case in _LONG),
    ],
}


def cases(bench: OpsBench, device: torch.device) -> list[Case]:
    """What will be timed, small before large."""
    if bench.targets:
        return list(dict.fromkeys(target.case for target in TARGETS[device.type]))
    found = []
    for what, n, rows in product(bench.what, sorted(bench.sizes), sorted(bench.rows)):
        if not bench.quick or (n <= 1000 and rows <= 100):
            found.append(Case(what, n, rows, "odd_even" if n <= ODD_EVEN_UP_TO else "merge_exchange"))
    return found


def run(bench: OpsBench, say: Callable[[str], None] = print) -> Facts:
    """Time everything; the results with all that is needed to judge them."""
    _check(bench)
    watch = Stopwatch(choose_device(bench.device))
    facts = _circumstances(bench, watch)
    if bench.compile_time:
        say("first calls in fresh processes")
        facts["compile_s"] = compile_time.measured()
    rates, begun, history = Rates(**facts["rates"]), time.monotonic(), History()
    budget = bench.budget / 5 if bench.quick else bench.budget
    pace = Pace(bench.limit, budget, bench.seed, foresight=not bench.targets)
    for case in cases(bench, watch.device):
        names = entrants(case, _families(bench, case))
        if time.monotonic() - begun > bench.total:
            results = [left_out(case, name, "out of time") for name in names]
        else:
            results = Heat(case, names, pace, watch, history).results()
        say(_line(case, results))
        facts["results"] += [{**result, "floor_ms": floor(case, result["contender"], rates)} for result in results]
        if bench.save:
            write_json(bench.save, facts)
    return facts


def _families(bench: OpsBench, case: Case) -> tuple[str, ...]:
    """A target is about one family."""
    if not bench.targets:
        return ("network", "permutahedron")
    return ("permutahedron",) if case == _RANKS.case else ("network",)


def _circumstances(bench: OpsBench, watch: Stopwatch) -> Facts:
    return {
        "device": watch.device.type, **machine.circumstances(watch.device), "peers": peers.versions(),
        "threads": torch.get_num_threads(), "dtype": "float32", "seed": bench.seed, "limit_s": bench.limit,
        "targets": bench.targets, "rates": watch.rates()._asdict(), "compile_s": None, "results": [],
    }  # fmt: skip


def _check(bench: OpsBench) -> None:
    for name in ("sizes", "rows"):
        if not all(number >= 1 for number in getattr(bench, name)):
            raise ValueError(f"{name} is {getattr(bench, name)}; all must be at least 1")
    for name in ("limit", "budget", "total"):
        if not getattr(bench, name) > 0:
            raise ValueError(f"{name} is {getattr(bench, name)}; it must be above 0 seconds")


def _line(case: Case, results: list[Facts]) -> str:
    times = (
        result["contender"] + (f" {result['ms']:.3g} ms" if result["ms"] else f" – ({result['left_out']})")
        for result in results
    )
    return f"{case.what}, n = {case.n:,}, B = {case.rows:,}, {case.layout}: {'; '.join(times)}"
