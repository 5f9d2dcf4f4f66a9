"""The datasets by the names that commands and configs use."""

from pathlib import Path

import torch

from truesort.data._base import Dataset
from truesort.data._numbers import digits_in_name
from truesort.data.digits import EmbeddedDigits


def names() -> tuple[str, ...]:
    """The names `open` knows; `<k>` stands for any number of digits."""
    return ("digits<k>",)


def open(name: str, folder: str | Path | None = None, device: torch.device | str = "cpu") -> Dataset:
    """The dataset called `name`, on `device`, its files taken from `folder` or downloaded."""
    if name.startswith("digits"):
        return EmbeddedDigits(digits_in_name(name, "digits"), device)
    raise ValueError(f"unknown dataset {name!r}; choices: {', '.join(names())}")
