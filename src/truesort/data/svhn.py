"""House numbers from street pictures (SVHN, Format 1: whole numbers with the boxes of their digits).

Every number is cut out by the union of its digit boxes, widened by 30 % of its width and height in total, clipped to
the picture and resized to 64×64. Training takes a random 54×54 part of that, evaluation the central one; bytes become
−1 to 1, all as in the published code. From the official archives this takes minutes once, so the result is cached.
"""

import io
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from truesort.data._base import Batch, Dataset, Pictures, Split
from truesort.data._digit_boxes import Box, read_boxes
from truesort.data._files import Arrays, DataError, Remote, Shelf, cache_folder, cached

SIDE, CROP = 64, 54
VALIDATION = 3_000
WIDENED = 0.30

_SITE = "http://ufldl.stanford.edu/housenumbers/"
ARCHIVES = {
    "train": Remote("train.tar.gz", f"{_SITE}train.tar.gz", size=404_141_560),
    "test": Remote("test.tar.gz", f"{_SITE}test.tar.gz", size=276_555_967),
    "extra": Remote("extra.tar.gz", f"{_SITE}extra.tar.gz", size=1_955_489_752),
}


class SVHN(Dataset):
    """House numbers of one to six digits; with `extra`, training takes the 202,353 easier numbers as well."""

    family: ClassVar[str] = "svhn"
    mean: ClassVar[float] = 0.5
    std: ClassVar[float] = 0.5
    item_shape = (3, CROP, CROP)

    def __init__(
        self, folder: str | Path | None = None, device: torch.device | str = "cpu", extra: bool = False
    ) -> None:
        self.name = "svhn_extra" if extra else "svhn"
        pictures = svhn_pictures(folder, extra)
        self._pictures = {split: part.to(device) for split, part in pictures.items()}

    @property
    def device(self) -> torch.device:
        """Where the pictures live."""
        return self._pictures["train"].images.device

    def size(self, split: Split) -> int:
        """The number of house numbers of a split."""
        return len(self._pictures[split].images)

    def choose(self, split: Split, batch_size: int, length: int, generator: torch.Generator) -> Tensor:
        """Which number, and where its part begins: (B, n, 3) of index, row and column."""
        self.check(split, batch_size, length)
        shape, device = (batch_size, length, 1), generator.device
        index = torch.randint(self.size(split), shape, generator=generator, device=device)
        if split == "train":
            corner = torch.randint(SIDE - CROP + 1, (*shape[:2], 2), generator=generator, device=device)
        else:
            corner = torch.full((*shape[:2], 2), (SIDE - CROP) // 2, device=device)
        return torch.cat([index, corner], dim=-1)

    def take(self, split: Split, choice: Tensor) -> Batch:
        """The parts of a choice."""
        index, top, left = choice[..., None].unbind(2)
        inside = torch.arange(CROP, device=choice.device)
        rows, columns = (top + inside)[..., :, None], (left + inside)[..., None, :]
        pictures = self._pictures[split]
        parts = pictures.images[index[..., None], rows, columns]
        return Batch(parts.movedim(-1, 2), pictures.labels[index[..., 0]])


def svhn_pictures(folder: str | Path | None = None, extra: bool = False) -> dict[Split, Pictures]:
    """The numbers of the three splits, 64×64×3; validation is dealt from the training part once and for all."""
    parts = ["train", "test", "extra"] if extra else ["train", "test"]
    shelf = Shelf(folder, ["svhn"], [ARCHIVES[part] for part in parts])
    learn, test = _load(shelf, "train"), _load(shelf, "test")
    if len(learn.labels) <= VALIDATION:
        raise DataError(f"SVHN train has only {len(learn.labels)} numbers; {VALIDATION} of them are for validation")
    order = torch.randperm(len(learn.labels), generator=torch.Generator().manual_seed(0))
    train, validation = learn[order[VALIDATION:]], learn[order[:VALIDATION]]
    if extra:
        more = _load(shelf, "extra")
        train = Pictures(torch.cat([train.images, more.images]), torch.cat([train.labels, more.labels]))
    return {"train": train, "validation": validation, "test": test}


def _load(shelf: Shelf, part: str) -> Pictures:
    packed = shelf.find(f"svhn64_{part}.npz")
    if packed is not None:
        arrays = read_packed(packed)
    else:
        archive = shelf.get(ARCHIVES[part])
        stat = archive.stat()
        source = f"{archive.name}, {stat.st_size} bytes, of {stat.st_mtime_ns}"
        prepared = cache_folder() / "svhn" / f"{part}_{SIDE}x{SIDE}.npz"
        arrays = cached(prepared, source, lambda: _unpack(archive, part, shelf))
    return Pictures(torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["numbers"]))


