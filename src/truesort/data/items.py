"""Named things to sort, read in blocks: a folder of pictures, a table, a matrix, or LETOR lines.

A block holds at most some thousand items, so a table of a million rows passes through in bounded memory. What cannot
be read is set aside with its reason instead of ending the reading; files that cannot be used at all are a `DataError`.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from truesort.data._files import DataError
from truesort.data._quick_csv import NotPlain, plain_parts
from truesort.data._text import MOST_COLUMNS, lines_of, rows_of
from truesort.data.orders import is_letor

BLOCK = 16_384
"""Items read at a time."""
NAME_COLUMNS = ("name", "item", "id", "file", "filename")
PICTURE_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".pgm", ".tif", ".tiff", ".webp", ".avif"}
ARRAY = "values"
"""The only column of what is an array already."""

Cells = list[str] | list[Path] | NDArray[Any]


@dataclass
class Block:
    """Items read together from lines (or rows) of `source`: names, columns of cells, what cannot be read and why."""

    source: str
    lines: Sequence[int]
    names: list[str]
    cells: dict[str, Cells]
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def keep(self, rows: Sequence[int]) -> "Block":
        """Some of the items."""
        cells: dict[str, Any] = {}
        for name, column in self.cells.items():
            array = isinstance(column, np.ndarray)
            cells[name] = column[np.asarray(rows, dtype=np.int64)] if array else [column[row] for row in rows]
        names, lines = [self.names[row] for row in rows], [self.lines[row] for row in rows]
        return Block(self.source, lines, names, cells, self.unreadable)


class Items(ABC):
    """Where items come from; `source` names it in messages."""

    source: str

    @abstractmethod
    def blocks(self, numbers: Collection[str] = ()) -> Iterator[Block]:
        """All items, in their order; columns called as `numbers` says may come as arrays of numbers instead of text."""

    def gather(self, wanted: set[str]) -> Block:
        """The wanted items in one block; a name that stands for two items is an error."""
        parts, seen = list[Block](), dict[str, int]()
        for block in self.blocks():
            rows = [row for row, name in enumerate(block.names) if name in wanted]
            for row in rows:
                name, line = block.names[row], block.lines[row]
                if name in seen:
                    raise DataError(
                        f"{self.source}:{line}: the name {name} stands in line {seen[name]} too; give each item its own"
                    )
                seen[name] = line
            block.unreadable = [bad for bad in block.unreadable if bad[0] in wanted]
            parts.append(block.keep(rows))
        return _joined(parts)


class Photos(Items):
    """The pictures in a folder and the folders in it, named by their path within it; or a list of files."""

    def __init__(self, folder: Path | None, files: Sequence[str | os.PathLike[str]] = ()) -> None:
        self.source = "the list of pictures" if folder is None else str(folder)
        self._files = {str(file): Path(file) for file in files}
        if folder is not None:
            found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURE_SUFFIXES)
            self._files = {path.relative_to(folder).as_posix(): path for path in found if path.is_file()}
            if not self._files:
                raise DataError(f"{folder} holds no pictures (of {', '.join(sorted(PICTURE_SUFFIXES))})")

    def gather(self, wanted: set[str]) -> Block:
        """The wanted pictures, named by their path or, where it is the only one of that name, by the file's name."""
        names = {name: name for name in wanted if name in self._files}
        for path in self._files:
            short = path.rpartition("/")[2]
            if short in wanted and short not in self._files:
                if short in names:
                    raise DataError(f"{self.source}: {short} is {names[short]} or {path}; write which")
                names[short] = path
        files: list[Path] = [self._files[path] for path in names.values()]
        return Block(self.source, range(len(names)), list(names), {ARRAY: files})

    def blocks(self, numbers: Collection[str] = ()) -> Iterator[Block]:
        """The files, unopened: what they become depends on the model."""
        names = iter(self._files)
        while part := list(islice(names, 256)):
            yield Block(self.source, range(len(part)), part, {ARRAY: [self._files[name] for name in part]})


