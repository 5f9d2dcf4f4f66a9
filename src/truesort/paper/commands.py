"""The three commands of this room: `figures`, `reproduce` and `report`.

Each option is a field of a dataclass, as everywhere on the command line. What is a result goes to standard output, what
is said about the way there to standard error.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro import conf

from truesort.engine import RunError
from truesort.engine.config import Precision
from truesort.engine.record import write_atomically
from truesort.paper import records, report, runs
from truesort.paper.estimate import seconds
from truesort.paper.recipes import SEEDS
from truesort.paper.reproduce import Data, Where, clock, missing, work
from truesort.paper.tables import TABLES

BEGIN, END = "<!-- report: begin -->", "<!-- report: end -->"


@dataclass(frozen=True)
class Reproduce:
    """What to run."""

    table: conf.Positional[Annotated[str, conf.arg(metavar="TABLE")]]
    """mnist4, svhn, fragments, comparison, lambda, steepness-3 … steepness-32, or effects."""
    rows: tuple[str, ...] = ()
    """Rows, as error_free/cnn; all if not given."""
    columns: tuple[str, ...] = ()
    """Columns, as 9 or mnist_3x3; all if not given."""
    seeds: tuple[int, ...] = SEEDS
    """Seeds; the paper's five if not given."""
    steps: int | None = None
    """Steps, with the halvings moved along; the paper's if not given."""
    changes: conf.OmitArgPrefixes[runs.Changes] = runs.Changes()
    """Other settings than the recipe's; the report keeps such runs apart."""
    where: conf.OmitArgPrefixes[Where] = Where()
    """Folders and device."""
    at_once: int | None = None
    """Runs that take turns on the device; if not given, five of fragments on a GPU, and else one."""
    no_estimate: bool = False
    """Start without measuring how long it will take."""
    only_estimate: bool = False
    """Say how long it would take, and start nothing."""


@dataclass(frozen=True)
class Report:
    """What to show."""

    tables: conf.Positional[Annotated[tuple[str, ...], conf.arg(metavar="[TABLE ...]")]] = ()
    """Tables; all if not given."""
    results: Path = Path("results")
    """Folder of the records."""
    markdown: bool = False
    """As Markdown, with the runs behind every cell."""
    details: bool = False
    """Also list the runs behind every cell."""
    page: Path | None = None
    """A Markdown page to write the report into, between its two report marks, instead of printing it."""


@dataclass(frozen=True)
class Figures:
    """Which figures to draw, and where."""

    names: conf.Positional[Annotated[tuple[str, ...], conf.arg(metavar="[FIGURE ...]")]] = ()
    """Figures; all if none is given, and an unknown name lists the choices."""
    folder: Path = Path("figures")
    """Folder of the PNG and SVG files."""
    data: Path | None = None
    """Folder of the datasets' files, for the examples; datasets that are not there are left out."""
    sequences: int = 10_000
    """Sequences of each length in the figure of accuracies."""


def run_reproduce(asked: Reproduce) -> None:
    """Run what is missing of a table, after saying how long it will take."""
    if asked.at_once is not None and asked.at_once < 1:
        raise ValueError(f"at_once must be at least 1, got {asked.at_once}")
    source = Data(asked.where)
    precision: Precision = "bfloat16" if source.device.type == "cuda" else "float32"
    plan = runs.plan(asked.table, asked.rows, asked.columns, asked.seeds, asked.steps, asked.changes, precision)
    records.read_all(asked.where.results)
    todo = missing(plan, asked.where.results)
    _say(f"{len(plan)} runs, {len(plan) - len(todo)} of them done")
    if todo and not asked.no_estimate:
        _say(f"about {clock(seconds(todo, source))} for the rest on {source.device}, one after the other")
    if todo and not asked.only_estimate:
        _do(asked, plan, source)


def _do(asked: Reproduce, plan: list[runs.Run], source: Data) -> None:
    tally = work(plan, asked.where, source, at_once=asked.at_once)
    if tally.elsewhere:
        _say(f"{tally.elsewhere} runs are left to other processes, which are at them")
    if tally.problems:
        raise RunError("\n  ".join([f"{len(tally.problems)} runs could not be done:", *tally.problems]))
    _say(f"records are in {asked.where.results}; truesort report {asked.table} shows them")


def run_report(asked: Report) -> None:
    """Print tables, or write them into a page."""
    names = [runs.find_table(name).name for name in asked.tables] or list(TABLES)
    found = records.read_all(asked.results)
    if asked.page is not None:
        _into(asked.page, report.markdown(found, names))
    else:
        print(report.markdown(found, names) if asked.markdown else report.text(found, names, asked.details), end="")


def _into(page: Path, rendered: str) -> None:
    """Put the report between the marks of a page."""
    try:
        old = page.read_text(encoding="utf-8")
    except OSError as error:
        raise RunError(f"{page} cannot be read: {error.strerror}") from error
    if BEGIN not in old or END not in old:
        raise RunError(f"{page} lacks the marks {BEGIN} and {END} between which the report goes")
    before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    write_atomically(page, f"{before}{BEGIN}\n\n{rendered}\n{END}{after}".encode())


def run_figures(asked: Figures) -> None:
    """Draw figures and print the names of their files."""
    from truesort.paper import figures

    for file in figures.draw(asked.names, asked.folder, asked.data, asked.sequences, _say):
        print(file)


def _say(text: str) -> None:
    print(f"truesort: {text}", file=sys.stderr, flush=True)
