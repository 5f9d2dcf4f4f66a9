"""Records as a run would have left them, and a table small enough to be run."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from truesort.engine import Config, Halving
from truesort.paper import records, runs, tables
from truesort.paper.recipes import Recipe
from truesort.paper.records import Record
from truesort.paper.runs import Changes, Run
from truesort.paper.tables import Table

MakeRun = Callable[..., Run]
MakeRecord = Callable[..., Record]


@pytest.fixture
def make_run() -> MakeRun:
    """A run of a cell."""

    def make(table: str, row: str, column: str, seed: int = 42, steps: int | None = None, **changes: float) -> Run:
        (run,) = runs.plan(table, [row], [column], [seed], steps, Changes(**changes), "float32")
        return run

    return make


@pytest.fixture
def make_record(make_run: MakeRun) -> MakeRecord:
    """What a run of a cell might have left."""

    def make(*cell: str, exact_match: float = 0.5, failed: str | None = None, **run: Any) -> Record:
        found = {"exact_match": exact_match, "element_wise": 0.75, "exact_match_ties": 0.625, "same_picture": 0.875}
        curve = {"step": [1000, 2000], "loss": [0.5, 0.25], "exact_match": [0.25, 1.0], "element_wise": [0.5, 1.0]}
        result = {
            "best_step": 2000, "validation": found, "test": found, "seconds": 10.0, "hardware": "a machine",
            "versions": {"torch": "2"}, "commit": None, "curve": [],
        }  # fmt: skip
        record = records.from_result(make_run(*cell, **run), result)
        return replace(record, curve=curve, failed=failed, test={} if failed else found)

    return make


def tiny(row: str, column: str) -> Recipe:
    """A run of a second: rows are learning rates, columns lengths."""
    return Recipe(
        Config(
            "digits1", int(column), steps=6, batch=4, learning_rate=float(row), schedule=Halving(3),
            validate_every=3, validation=8, test=8,
        )
    )  # fmt: skip


@pytest.fixture
def tiny_table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table of the embedded digits; the rate of its row "1e30" throws every scorer out."""
    table = Table("tiny", "Tiny", {"1e30": "wild", "1e-3": "tame"}, {"3": "n = 3"}, tiny, {})
    monkeypatch.setitem(tables.TABLES, "tiny", table)  # type: ignore[arg-type]
    return table
