"""What every dataset promises to the engine.

A dataset lives on one device as bytes and is asked for sequences in two steps: `choose` draws small integers from a
seeded generator, `take` turns them into items by gathering. Both have fixed shapes and no Python per item, so a whole
training step can be captured as one CUDA graph; and because a choice is only integers, a validation or test set drawn
on the CPU is the same on every device, and several processes can each take their part of one common choice.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


class Batch(NamedTuple):
    """Sequences of items with the values they are to be sorted by.

    `items` are bytes (B, n, C, H, W), `values` int64 (B, n); values of one sequence may be equal.
    """

    items: Tensor
    values: Tensor


@dataclass(frozen=True, eq=False)
class Pictures:
    """Labelled pictures: bytes (N, H, W, C) and int64 (N,)."""

    images: Tensor
    labels: Tensor

    def __getitem__(self, part: slice | Tensor) -> "Pictures":
        """Some of the pictures."""
        return Pictures(self.images[part], self.labels[part])

    def to(self, device: torch.device | str) -> "Pictures":
        """The same on another device."""
        return Pictures(self.images.to(device), self.labels.to(device))


def stream(split: Split, seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator on `device` for one split; streams of different splits differ whatever the seeds.

    The seed is hashed (so that neighbouring seeds are unrelated) and its two lowest bits name the split.
    """
    _check_split(split)
    digest = int.from_bytes(hashlib.sha256(f"{split}/{seed}".encode()).digest()[:4], "big")
    generator = torch.Generator(device=device)
    generator.manual_seed((digest & ~3) | SPLITS.index(split))
    return generator


class Dataset(ABC):
    """Items and values of three splits that share no image, resident on one device.

    `family` names the kind of scorer that suits the items (see `truesort.models`), `item_shape` is (C, H, W),
    `length` is the only sequence length there is, or None if any will do. Pixels become (byte / 255 − mean) / std.
    """

    family: ClassVar[str]
    mean: ClassVar[float] = 0.0
    std: ClassVar[float] = 1.0
    name: str
    item_shape: tuple[int, int, int]
    length: int | None = None

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where the images live."""

    @abstractmethod
    def size(self, split: Split) -> int:
        """The number of images of a split."""

    @abstractmethod
    def choose(self, split: Split, batch_size: int, length: int, generator: torch.Generator) -> Tensor:
        """Draw what `take` needs for `batch_size` sequences: int64 (B, ...) on the generator's device."""

    @abstractmethod
    def take(self, split: Split, choice: Tensor) -> Batch:
        """The sequences of a choice that lies on the dataset's device."""

    def batch(self, batch_size: int, length: int, generator: torch.Generator) -> Batch:
        """Training sequences drawn wholly on the device of the dataset, which must be the generator's."""
        return self.take("train", self.choose("train", batch_size, length, generator))

    def fixed(self, split: Split, sequences: int, length: int) -> "FixedSet":
        """The validation or test set of `sequences` sequences: the same in every run and on every device."""
        if split == "train":
            raise ValueError("split must be 'validation' or 'test' for a fixed set, got 'train'")
        _check_positive(sequences=sequences)
        choice = self.choose(split, sequences, length, stream(split, length))
        return FixedSet(self, split, choice.to(self.device))

    def normalise(self, items: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Bytes as the numbers a scorer reads and a loss compares."""
        return items.float().mul(1 / (255 * self.std)).sub(self.mean / self.std).to(dtype)

    def check(self, split: Split, batch_size: int, length: int) -> None:
        """Refuse a split, batch size or length that this dataset does not have."""
        _check_split(split)
        _check_positive(batch_size=batch_size, length=length)
        if self.length is not None and length != self.length:
            raise ValueError(f"length must be {self.length} for {self.name}, got {length}")


@dataclass(frozen=True, eq=False)
class FixedSet:
    """A validation or test set: which items stand in which order, made into bytes only batch by batch."""

    dataset: Dataset
    split: Split
    choice: Tensor

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.choice)

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """All sequences in order; the last batch may be smaller."""
        _check_positive(batch_size=batch_size)
        for choice in torch.split(self.choice, batch_size):
            yield self.dataset.take(self.split, choice)

    def shard(self, index: int, count: int) -> "FixedSet":
        """Every `count`-th sequence from `index` on: the part of one of several processes."""
        return FixedSet(self.dataset, self.split, self.choice[index::count])


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")


def _check_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
