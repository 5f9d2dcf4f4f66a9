"""Numbers of several digits, composed on the device from pictures of single digits.

MNIST and the embedded digits differ only in where their pictures come from, so what draws and joins them is here.
"""

import re
from typing import ClassVar

import torch
from torch import Tensor

from truesort.data._base import Batch, Dataset, Pictures, Split

MOST_DIGITS = 18  # a number of 19 digits may not fit into int64


class Numbers(Dataset):
    """Pictures of `digits`-digit numbers: any digit pictures of a split side by side, leading zeros included."""

    family: ClassVar[str] = "digits"

    def __init__(self, name: str, pictures: dict[Split, Pictures], digits: int) -> None:
        if not 1 <= digits <= MOST_DIGITS:
            raise ValueError(f"digits must be between 1 and {MOST_DIGITS}, got {digits}")
        height, width, channels = pictures["train"].images.shape[1:]
        self.name = name
        self.item_shape = (channels, height, digits * width)
        self.digits = digits
        self._pictures = pictures
        powers = [10**place for place in reversed(range(digits))]
        self._powers = torch.tensor(powers, device=self.device)

    @property
    def device(self) -> torch.device:
        """Where the pictures live."""
        return self._pictures["train"].images.device

    def size(self, split: Split) -> int:
        """The number of single-digit pictures of a split."""
        return len(self._pictures[split].images)

    def choose(self, split: Split, batch_size: int, length: int, generator: torch.Generator) -> Tensor:
        """Which picture stands at which place of which number: (B, n, digits)."""
        self.check(split, batch_size, length)
        shape = (batch_size, length, self.digits)
        return torch.randint(self.size(split), shape, generator=generator, device=generator.device)

    def take(self, split: Split, choice: Tensor) -> Batch:
        """The numbers of a choice, their digits side by side."""
        pictures = self._pictures[split]
        side_by_side = pictures.images[choice].transpose(2, 3).flatten(3, 4)
        return Batch(side_by_side.movedim(-1, 2), (pictures.labels[choice] * self._powers).sum(-1))


def digits_in_name(name: str, prefix: str) -> int:
    """The number behind `prefix` in a dataset's name, as 4 in mnist4."""
    match = re.fullmatch(rf"{prefix}([1-9]\d?)", name)
    if match is None or int(match[1]) > MOST_DIGITS:
        raise ValueError(f"name must be {prefix}1 to {prefix}{MOST_DIGITS}, got {name!r}")
    return int(match[1])
