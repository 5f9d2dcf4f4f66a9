"""Pictures cut into k×k fragments, to be put back in order.

The value of a fragment is its place, row by row. Fragments of one picture may look exactly alike (blank corners of an
MNIST digit), and then no scorer can tell them apart: `reassembled` says whether an order gives the right picture.
"""

from typing import ClassVar

import torch
from torch import Tensor

from truesort.data._base import Batch, Dataset, Pictures, Split


class Fragments(Dataset):
    """The `grid`×`grid` fragments of one picture a sequence, shuffled; what does not divide evenly is cut away."""

    family: ClassVar[str] = "fragments"

    def __init__(self, name: str, pictures: dict[Split, Pictures], grid: int, device: torch.device | str) -> None:
        side, channels = pictures["train"].images.shape[2:]
        if not 1 <= grid <= side:
            raise ValueError(f"grid must be between 1 and {side} for {name}, got {grid}")
        self.name = name
        self.grid = grid
        self.length = grid * grid
        self.item_shape = (channels, side // grid, side // grid)
        self._images = {split: _trimmed(part.images, grid).to(device) for split, part in pictures.items()}

    @property
    def device(self) -> torch.device:
        """Where the pictures live."""
        return self._images["train"].device

    def size(self, split: Split) -> int:
        """The number of whole pictures of a split."""
        return len(self._images[split])

    def choose(self, split: Split, batch_size: int, length: int, generator: torch.Generator) -> Tensor:
        """Which picture, then the places of its fragments in the order shown: (B, 1 + k²).

        Training draws pictures at random; validation and test take them in turn, so that each counts alike.
        """
        self.check(split, batch_size, length)
        device = generator.device
        if split == "train":
            index = torch.randint(self.size(split), (batch_size, 1), generator=generator, device=device)
        else:
            index = torch.arange(batch_size, device=device)[:, None] % self.size(split)
        order = torch.rand(batch_size, length, generator=generator, device=device).argsort(dim=-1)
        return torch.cat([index, order], dim=-1)

    def take(self, split: Split, choice: Tensor) -> Batch:
        """The fragments of a choice; their values are their places."""
        index, order = choice[:, 0], choice[:, 1:]
        channels, height, width = self.item_shape
        grid = self._images[split][index].view(-1, self.grid, height, self.grid, width, channels)
        fragments = grid.transpose(2, 3).flatten(1, 2)
        shown = fragments[torch.arange(len(choice), device=choice.device)[:, None], order]
        return Batch(shown.movedim(-1, 2), order)


def reassembled(batch: Batch, scores: Tensor) -> Tensor:
    """Whether sorting the items by score gives, pixel for pixel, what sorting them by value gives: bool (B,)."""
    guess = scores.argsort(dim=-1, stable=True)
    truth = batch.values.argsort(dim=-1, stable=True)
    rows = torch.arange(len(guess), device=guess.device)[:, None]
    return (batch.items[rows, guess] == batch.items[rows, truth]).flatten(1).all(dim=-1)


def _trimmed(images: Tensor, grid: int) -> Tensor:
    """The middle part whose sides are multiples of `grid`; of an odd excess the smaller half is cut in front."""
    side = images.shape[1] // grid * grid
    start = (images.shape[1] - side) // 2
    return images[:, start : start + side, start : start + side].contiguous()
