"""Doing the runs of a plan: what is done is skipped, what was cut short goes on, what another does is left to it.

The scorers of fragments are so small that a GPU trains five of them in little more than the time of one, so they take
turns in one process. Several processes may share a plan too, without talking to each other: each takes the next run
whose folder nobody holds, and any of them may be killed, or started, at any time.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Self, TextIO

import torch

from truesort import data, engine
from truesort.data import Dataset
from truesort.engine.machine import circumstances
from truesort.engine.parallel import choose_device
from truesort.engine.progress import Show, Speed, show_on
from truesort.engine.record import Diverged, Facts, InUse, RunFolder
from truesort.engine.train import asked_to_stop
from truesort.paper import departures, records
from truesort.paper.records import Record
from truesort.paper.runs import Run
from truesort.paper.tables import FRAGMENTS


@dataclass(frozen=True)
class Where:
    """Folders and device of a reproduction; nothing here changes a result."""

    results: Path = Path("results")
    """Folder of the records, small files to keep."""
    runs: Path = Path("runs/paper")
    """Folder of the runs themselves: checkpoints and models."""
    data: Path | None = None
    """Folder of the datasets' files; if not given, they are downloaded once."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:<number>."""


@dataclass
class Tally:
    """What became of the runs of a plan."""

    of: int
    done: int = 0
    elsewhere: int = 0
    problems: list[str] = field(default_factory=list)
    stopped: engine.Interrupted | None = None


class Data:
    """The datasets of a plan, each opened once."""

    def __init__(self, where: Where) -> None:
        self.device = choose_device(where.device)
        self.open: Callable[[str], Dataset] = cache(lambda task: data.open(task, where.data, self.device))


def missing(plan: Sequence[Run], results: Path) -> list[Run]:
    """The runs without a record."""
    return [run for run in plan if not records.path(results, run).exists()]


def work(
    plan: Sequence[Run], where: Where, source: Data | None = None, out: TextIO = sys.stderr, at_once: int | None = None
) -> Tally:
    """Do every run of the plan that is not done and that nobody else is doing."""
    source, todo = source or Data(where), missing(plan, where.results)
    tally, start = Tally(of=len(todo)), time.monotonic()
    with asked_to_stop() as stop:
        for number, runs in _bundles(todo, source.device, at_once):
            bundle = _trainings(runs, where, source, out, number, stop)
            for run, outcome in engine.together(bundle, number, source.device):
                _note(run, outcome, where, source, tally, out, time.monotonic() - start)
    if tally.stopped:
        raise tally.stopped
    return tally


FEW, MANY = 1, 5
"""Runs at once on a GPU: scorers of whole numbers fill it alone, those of fragments do not."""


def _bundles(todo: Sequence[Run], device: torch.device, at_once: int | None) -> Iterator[tuple[int, list[Run]]]:
    """How many at once, and which, small ones first."""
    if at_once is not None or device.type != "cuda":
        yield at_once or FEW, list(todo)
        return
    for number in (MANY, FEW):
        yield number, [run for run in todo if (number == MANY) == (run.config.task in FRAGMENTS)]


def _trainings(
    runs: Sequence[Run], where: Where, source: Data, out: TextIO, at_once: int, stop: threading.Event
) -> Iterator[tuple[Run, engine.Training]]:
    for run in runs:
        if stop.is_set():
            return
        if not records.path(where.results, run).exists():
            yield run, _training(run, where, source, _show(run, out, at_once), stop, at_once)


def _training(run: Run, where: Where, source: Data, show: Show, stop: threading.Event, at_once: int) -> engine.Training:
    """One run; its dataset is opened and its scorer made when its first turn comes."""
    dataset = source.open(run.config.task)
    torch.manual_seed(run.config.seed)
    result = yield from engine.training(
        run.config, where.runs / run.name, dataset=departures.shown(run.recipe, dataset),
        scorer=departures.scorer(run.recipe, dataset), resume=True, show=show, stop=stop,
    )  # fmt: skip
    return result | {"at_once": at_once}


def _note(
    run: Run, outcome: Facts | engine.RunError, where: Where, source: Data, tally: Tally, out: TextIO, seconds: float
) -> None:
    """Keep the record of what came out, and say it."""
    match outcome:
        case engine.Interrupted():
            tally.stopped = outcome
            return
        case InUse():
            tally.elsewhere += 1
            return
        case Diverged():
            record = _diverged(run, RunFolder(where.runs / run.name), str(outcome), source.device)
        case engine.RunError():
            tally.problems.append(f"{run.name}: {outcome}")
            print(f"{title(run)}: {outcome}", file=out, flush=True)
            return
        case _:
            record = records.from_result(run, outcome)
    if not records.path(where.results, run).exists():
        records.write(where.results, run, record)
    tally.done += 1
    print(_sentence(run, record, tally, seconds), file=out, flush=True)


def _diverged(run: Run, folder: RunFolder, reason: str, device: torch.device) -> Record:
    curve = records.columns(folder.curve())
    around = circumstances(device)
    return Record(
        run.table, run.row, run.column, run.config, run.recipe.attention, run.recipe.selection,
        dict(run.recipe.sources), 0, {}, {}, 0.0, **around, curve=curve, failed=reason.partition(";")[0],
    )  # fmt: skip


class Sparse:
    """A line now and then for logs: runs of 200,000 steps would bury everything else."""

    SECONDS = 30.0

    def __init__(self, out: TextIO, title: str) -> None:
        self._out, self._title, self._speed = out, title, Speed()
        self._last, self._accuracy = time.monotonic(), ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def steps(self, done: int, of: int, loss: float) -> None:
        """Print a line if the last is old enough."""
        speed = self._speed(done)
        if time.monotonic() - self._last > self.SECONDS:
            self._last = time.monotonic()
            line = (
                f"{self._title}: step {done:,} of {of:,}{self._accuracy}, {speed}, {self._speed.left(of - done)} left"
            )
            print(line, file=self._out, flush=True)

    def accuracy(self, step: int, exact_match: float, best: bool) -> None:
        """Remember it for the next line."""
        self._accuracy = f", exact match {exact_match:.1%}"


def title(run: Run) -> str:
    """A run in words."""
    return f"{run.table} {run.row} {run.column} seed {run.config.seed}"


def _show(run: Run, out: TextIO, at_once: int) -> Show:
    """A live line is for one run alone: those of several would overwrite each other."""
    live = at_once == 1 and hasattr(out, "isatty") and out.isatty()
    return show_on(out, title(run)) if live else Sparse(out, title(run))


def _sentence(run: Run, record: Record, tally: Tally, seconds: float) -> str:
    found = record.failed or f"test exact match {record.test['exact_match']:.1%}, best of step {record.best_step:,}"
    left = seconds / tally.done * (tally.of - tally.done)
    rest = f", about {clock(left)} left" if tally.done < tally.of else ""
    return f"{title(run)}: {found}   ({tally.done} of {tally.of}{rest})"


def clock(seconds: float) -> str:
    """A duration as h:mm:ss."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
