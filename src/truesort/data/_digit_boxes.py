"""Which number stands where in the pictures of SVHN's Format 1.

Its `digitStruct.mat` is an HDF5 file of references to references; this file turns it into one box a picture.
"""

import io
from dataclasses import dataclass
from typing import Any

from truesort.data._files import DataError


@dataclass(frozen=True)
class Box:
    """The number in the picture called `name` and the union of the boxes of its digits, in pixels."""

    name: str
    number: int
    left: float
    top: float
    right: float
    bottom: float


def read_boxes(content: bytes) -> list[Box]:
    """The boxes in a digitStruct.mat."""
    try:
        import h5py
    except ImportError:
        raise DataError("the official SVHN archives need h5py: pip install 'truesort[svhn]'") from None
    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            names, boxes = file["digitStruct/name"], file["digitStruct/bbox"]
            return [_box(file, name, box) for name, box in zip(names[:, 0], boxes[:, 0], strict=True)]
    except (OSError, KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise DataError(f"digitStruct.mat is not that of SVHN, or damaged ({error})") from error


def _box(file: Any, name: Any, box: Any) -> Box:
    digits = {field: _numbers(file, file[box][field]) for field in ("label", "left", "top", "width", "height")}
    right = max(left + width for left, width in zip(digits["left"], digits["width"], strict=True))
    bottom = max(top + height for top, height in zip(digits["top"], digits["height"], strict=True))
    number = int("".join(str(int(label) % 10) for label in digits["label"]))  # a zero has the label 10
    return Box(_text(file[name]), number, min(digits["left"]), min(digits["top"]), right, bottom)


def _numbers(file: Any, field: Any) -> list[float]:
    """One number stands there itself, several as references."""
    values = field[:, 0]
    return [float(file[value][0, 0]) for value in values] if len(values) > 1 else [float(values[0])]


def _text(characters: Any) -> str:
    return "".join(chr(code) for code in characters[:, 0])
