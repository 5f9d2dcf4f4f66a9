"""The three commands, `teach`, `sort` and `check`: what they are asked, what they write, what they say.

Results go to standard output or to files, replaced whole; everything said about them goes to standard error, so that
`truesort sort model photos | head` works. What could not be read is written at the end and makes the command fail.
"""

import csv
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

from tyro import conf

from truesort.data import DataError
from truesort.data.items import open_items
from truesort.engine import RunError
from truesort.engine.progress import show_on
from truesort.engine.record import write_atomically
from truesort.teaching.learning import Recipe
from truesort.teaching.lesson import check, teach
from truesort.teaching.model import Ranking, Taught, load
from truesort.teaching.sheet import contact_sheet, require_pictures

Row = tuple[int | None, str, float | None]
ItemsPath = conf.Positional[Annotated[Path, conf.arg(metavar="ITEMS")]]
OrdersPath = conf.Positional[Annotated[Path, conf.arg(metavar="ORDERS")]]
ModelPath = conf.Positional[Annotated[Path, conf.arg(metavar="MODEL")]]
Output = conf.arg(aliases=["-o"])


@dataclass(frozen=True)
class Teach:
    """What to learn from."""

    items: ItemsPath
    """Folder of pictures, table (.csv, .tsv, .parquet), matrix (.npy) or LETOR file."""
    orders: OrdersPath
    """Right orders: CSV (lists, pairs, or group,item,grade), JSON lines, or LETOR."""
    output: Annotated[Path, Output]
    """File to write the model to."""
    name: str | None = None
    """Column of the table that holds the names; if not given, one called name, item, id or file, or the first."""


@dataclass(frozen=True)
class Sort:
    """What to sort."""

    model: ModelPath
    """Model that `truesort teach` wrote."""
    items: ItemsPath
    """Folder of pictures, table, matrix or LETOR file."""
    output: Annotated[Path | None, Output] = None
    """File to write `position,item,score` to, CSV or .parquet; if not given, it is printed."""
    sheet: Path | None = None
    """PNG to draw the pictures to, in order."""
    descending: bool = False
    """Highest first."""
    top: int | None = None
    """Only the first so many."""
    name: str | None = None
    """Column of the table that holds the names."""


@dataclass(frozen=True)
class Check:
    """What to measure on."""

    model: ModelPath
    """Model that `truesort teach` wrote."""
    items: ItemsPath
    """Folder of pictures, table, matrix or LETOR file."""
    orders: OrdersPath
    """Right orders the model was not taught with."""
    name: str | None = None
    """Column of the table that holds the names."""


def run_teach(asked: Teach, recipe: Recipe) -> None:
    """Teach, write the model, and say what is known of it."""
    _require_folder_of(asked.output)
    model = teach(
        asked.items, asked.orders, recipe, name=asked.name, show=lambda title: show_on(sys.stderr, f"{title:<38}")
    )
    model.save(asked.output)
    report = model.report
    _say(f"{asked.output}: taught with {model.facts['lists']:,} orders of {model.facts['items']:,} items")
    if report.lists:
        print(f"\non {report.lists:,} held-out lists ({report.comparisons:,} comparisons), 95 % intervals:\n{report}")
    for note in report.notes:
        _say(f"note: {note}")


def run_sort(asked: Sort) -> None:
    """Sort, and write or print the order."""
    if asked.output is not None and asked.output.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"output must end in .csv or .parquet, got {asked.output}")
    for file in filter(None, (asked.output, asked.sheet)):
        _require_folder_of(file)
    model, items = _taught(asked.model), open_items(asked.items, asked.name)
    if asked.sheet is not None:
        require_pictures(items)
    ranking = model.sort(items, descending=asked.descending, top=asked.top)
    if asked.sheet is not None:
        write_atomically(asked.sheet, contact_sheet(items, ranking.names))
    if asked.output is None:
        _write_csv(ranking, sys.stdout)
    elif asked.output.suffix.lower() == ".parquet":
        write_atomically(asked.output, _parquet(ranking))
    else:
        text = io.StringIO()
        _write_csv(ranking, text)
        write_atomically(asked.output, text.getvalue().encode())
    for _, reason in ranking.unreadable:
        _say(f"unreadable: {reason}")
    if ranking.unreadable:
        raise DataError(f"unreadable items, named at the end of the order: {len(ranking.unreadable):,}")


def run_check(asked: Check) -> None:
    """Measure a model on new orders."""
    report = check(_taught(asked.model), asked.items, asked.orders, asked.name)
    print(f"on {report.lists:,} lists ({report.comparisons:,} comparisons), 95 % intervals:\n{report}")
    for note in report.notes:
        _say(f"note: {note}")


def _require_folder_of(file: Path) -> None:
    """Say now, and not when all is computed, that a file cannot be written."""
    if not file.parent.is_dir():
        raise RunError(f"cannot write {file}: the folder {file.parent} does not exist")


def _taught(path: Path) -> Taught:
    model = load(path)
    if not isinstance(model, Taught):
        raise RunError(f"{path} is a scorer from `truesort train`, which sorts the pictures of its task only")
    return model


def _rows(ranking: Ranking) -> Iterator[Row]:
    yield from zip(range(len(ranking)), ranking.names, ranking.scores.tolist(), strict=True)
    yield from ((None, name, None) for name, _ in ranking.unreadable)


def _write_csv(ranking: Ranking, out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("position", "item", "score"))
    writer.writerows((place, name, None if score is None else f"{score:.6g}") for place, name, score in _rows(ranking))


def _parquet(ranking: Ranking) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError("writing Parquet needs pyarrow: pip install 'truesort[parquet]'") from error
    positions, names, scores = zip(*_rows(ranking), strict=True) if len(ranking) else ((), (), ())
    buffer: Any = io.BytesIO()
    parquet.write_table(pyarrow.table({"position": positions, "item": names, "score": scores}), buffer)
    content: bytes = buffer.getvalue()
    return content


def _say(text: str) -> None:
    print(text, file=sys.stderr)
