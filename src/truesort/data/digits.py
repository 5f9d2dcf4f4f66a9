"""The handwritten digits that come with scikit-learn: 1,797 pictures of 8×8, no download.

They are few and small enough that a scorer learns from them in seconds on a CPU, so the demo and the tests use them.
"""

from typing import ClassVar

import torch

from truesort.data._base import Pictures, Split
from truesort.data._numbers import Numbers

SPLIT_SIZES: dict[Split, int] = {"train": 1297, "validation": 200, "test": 300}


class EmbeddedDigits(Numbers):
    """Numbers of `digits` embedded digits; the pictures are dealt to the splits once and for all."""

    family: ClassVar[str] = "small"

    def __init__(self, digits: int = 4, device: torch.device | str = "cpu") -> None:
        pictures = {split: part.to(device) for split, part in _pictures().items()}
        super().__init__(f"digits{digits}", pictures, digits)


def _pictures() -> dict[Split, Pictures]:
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = torch.from_numpy(raw.images * (255 / 16)).round().to(torch.uint8)[..., None]
    labels = torch.from_numpy(raw.target).long()
    pictures = Pictures(images, labels)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    parts = torch.split(order, list(SPLIT_SIZES.values()))
    return {split: pictures[part] for split, part in zip(SPLIT_SIZES, parts, strict=True)}
