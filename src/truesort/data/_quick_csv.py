"""Long tables of numbers, read by pyarrow where it is installed, many times as fast as cell by cell.

It reads what is plain and nothing else: at the first part of the file that holds anything odd (a cell that is no
number, a row of another length, bytes that are no text) it raises `NotPlain`, and the careful reader, who can say what
is wrong in which line, goes on from there.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from truesort.data._text import LONGEST_LINE

PART = 1 << 23
"""Bytes read at a time; memory is bounded by some of these."""
MISSING = ("", "na", "nan", "n/a", "null", "none")
"""What stands where a number is missing, in any case."""


class NotPlain(Exception):
    """What follows is for the careful reader."""


def plain_parts(path: Path, columns: Sequence[str], numbers: Collection[str]) -> Iterator[dict[str, Any]]:
    """Rows after a header of one line, by column: `numbers` as arrays, nan where missing, others as lists of texts."""
    try:
        from pyarrow import ArrowException, csv, float64, py_buffer, string
    except ImportError as error:
        raise NotPlain from error
    missing = [form for text in MISSING for form in dict.fromkeys((text, text.upper(), text.capitalize(), "NaN"))]
    kinds = {column: float64() if column in numbers else string() for column in columns}
    options: dict[str, Any] = {
        "read_options": csv.ReadOptions(column_names=columns),
        "parse_options": csv.ParseOptions(delimiter="\t" if path.suffix.lower() == ".tsv" else ","),
        "convert_options": csv.ConvertOptions(column_types=kinds, null_values=missing, strings_can_be_null=False),
    }
    for part in _parts(path):
        try:
            table = csv.read_csv(py_buffer(part), **options)
        except ArrowException as error:
            raise NotPlain from error
        if table.num_rows != part.count(b"\n"):  # a blank line, or a cell of several lines
            raise NotPlain
        yield {name: table[name].to_numpy() if name in numbers else table[name].to_pylist() for name in columns}


def _parts(path: Path) -> Iterator[bytes]:
    """Whole lines, ended, without the first."""
    with path.open("rb") as file:
        file.readline()
        rest = b""
        while chunk := file.read(PART):
            lines, end, rest = (rest + chunk).rpartition(b"\n")
            if len(rest) > LONGEST_LINE:
                raise NotPlain
            yield lines + end
        if rest:
            yield rest + b"\n"