class Matrix(Items):
    """The rows of an array, named by their numbers; of a file, only a block is in memory."""

    def __init__(self, array: NDArray[Any], source: str) -> None:
        if array.ndim not in (2, 4) or not array.size or array.dtype.kind not in "fiub":
            raise DataError(
                f"{source} has shape {array.shape} and type {array.dtype}; items are rows of numbers, "
                "(items, features), or pictures as bytes, (items, channels, height, width)"
            )
        if array.ndim == 4 and array.dtype != np.uint8:
            raise DataError(f"{source} holds pictures of type {array.dtype}; they must be bytes (uint8)")
        self.source, self._array = source, array

    def blocks(self, numbers: Collection[str] = ()) -> Iterator[Block]:
        """Rows, copied."""
        for start in range(0, len(self._array), BLOCK):
            rows = self._read(start, min(start + BLOCK, len(self._array)))
            places = range(start, start + len(rows))
            yield Block(self.source, places, [str(row) for row in places], {ARRAY: rows})

    def _read(self, start: int, end: int) -> NDArray[Any]:
        array = self._array
        if isinstance(array, np.memmap) and array.flags.c_contiguous:  # read, so that no mapped page stays in memory
            per_row = array[0].size
            flat = np.fromfile(
                str(array.filename),
                array.dtype,
                (end - start) * per_row,
                offset=array.offset + start * array.strides[0],
            )
            return flat.reshape(end - start, *array.shape[1:])
        return np.array(array[start:end])


class Table(Items):
    """A CSV file with a header; a row of the wrong length cannot be read."""

    def __init__(self, path: Path, name: str | None) -> None:
        self.source, self._path = str(path), path
        first = next(rows_of(path), None)
        if first is None:
            raise DataError(f"{path} is empty; a table needs a header and rows")
        self._header_ends, header = first
        self.columns = [cell.strip() for cell in header]
        self._place = self.columns.index(_name_column(path, self.columns, name))

    def blocks(self, numbers: Collection[str] = ()) -> Iterator[Block]:
        """Rows column by column, as text where `numbers` does not say otherwise."""
        done = 0
        if numbers and self._header_ends == 1:
            try:
                for cells in plain_parts(self._path, self.columns, numbers):
                    names = cells.pop(self.columns[self._place])
                    yield Block(self.source, range(done + 2, done + 2 + len(names)), names, cells)
                    done += len(names)
                return
            except NotPlain:
                pass
        yield from self._careful_blocks(done)

    def _careful_blocks(self, done: int) -> Iterator[Block]:
        rows = islice(rows_of(self._path), 1 + done, None)
        while part := list(islice(rows, BLOCK)):
            width = len(self.columns)
            good = [cells for _, cells in part if len(cells) == width]
            columns = dict(zip(self.columns, zip(*good, strict=True), strict=True)) if good else {}
            bad = [self._unreadable(line, cells) for line, cells in part if len(cells) != width]
            names = list(columns.pop(self.columns[self._place], ()))
            texts: dict[str, Cells] = {column: list(cells) for column, cells in columns.items()}
            lines = [line for line, cells in part if len(cells) == width]
            yield Block(self.source, lines, names, texts, bad)

    def _unreadable(self, line: int, cells: list[str]) -> tuple[str, str]:
        name = cells[self._place] if self._place < len(cells) else f"line {line}"
        return name, f"{self.source}:{line}: {len(cells)} cells under {len(self.columns)} columns"


class Parquet(Items):
    """A Parquet file; a column of lists is a column of vectors."""

    def __init__(self, path: Path, name: str | None) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError as error:
            raise DataError(f"{path} needs pyarrow: pip install 'truesort[parquet]'") from error
        self.source = str(path)
        try:
            # Else it keeps all that it has read ahead until the end of the file.
            self._file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
        except (ArrowException, OSError) as error:
            raise DataError(f"{path} is not a Parquet file, or is damaged: {error}") from error
        self._name = _name_column(path, self._file.schema_arrow.names, name)

    def blocks(self, numbers: Collection[str] = ()) -> Iterator[Block]:
        """Rows, numbers as arrays and everything else as text."""
        row = 0
        for batch in self._file.iter_batches(BLOCK):
            columns = {name: batch.column(name) for name in batch.schema.names}
            names = [str(name) for name in columns.pop(self._name).to_pylist()]
            cells = {name: self._cells(name, column) for name, column in columns.items()}
            yield Block(self.source, range(row, row + len(names)), names, cells)
            row += len(names)

    def _cells(self, name: str, column: Any) -> Cells:
        import pyarrow.types as kinds

        kind = column.type
        if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
            vectors = column.to_pylist() if column.null_count else np.asarray(column.flatten())
            if isinstance(vectors, list) or len(vectors) % len(column) or _ragged(column):
                raise DataError(f"{self.source}: the vectors in column {name} are not all of one length")
            return vectors.reshape(len(column), -1).astype(np.float32)
        if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind):
            return np.asarray(column.cast("float64").to_numpy(zero_copy_only=False))
        return ["" if value is None else str(value) for value in column.to_pylist()]


