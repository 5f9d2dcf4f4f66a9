"""The datasets by the names that commands and configs use."""

import re
from pathlib import Path

import torch

from truesort.data._base import Dataset
from truesort.data._numbers import digits_in_name
from truesort.data.cifar import cifar_pictures
from truesort.data.digits import EmbeddedDigits
from truesort.data.fragments import Fragments
from truesort.data.mnist import MNISTNumbers, mnist_pictures
from truesort.data.svhn import SVHN

_PICTURES = {"mnist": mnist_pictures, "cifar10": cifar_pictures}


def names() -> tuple[str, ...]:
    """The names `open` knows; `<d>` stands for a number of digits, `<k>` for the fragments along one side."""
    return ("digits<d>", "mnist<d>", "svhn", "svhn_extra", *(f"{source}_<k>x<k>" for source in _PICTURES))


def open(name: str, folder: str | Path | None = None, device: torch.device | str = "cpu") -> Dataset:
    """The dataset called `name`, on `device`.

    Its files come from `folder` or the one in the environment variable TRUESORT_DATA (from its subfolders mnist,
    svhn, cifar10, or itself); if neither is named, they are downloaded once into the user's cache folder.
    """
    if name in ("svhn", "svhn_extra"):
        return SVHN(folder, device, extra=name == "svhn_extra")
    if match := re.fullmatch(rf"({'|'.join(_PICTURES)})_([1-9]\d?)x\2", name):
        return Fragments(name, _PICTURES[match[1]](folder), int(match[2]), device)
    if re.fullmatch(r"mnist\d+", name):
        return MNISTNumbers(digits_in_name(name, "mnist"), folder, device)
    if re.fullmatch(r"digits\d+", name):
        return EmbeddedDigits(digits_in_name(name, "digits"), device)
    raise ValueError(f"unknown dataset {name!r}; choices: {', '.join(names())}")
