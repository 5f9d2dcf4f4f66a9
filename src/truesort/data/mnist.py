"""Numbers of handwritten MNIST digits, the benchmark of all earlier work on differentiable sorting.

The published code trains on the first 55,000 of the 60,000 training pictures, validates on the other 5,000 and
divides bytes by 255 without a further shift; so do we, which keeps its loss weights comparable.
"""

import struct
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from truesort.data._base import Pictures, Split
from truesort.data._files import DataError, Remote, Shelf, read_checked
from truesort.data._numbers import Numbers

TRAINING = 55_000
FOLDERS = ("mnist", "MNIST/raw")

_SITE = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FILES = {
    name: Remote(f"{name}.gz", f"{_SITE}{name}.gz", md5)
    for name, md5 in {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    }.items()
}


class MNISTNumbers(Numbers):
    """Numbers of `digits` MNIST digits, each 28 pixels high and 28 a digit wide."""

    def __init__(self, digits: int = 4, folder: str | Path | None = None, device: torch.device | str = "cpu") -> None:
        pictures = {split: part.to(device) for split, part in mnist_pictures(folder).items()}
        super().__init__(f"mnist{digits}", pictures, digits)


def mnist_pictures(folder: str | Path | None = None) -> dict[Split, Pictures]:
    """The single digits of the three splits, 28×28×1."""
    shelf = Shelf(folder, FOLDERS, list(FILES.values()))
    learn, test = _read(shelf, "train"), _read(shelf, "t10k")
    return {"train": learn[:TRAINING], "validation": learn[TRAINING:], "test": test}


def _read(shelf: Shelf, part: str) -> Pictures:
    images = _parse(read_checked(shelf, FILES[f"{part}-images-idx3-ubyte"]), f"{part} images", 3)
    labels = _parse(read_checked(shelf, FILES[f"{part}-labels-idx1-ubyte"]), f"{part} labels", 1)
    if len(images) != len(labels):
        raise DataError(f"MNIST {part} has {len(images)} images but {len(labels)} labels")
    return Pictures(torch.from_numpy(images)[..., None], torch.from_numpy(labels).long())


def _parse(content: bytes, what: str, dimensions: int) -> NDArray[np.uint8]:
    header = struct.Struct(f">HBB{dimensions}I")
    if len(content) < header.size:
        raise DataError(f"MNIST {what}: {len(content)} bytes are no IDX file")
    zero, kind, found, *shape = header.unpack_from(content)
    if (zero, kind, found) != (0, 8, dimensions) or len(content) != header.size + np.prod(shape):
        raise DataError(f"MNIST {what}: not an IDX file of bytes in {dimensions} dimensions, or not whole")
    return np.frombuffer(content, np.uint8, offset=header.size).reshape(shape).copy()
