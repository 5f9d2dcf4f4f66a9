"""How items become numbers a scorer reads: fitted to the items it is taught with, stored with the model as JSON.

What travels with the model decides what its scores mean: the columns and their statistics, or the size that pictures
are brought to. Items that do not fit become a reason each; a table that lacks columns is refused as a whole.
"""

import math
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from truesort.data import DataError
from truesort.data._quick_csv import MISSING
from truesort.data.items import ARRAY, Block, Cells

SMALLEST_SIDE, LARGEST_SIDE = 16, 64
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP", "PPM", "AVIF")
MOST_PIXELS = 100_000_000
"""A picture of more is a mistake or a decompression bomb."""
MOST_CATEGORIES = 64
MIDDLE_HALF = 1.349
"""Standard deviations that the middle half of a normal distribution spans."""
FARTHEST = 10.0
"""Normalised numbers are cut here, so that one wild cell cannot rule."""


@dataclass(frozen=True)
class Encoded:
    """Items as numbers, and what could not be read, `(name, reason)`."""

    names: list[str]
    values: Tensor
    unreadable: list[tuple[str, str]]


@dataclass(frozen=True)
class Pictures:
    """Pictures of one shape (C, H, W), smaller or larger ones being fitted into it with black borders."""

    shape: tuple[int, int, int]
    numeric = frozenset[str]()
    """Columns of numbers, which pictures do not have."""

    @staticmethod
    def fit(block: Block) -> "Pictures":
        """The usual larger side, a multiple of eight from 16 to 64, and grey if all pictures are."""
        cells = block.cells[ARRAY]
        if isinstance(cells, np.ndarray):
            return Pictures((int(cells.shape[1]), int(cells.shape[2]), int(cells.shape[3])))
        found = [facts for facts in map(_side_and_greyness, cells) if facts is not None]
        if not found:
            raise DataError(f"none of the {len(cells)} pictures can be read; the first is {cells[0]}")
        side = 8 * math.ceil(float(np.median([side for side, _ in found])) / 8)
        side = min(max(side, SMALLEST_SIDE), LARGEST_SIDE)
        return Pictures((1 if all(grey for _, grey in found) else 3, side, side))

    def encode(self, block: Block) -> Encoded:
        """Pictures as bytes (n, C, H, W)."""
        if set(block.cells) != {ARRAY}:
            raise DataError("this model was taught with pictures; give it a folder of pictures, not a table")
        cells = block.cells[ARRAY]
        if isinstance(cells, np.ndarray):
            if cells.shape[1:] != self.shape:
                raise DataError(f"this model was taught with pictures of shape {self.shape}, got {cells.shape[1:]}")
            return Encoded(block.names, torch.from_numpy(cells), block.unreadable)
        quiet = warnings.catch_warnings(action="ignore")  # Pillow warns of bombs and odd EXIF
        with quiet, ThreadPoolExecutor(os.cpu_count()) as pool:
            read = list(pool.map(self._read, cells))
        good = [picture for picture in read if isinstance(picture, np.ndarray)]
        bad = [(name, result) for name, result in zip(block.names, read, strict=True) if isinstance(result, str)]
        names = [name for name, result in zip(block.names, read, strict=True) if not isinstance(result, str)]
        pixels = np.stack(good) if good else np.zeros((0, *self.shape), dtype=np.uint8)
        return Encoded(names, torch.from_numpy(pixels), block.unreadable + bad)

    def numbers(self, values: Tensor) -> Tensor:
        """Bytes as what the scorer reads."""
        return values.float().div(128).sub(1)

    def _read(self, path: Path) -> NDArray[np.uint8] | str:
        """The picture upright and in our shape, or why not."""
        from PIL import Image, ImageOps

        channels, height, width = self.shape
        try:
            with _opened(path) as image:
                _refuse_bomb(image.size)
                image.draft(None, (4 * width, 4 * height))
                upright = ImageOps.exif_transpose(image).convert("L" if channels == 1 else "RGB")
                fitted = ImageOps.pad(upright, (width, height), Image.Resampling.LANCZOS)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError, MemoryError) as error:
            return f"{path}: not a readable picture ({error})"
        return np.asarray(fitted, dtype=np.uint8).reshape(height, width, channels).transpose(2, 0, 1)


def _opened(path: Path) -> Any:
    """The picture, if its content is of a kind we know, whatever it is called: others run programs to be read."""
    from PIL import Image

    Image.init()
    return Image.open(path, formats=[kind for kind in FORMATS if kind in Image.OPEN])


