"""Which network scores which things.

Pictures get convolutions, halved until they are 4 pixels wide or less; rows get fully-connected layers. Where the best
order depends on what else is in the list, as within the results of one query, attention over the list can be added.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor, nn

from truesort import models
from truesort.models import CNN, MLP, Convolutions, Transformer
from truesort.teaching.preparation import Pictures, Preparation

Kind = Literal["item", "set"]


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


Config = CNN | MLP | Transformer | SetTransformer


def choose(kind: Kind, preparation: Preparation) -> Config:
    """The scorer for prepared things: of each item by itself, or of the set it stands in."""
    if kind not in ("item", "set"):
        raise ValueError(f"model must be 'item' or 'set', got {kind!r}")
    if not isinstance(preparation, Pictures):
        inputs = preparation.width
        return MLP(inputs, (128, 128), dropout=0.1) if kind == "item" else SetTransformer(inputs)
    convolutions = Convolutions(_channels(min(preparation.shape[1:])), kernel=3)
    if kind == "item":
        return CNN(preparation.shape, convolutions)
    return Transformer(preparation.shape, convolutions, width=32, layers=2, heads=4, feedforward=128)


def _channels(side: int) -> tuple[int, ...]:
    halvings = max(1, (side - 1).bit_length() - 1)
    return tuple(min(64, 16 << place) for place in range(halvings))[-5:] if side > 8 else (32, 64)


def to_dict(config: Any) -> dict[str, Any]:
    """A config as JSON."""
    return {"kind": "set", **asdict(config)} if isinstance(config, SetTransformer) else models.to_dict(config)


def from_dict(stored: dict[str, Any]) -> Config:
    """The config that `to_dict` stored."""
    if stored.get("kind") == "set":
        return SetTransformer(**{name: value for name, value in stored.items() if name != "kind"})
    return models.from_dict(stored)