def _unpack(archive: Path, part: str, shelf: Shelf) -> Arrays:
    try:
        return read_archive(archive, part)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        problem = f"{archive} is truncated or damaged ({error})"
        raise shelf.damaged(ARCHIVES[part], problem) from error


def read_archive(archive: Path, part: str) -> Arrays:
    """The cut-out numbers of an official archive, in the order of its digitStruct.mat."""
    boxes = read_boxes(_member(archive, f"{part}/digitStruct.mat"))
    images = np.empty((len(boxes), SIDE, SIDE, 3), np.uint8)
    place = {f"{part}/{box.name}": index for index, box in enumerate(boxes)}
    with tarfile.open(archive, "r|gz") as files:
        for member in files:
            index = place.pop(member.name, None)
            content = files.extractfile(member) if index is not None else None
            if index is not None and content is not None:
                images[index] = cut_out(content.read(), boxes[index])
    if place:
        raise DataError(f"{archive} lacks {len(place)} pictures that its digitStruct.mat names, first {min(place)}")
    return {"images": images, "numbers": np.array([box.number for box in boxes], np.int64)}


def _member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive, "r|gz") as files:
        for member in files:
            content = files.extractfile(member) if member.name == name else None
            if content is not None:
                return content.read()
    raise DataError(f"{archive} has no {name}; it is not an SVHN archive of Format 1")


def cut_out(png: bytes, box: Box) -> NDArray[np.uint8]:
    """One number as 64×64×3."""
    with Image.open(io.BytesIO(png)) as opened:
        image = opened.convert("RGB")
    x_margin, y_margin = (box.right - box.left) * WIDENED / 2, (box.bottom - box.top) * WIDENED / 2
    left, right = max(box.left - x_margin, 0), min(box.right + x_margin, image.width)
    top, bottom = max(box.top - y_margin, 0), min(box.bottom + y_margin, image.height)
    if left >= right or top >= bottom:
        raise DataError(f"{box.name}: its digits lie outside the picture")
    return np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=(left, top, right, bottom)))


def read_packed(path: Path) -> Arrays:
    """The cut-out numbers of an `svhn64_*.npz`: WebP pictures one after the other, with their offsets and numbers."""
    try:
        with np.load(path, allow_pickle=False) as packed:
            pictures, offset, numbers = packed["webp"].tobytes(), packed["offset"], packed["number"]
        if len(offset) != len(numbers) + 1 or offset[-1] != len(pictures):
            raise ValueError("offsets, numbers and pictures do not fit together")
        images = np.empty((len(numbers), SIDE, SIDE, 3), np.uint8)
        for index, (start, end) in enumerate(zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True)):
            with Image.open(io.BytesIO(pictures[start:end]), formats=["WEBP"]) as image:
                images[index] = np.asarray(image.convert("RGB"))
    except (OSError, EOFError, ValueError, KeyError, zlib.error, zipfile.BadZipFile) as error:
        problem = f"{path} is truncated, damaged or not a packed SVHN ({error})"
        raise DataError(f"{problem}; get it again, or delete it to use the official archives") from error
    return {"images": images, "numbers": numbers.astype(np.int64)}
