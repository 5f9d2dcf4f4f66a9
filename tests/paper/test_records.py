"""A record is written once and read as it was written; what cannot be read is said and left alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from truesort.engine import RunError
from truesort.paper import records
from truesort.paper.records import Record
from truesort.paper.runs import Run

CELL = ("fragments", "error_free/cnn", "mnist_2x2")


@pytest.fixture
def written(tmp_path: Path, make_run: Callable[..., Run], make_record: Callable[..., Record]) -> Path:
    """The file of a record."""
    return records.write(tmp_path / "results", make_run(*CELL), make_record(*CELL))


def test_read_as_written(written: Path, make_record: Callable[..., Record]) -> None:
    assert records.read_all(written.parent) == [make_record(*CELL)]
    assert list(written.parent.iterdir()) == [written]


def test_never_overwritten(written: Path, make_run: Callable[..., Run], make_record: Callable[..., Record]) -> None:
    before = written.read_bytes()
    with pytest.raises(RunError, match="already there; it is not overwritten"):
        records.write(written.parent, make_run(*CELL), make_record(*CELL, exact_match=0.9))
    assert written.read_bytes() == before


def test_no_folder_no_records(tmp_path: Path) -> None:
    assert records.read_all(tmp_path / "nowhere") == []


def change(file: Path, **facts: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:200])


def rename(file: Path) -> None:
    file.rename(file.with_name("mnist_2x2-4-cnn-42-00000000.json"))


def lose_a_field(file: Path) -> None:
    facts = json.loads(file.read_text())
    del facts["test"]
    file.write_text(json.dumps(facts))


def other_steepness(file: Path) -> None:
    file.write_text(file.read_text().replace('"steepness": 10.0', '"steepness": 11.0'))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, "cannot be read as JSON"),
        (lambda file: file.write_text("[]"), "must hold a JSON object"),
        (lambda file: change(file, format=2), "is of format 2, and this version of truesort reads format 1"),
        (lambda file: change(file, weather="fine"), "is not a whole record"),
        (lose_a_field, "is not a whole record"),
        (lambda file: change(file, config="default"), "is not a whole record"),
        (other_steepness, "is not the record its name says"),
        (rename, "is not the record its name says"),
    ],
    ids=["cut", "list", "format", "unknown field", "lost field", "no config", "changed", "renamed"],
)
def test_unfit_files_are_named_and_left_alone(
    written: Path, damage: Callable[[Path], object], reason: str, make_run: Any, make_record: Any
) -> None:
    records.write(written.parent, make_run(*CELL, seed=84), make_record(*CELL, seed=84))
    damage(written)
    before = {file: file.read_bytes() for file in written.parent.iterdir()}
    with pytest.raises(RunError, match="these records cannot be used; nothing was changed") as caught:
        records.read_all(written.parent)
    assert reason in str(caught.value)
    assert str(caught.value).count("\n") == 1  # the other record is fit
    assert {file: file.read_bytes() for file in written.parent.iterdir()} == before


def test_first_step_at(make_record: Callable[..., Record]) -> None:
    record = make_record(*CELL)
    assert [record.first_step_at(share) for share in (0.0, 0.3, 1.0)] == [1000, 2000, 2000]
    assert record.first_step_at(1.01) is None
