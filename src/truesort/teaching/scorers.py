"""Which network scores which things.

Pictures get normalised convolutions, halved until they are 4 pixels wide or less: without normalisation a few hundred
comparisons teach them far less. Rows get fully-connected layers. Where the best order depends on what else is in the
list, as within the results of one query, attention over the list can be added.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from truesort import models
from truesort.models import MLP, Convolutions, Transformer
from truesort.teaching.preparation import Pictures, Preparation

Kind = Literal["item", "set"]


WIDTHS = {1: (64,), 2: (32, 64), 3: (24, 48, 64), 4: (16, 32, 48, 64), 5: (16, 24, 32, 48, 64)}
"""Channels of so many convolutions: fewer where there are more pixels."""


@dataclass(frozen=True)
class PictureNet:
    """A scorer of pictures (C, H, W) with batch normalisation; `dropout` acts in training only."""

    shape: tuple[int, int, int]
    hidden: int = 128
    dropout: float = 0.2

    def build(self) -> "PictureScorer":
        """A freshly initialised scorer."""
        return PictureScorer(self)


class PictureScorer(nn.Module):
    """Scores (B, n) of pictures (B, n, C, H, W); a picture's score depends on that picture alone."""

    def __init__(self, config: PictureNet) -> None:
        super().__init__()
        self.config = config
        before, *sides = config.shape
        halvings = min(len(WIDTHS) - 1, max(0, (min(sides) - 1).bit_length() - 2))
        layers: list[nn.Module] = []
        for place, width in enumerate(WIDTHS[halvings + 1]):
            layers.append(nn.Conv2d(before, width, 3, padding=1, bias=False))
            layers += [nn.MaxPool2d(2)] * (place < halvings) + [nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        self.features = nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        inputs = before * (sides[0] >> halvings) * (sides[1] >> halvings)
        keep = nn.Dropout(config.dropout)
        self.head = nn.Sequential(keep, nn.Linear(inputs, config.hidden), nn.ReLU(), keep, nn.Linear(config.hidden, 1))

    def forward(self, items: Tensor, mask: Tensor | None = None) -> Tensor:
        """One score a picture; `mask` changes nothing here, since no picture sees another."""
        x: Tensor = self.features(items.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        scores: Tensor = self.head(x.flatten(1))
        return scores.view(items.shape[:2])


@dataclass(frozen=True)
class SetTransformer:
    """A scorer of vectors that sees the whole list."""

    inputs: int
    width: int = 64
    layers: int = 2
    heads: int = 4
    dropout: float = 0.1

    def build(self) -> "SetScorer":
        """A freshly initialised scorer."""
        return SetScorer(self)


class SetScorer(nn.Module):
    """Scores (B, n) of vectors (B, n, inputs), each seen beside the real items of its own list."""

    def __init__(self, config: SetTransformer) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.embed = nn.Sequential(nn.Linear(config.inputs, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, config.heads, 2 * width, config.dropout, batch_first=True, norm_first=True
            )
            for _ in range(config.layers)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, items: Tensor, mask: Tensor | None = None) -> Tensor:
        """One score an item; what is masked changes no real score."""
        x = self.embed(items)
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=None if mask is None else ~mask)
        scores: Tensor = self.head(x)
        return scores.squeeze(-1)


Config = models.Config | PictureNet | SetTransformer


def choose(kind: Kind, preparation: Preparation) -> Config:
    """The scorer for prepared things: of each item by itself, or of the set it stands in."""
    if kind not in ("item", "set"):
        raise ValueError(f"model must be 'item' or 'set', got {kind!r}")
    if not isinstance(preparation, Pictures):
        inputs = preparation.width
        return MLP(inputs, (128, 128), dropout=0.1) if kind == "item" else SetTransformer(inputs)
    if kind == "item":
        return PictureNet(preparation.shape)
    convolutions = Convolutions(_channels(min(preparation.shape[1:])), kernel=3)
    return Transformer(preparation.shape, convolutions, width=32, layers=2, heads=4, feedforward=128)


def _channels(side: int) -> tuple[int, ...]:
    halvings = max(1, (side - 1).bit_length() - 1)
    return tuple(min(64, 16 << place) for place in range(halvings))[-5:] if side > 8 else (32, 64)


def to_dict(config: Any) -> dict[str, Any]:
    """A config as JSON."""
    match config:
        case PictureNet():
            return {"kind": "pictures", **asdict(config)}
        case SetTransformer():
            return {"kind": "set", **asdict(config)}
    return models.to_dict(config)


def from_dict(stored: dict[str, Any]) -> Config:
    """The config that `to_dict` stored."""
    match stored:
        case {"kind": "pictures", "shape": [channels, height, width], **values}:
            return PictureNet((channels, height, width), **values)
        case {"kind": "set", **values}:
            return SetTransformer(**values)
    return models.from_dict(stored)
