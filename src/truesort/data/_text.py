"""Text files from strangers: read line by line in bounded memory, refused with file and line if they are not text.

A file may be a picture by mistake, hold one line of a gigabyte, or come from an old spreadsheet in another encoding;
each of these is said in one sentence instead of a trace.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from truesort.data._files import DataError

LONGEST_LINE = 1 << 24
"""Bytes; a list of hundreds of thousands of names fits."""
MOST_COLUMNS = 20_000


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, with their ends."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                yield _decoded(path, number, line)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _decoded(path: Path, number: int, line: bytes) -> str:
    if len(line) > LONGEST_LINE:
        raise DataError(f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes; is this the right file?")
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{number}: not UTF-8 text ({error.reason}); save the file as UTF-8") from error
    if "\0" in text:
        raise DataError(f"{path}:{number}: not text (it holds zero bytes); is this the right file?")
    return text


def rows_of(path: Path) -> Iterator[tuple[int, list[str]]]:
    """`(line, cells)` of each row of a CSV file (.tsv: of a tab-separated one); blank lines are no rows."""
    reader = csv.reader(lines_of(path), delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: not valid CSV ({error})") from error