def _refuse_bomb(size: tuple[int, int]) -> None:
    if not 0 < size[0] * size[1] <= MOST_PIXELS:
        raise ValueError(f"{size[0]} × {size[1]} pixels; at most {MOST_PIXELS:,} are read")


def _side_and_greyness(path: Any) -> tuple[int, bool] | None:
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"), _opened(path) as image:
            return max(image.size), image.mode in ("1", "L", "LA", "I", "I;16", "F")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


@dataclass(frozen=True)
class Column:
    """A column of numbers or vectors, to be normalised, or of categories, one 0/1 number for each it was taught.

    Numbers are counted from the median in units of the middle half's spread, and far ones are drawn in by asinh: prices
    and counts, skewed as they are, are then no harder to learn from than anything else.
    """

    name: str
    kind: str
    centre: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers it becomes."""
        return len(self.values) if self.kind == "category" else len(self.centre)

    def encode(self, cells: Cells) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """(rows, width) in float32, a missing number being the centre; and which cells cannot be read."""
        if self.kind == "category":
            known = np.asarray(["", *self.values])[1:]
            texts = np.asarray([str(cell).strip() for cell in cells])
            return (texts[:, None] == known).astype(np.float32), np.zeros(len(cells), dtype=bool)
        raw, bad = _parse(cells, None if self.kind == "number" else self.width)
        raw -= np.asarray(self.centre, dtype=raw.dtype)
        raw /= np.asarray(self.spread, dtype=raw.dtype)
        near = np.arcsinh(raw.astype(np.float32, copy=False))
        np.clip(near, -FARTHEST, FARTHEST, out=near)
        return np.nan_to_num(near, copy=False), bad


@dataclass(frozen=True)
class Columns:
    """The columns of a table, side by side."""

    columns: tuple[Column, ...]

    @staticmethod
    def fit(block: Block) -> "Columns":
        """Numbers where nearly all cells are, vectors where the first cell is one, categories elsewhere."""
        columns = tuple(filter(None, (_fit_column(name, cells) for name, cells in block.cells.items())))
        if not columns:
            raise DataError("the table has no column to learn from: beside names it needs numbers or categories")
        return Columns(columns)

    @property
    def numeric(self) -> frozenset[str]:
        """Columns of numbers."""
        return frozenset(column.name for column in self.columns if column.kind == "number")

    @property
    def width(self) -> int:
        """How many numbers an item becomes."""
        return sum(column.width for column in self.columns)

    def encode(self, block: Block) -> Encoded:
        """Rows as float32 (n, width)."""
        if block.names and isinstance(next(iter(block.cells.values()))[0], Path):
            raise DataError("this model was taught with a table; give it one, not pictures")
        missing = [column.name for column in self.columns if column.name not in block.cells]
        if block.names and missing:
            raise DataError(
                f"{block.source} lacks columns the model was taught with: {', '.join(missing[:20])}; "
                f"it has {', '.join(list(block.cells)[:20])}. Add or rename them"
            )
        values = np.zeros((len(block.names), self.width), dtype=np.float32)
        why: dict[int, str] = {}
        start = 0
        for column in self.columns if block.names else ():
            cells = block.cells[column.name]
            values[:, start : start + column.width], bad = column.encode(cells)
            start += column.width
            why |= {
                row: f"{block.source}:{block.lines[row]}: {column.name} is {str(cells[row])!r}, not a {column.kind}"
                for row in bad.nonzero()[0].tolist()
            }
        good = [row for row in range(len(block.names)) if row not in why] if why else None
        names = block.names if good is None else [block.names[row] for row in good]
        bad_items = [(block.names[row], reason) for row, reason in sorted(why.items())]
        return Encoded(names, torch.from_numpy(values if good is None else values[good]), block.unreadable + bad_items)

    def numbers(self, values: Tensor) -> Tensor:
        """They are what the scorer reads."""
        return values


def _fit_column(name: str, cells: Cells) -> Column | None:
    first = next((cell for cell in cells if isinstance(cell, str) and cell.strip()), None)
    if isinstance(cells, np.ndarray) or first is not None:
        width = cells.shape[1] if isinstance(cells, np.ndarray) and cells.ndim == 2 else _vector_width(first)
        raw, bad = _parse(cells, width)
        empty = np.asarray([isinstance(cell, str) and not cell.strip() for cell in cells])
        if bad.sum() <= 0.1 * (~empty).sum():
            return _normalised(name, "number" if width is None else "vector", raw[~bad])
    counts = Counter(str(cell).strip() for cell in cells)
    values = sorted(value for value, count in counts.most_common(MOST_CATEGORIES) if value and count > 1)
    return Column(name, "category", values=tuple(values)) if len(values) > 1 else None


def _normalised(name: str, kind: str, raw: NDArray[np.floating]) -> Column | None:
    with warnings.catch_warnings(action="ignore"):  # numpy warns of a column of nothing but missing numbers
        low, centre, high = np.nan_to_num(np.nanquantile(raw.astype(np.float64), [0.25, 0.5, 0.75], 0))
        std = np.nan_to_num(np.nanstd(raw, 0, np.float64))
    spread = np.where(high > low, (high - low) / MIDDLE_HALF, std)  # of a column that is mostly one number
    spread = np.where(spread > 1e-12 * np.abs(centre), spread, 1)
    return Column(name, kind, tuple(centre.tolist()), tuple(spread.tolist()))


def _vector_width(cell: str | None) -> int | None:
    """How many numbers a cell such as `[0.1, 2]` or `0.1 2` holds; None if it is not a vector."""
    numbers = _split(cell or "")
    return len(numbers) if len(numbers) > 1 and not np.isnan(_floats(numbers)).any() else None


def _split(cell: str) -> list[str]:
    return cell.strip().strip("[]()").replace(",", " ").replace(";", " ").split()


def _parse(cells: Cells, width: int | None) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Cells as (rows, width) numbers, nan where missing, and which of them are something else."""
    if isinstance(cells, np.ndarray):
        raw = cells.astype(np.result_type(cells.dtype, np.float32)).reshape(len(cells), -1)
        if width is not None and raw.shape[1] < width:  # LETOR leaves zeros at the end out
            raw = np.pad(raw, ((0, 0), (0, width - raw.shape[1])))
        if raw.shape[1] != (width or 1):
            raise DataError(f"items have {raw.shape[1]} numbers, the model was taught with {width or 1}")
        return raw, np.asarray(np.isinf(raw).any(1))
    if width is None:
        raw = _floats(cells)[:, None]
        wrong: NDArray[np.bool_] = np.isnan(raw[:, 0]) | np.isinf(raw[:, 0])
        for row in wrong.nonzero()[0].tolist():
            wrong[row] = str(cells[row]).strip().lower() not in MISSING
        return raw, wrong
    rows = [_floats(_split(str(cell))) for cell in cells]
    bad = np.asarray([len(row) != width or not np.isfinite(row).all() for row in rows])
    return np.stack([np.zeros(width) if wrong else row for row, wrong in zip(rows, bad, strict=True)]), bad