def _ragged(column: Any) -> bool:
    from pyarrow.compute import list_value_length

    return len(list_value_length(column).unique()) > 1


class Letor(Items):
    """The features in lines `grade qid:group feature:value ...`, an item being named by its line."""

    def __init__(self, path: Path) -> None:
        self.source, self._path = str(path), path
        self._width = max((_last_feature(line) for line in lines_of(path)), default=0)
        if not 0 < self._width <= MOST_COLUMNS:
            raise DataError(
                f"{path} has features up to number {self._width}; between 1 and {MOST_COLUMNS:,} is allowed"
            )

    def blocks(self, numbers: Collection[str] = ()) -> Iterator[Block]:
        """Rows of numbers; features that are not named are zero."""
        lines = ((n, line) for n, line in enumerate(lines_of(self._path), 1) if line.strip() and line[0] != "#")
        while part := list(islice(lines, BLOCK)):
            block, good = Block(self.source, [], [], {}), list[int]()
            values = np.zeros((len(part), self._width), dtype=np.float32)
            for number, line in part:
                try:
                    for pair in line.split("#")[0].split()[2:]:
                        place, value = pair.split(":")
                        values[len(good), int(place) - 1] = float(value)
                    good.append(number)
                except (ValueError, IndexError):
                    values[len(good)] = 0
                    block.unreadable.append((str(number), f"{self.source}:{number}: not `feature:value` throughout"))
            block.lines, block.names = good, [str(number) for number in good]
            block.cells = {ARRAY: values[: len(good)]}
            yield block


def _last_feature(line: str) -> int:
    text = line.split("#")[0].rstrip().rpartition(" ")[2].partition(":")[0]
    return int(text) if text.isdecimal() else 0


def open_items(items: Any, name: str | None = None) -> Items:
    """The items in a folder, file, array or tensor, or in a list of picture files; `name` is a table's name column."""
    if isinstance(items, Items):
        return items
    if isinstance(items, Tensor):
        items = items.detach().cpu().numpy()
    if isinstance(items, np.ndarray):
        return Matrix(items, "items")
    if isinstance(items, Sequence) and not isinstance(items, str):
        return Photos(None, items)
    if not isinstance(items, str | os.PathLike):
        raise TypeError(f"items is of type {type(items).__name__}; it must be a path, an array, or a list of pictures")
    return _open_path(Path(items), name)


def _open_path(path: Path, name: str | None) -> Items:
    if path.is_dir():
        return Photos(path)
    if not path.is_file():
        raise DataError(f"{path} does not exist; items are a folder of pictures, a .csv, .parquet or .npy file")
    match path.suffix.lower():
        case ".csv" | ".tsv":
            return Table(path, name)
        case ".parquet" | ".pq":
            return Parquet(path, name)
        case ".npy":
            return _numpy_file(path)
        case _ if is_letor(path):
            return Letor(path)
    raise DataError(f"{path} is none of: a folder of pictures, .csv, .tsv, .parquet, .npy, or LETOR lines with qid:")


def _numpy_file(path: Path) -> Matrix:
    try:
        return Matrix(np.load(path, mmap_mode="r", allow_pickle=False), str(path))
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is not a matrix of numbers in numpy's format: {error}") from error


def _name_column(path: Path, columns: Sequence[str], wanted: str | None) -> str:
    """The column wanted, or the first that is called like a name, or the first."""
    if len(columns) > MOST_COLUMNS:
        raise DataError(f"{path}:1: {len(columns):,} columns; at most {MOST_COLUMNS:,} are read. Save vectors as .npy")
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if list(columns).count(column) > 1)
        raise DataError(f"{path}:1: two columns are called {twice!r}; give each its own name")
    if wanted is not None and wanted not in columns:
        raise DataError(f"{path}:1: no column {wanted!r} to take names from; there are {', '.join(columns[:20])}")
    return wanted or next((column for column in columns if column.lower() in NAME_COLUMNS), columns[0])


def _joined(parts: list[Block]) -> Block:
    names, lines = [name for part in parts for name in part.names], [line for part in parts for line in part.lines]
    whole = Block(
        parts[0].source if parts else "", lines, names, {}, [bad for part in parts for bad in part.unreadable]
    )
    for column in next((part.cells for part in parts if part.names), {}):
        pieces: list[Any] = [part.cells[column] for part in parts if part.names]
        array = isinstance(pieces[0], np.ndarray)
        whole.cells[column] = np.concatenate(pieces) if array else [cell for piece in pieces for cell in piece]
    return whole
