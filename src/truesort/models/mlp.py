"""A scorer of rows of a table or of embeddings: fully-connected layers over one vector an item."""

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from truesort.models._convolutions import MOST_LAYERS
from truesort.models._score import Score


@dataclass(frozen=True)
class MLP:
    """A scorer of vectors with `inputs` entries; `dropout` acts in training only."""

    inputs: int
    hidden: tuple[int, ...] = (128, 128)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if len(self.hidden) > MOST_LAYERS:
            raise ValueError(f"hidden must have at most {MOST_LAYERS} layers, got {len(self.hidden)}")
        if self.inputs < 1 or any(width < 1 for width in self.hidden):
            raise ValueError(f"inputs and hidden must be positive, got {self.inputs} and {self.hidden}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}")

    def build(self) -> "MLPScorer":
        """A freshly initialised scorer."""
        return MLPScorer(self)


class MLPScorer(nn.Module):
    """Scores (B, n) of vectors (B, n, `inputs`); an item's score depends on that item alone."""

    def __init__(self, config: MLP) -> None:
        super().__init__()
        self.config = config
        layers: list[nn.Module] = []
        widths = (config.inputs, *config.hidden)
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(config.dropout)]
        self.layers = nn.Sequential(*layers, Score(widths[-1]))

    def forward(self, items: Tensor, mask: Tensor | None = None) -> Tensor:
        """One score an item; `mask` changes nothing here, since no item sees another."""
        scores: Tensor = self.layers(items)
        return scores