def _floats(texts: Sequence[Any]) -> NDArray[np.float64]:
    """Texts as numbers, nan where they are none."""
    try:
        return np.asarray(texts, dtype=np.float64)
    except ValueError:
        return np.asarray([_float(text) for text in texts], dtype=np.float64)


def _float(text: Any) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


Preparation = Pictures | Columns


def fit(block: Block) -> Preparation:
    """The preparation that suits the items."""
    cells = block.cells.get(ARRAY)
    pictures = isinstance(cells[0], Path) if isinstance(cells, list) else cells is not None and cells.ndim == 4
    return Pictures.fit(block) if pictures else Columns.fit(block)


def to_facts(preparation: Preparation) -> dict[str, Any]:
    """A preparation as JSON."""
    return asdict(preparation)


def from_facts(facts: dict[str, Any]) -> Preparation:
    """The preparation that `to_facts` wrote."""
    if "shape" in facts:
        channels, height, width = (int(size) for size in facts["shape"])
        if channels not in (1, 3) or not 0 < height * width <= 4096 * 4096:
            raise ValueError(f"pictures of shape {facts['shape']}")
        return Pictures((channels, height, width))
    return Columns(tuple(_column(**column) for column in facts["columns"]))


def _column(name: str, kind: str, centre: list[float], spread: list[float], values: list[str]) -> Column:
    if kind not in ("number", "vector", "category") or len(centre) != len(spread):
        raise ValueError(f"column {name} of kind {kind!r}")
    return Column(str(name), kind, tuple(map(float, centre)), tuple(map(float, spread)), tuple(map(str, values)))
