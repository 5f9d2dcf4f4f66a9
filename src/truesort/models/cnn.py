"""The scorer of earlier work: convolutions and two fully-connected layers, every item scored on its own."""

from dataclasses import dataclass

from torch import Tensor, nn

from truesort.models._convolutions import Convolutions, ImageFeatures
from truesort.models._score import Score


@dataclass(frozen=True)
class CNN:
    """A convolutional scorer of items of shape (C, H, W)."""

    item_shape: tuple[int, int, int]
    convolutions: Convolutions
    hidden: int = 64

    def build(self) -> "CNNScorer":
        """A freshly initialised scorer."""
        return CNNScorer(self)


class CNNScorer(nn.Module):
    """Scores (B, n) of items (B, n, C, H, W); an item's score depends on that item alone."""

    def __init__(self, config: CNN) -> None:
        super().__init__()
        self.config = config
        self.features = ImageFeatures(config.convolutions, config.item_shape)
        inputs = config.convolutions.outputs(config.item_shape)
        self.head = nn.Sequential(nn.Linear(inputs, config.hidden), nn.ReLU(), Score(config.hidden))

    def forward(self, items: Tensor, mask: Tensor | None = None) -> Tensor:
        """One score an item; `mask` changes nothing here, since no item sees another."""
        scores: Tensor = self.head(self.features(items))
        return scores
