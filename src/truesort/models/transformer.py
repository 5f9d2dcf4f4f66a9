"""The paper's permutation-equivariant scorer: an item's score may depend on the other items of its sequence.

Attention runs within each sequence, never over the batch (where the published code has it), and there is no positional
encoding; so what else is in the batch changes no score, and permuting a sequence permutes its scores. The layers are
those of torch's encoder (ReLU, normalisation after each residual, no final one), whose parameter counts the paper has.
They stay outside autocast: their vectors are so short that casting them takes longer than computing with them.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truesort.models._convolutions import MOST_LAYERS, Convolutions, ImageFeatures
from truesort.models._score import Score, full_precision
from truesort.ops.encoder import encode


@dataclass(frozen=True)
class Transformer:
    """A scorer of items of shape (C, H, W) that compares them by attention; `dropout` acts in training only."""

    item_shape: tuple[int, int, int]
    convolutions: Convolutions
    width: int = 16
    layers: int = 6
    heads: int = 8
    feedforward: int = 2048
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if not 1 <= self.layers <= MOST_LAYERS:
            raise ValueError(f"layers must be between 1 and {MOST_LAYERS}, got {self.layers}")
        if self.heads < 1 or self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got width {self.width} and {self.heads} heads")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}")

    def build(self) -> "TransformerScorer":
        """A freshly initialised scorer."""
        return TransformerScorer(self)


class TransformerScorer(nn.Module):
    """Scores (B, n) of items (B, n, C, H, W), each seen beside the real items of its own sequence."""

    def __init__(self, config: Transformer) -> None:
        super().__init__()
        self.config = config
        self.features = ImageFeatures(config.convolutions, config.item_shape)
        self.embed = nn.Linear(config.convolutions.outputs(config.item_shape), config.width)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.head = Score(config.width)

    def forward(self, items: Tensor, mask: Tensor | None = None) -> Tensor:
        """One score an item; `mask` (B, n) is True where an item is real, and what is not changes no real score."""
        x = self.embed(self.features(items))
        with full_precision(x):
            x = self.encoded(x.to(self.head.weight.dtype), mask)
        scores: Tensor = self.head(F.relu(x))
        return scores

    def encoded(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """What all layers make of (B, n, width): fused where a GPU can, else one layer after the other."""
        dropout = self.config.dropout if self.training else 0.0
        fused = encode(x, mask, list(self.layers.parameters()), self.config.heads, dropout)
        if fused is not None:
            return fused
        visible = None if mask is None else _visible(mask)
        for layer in self.layers:
            x = layer(x, visible)
        return x


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each with dropout, residual and normalisation after it."""

    def __init__(self, config: Transformer) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.heads, config.dropout)
        self.attention_norm = nn.LayerNorm(config.width)
        self.widen = nn.Linear(config.width, config.feedforward)
        self.narrow = nn.Linear(config.feedforward, config.width)
        self.feedforward_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, visible: Tensor | None) -> Tensor:
        """(B, n, width) to the same."""
        x = self.attention_norm(x + self.dropout(self.attention(x, visible)))
        wide = self.dropout(F.relu(self.widen(x)))
        out: Tensor = self.feedforward_norm(x + self.dropout(self.narrow(wide)))
        return out


class Attention(nn.Module):
    """Self-attention of several heads within each sequence."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.project = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        nn.init.zeros_(self.merge.bias)

    def forward(self, x: Tensor, visible: Tensor | None) -> Tensor:
        """(B, n, width) to the same; `visible` is None or broadcasts to (B, heads, n, n)."""
        query, key, value = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, visible, dropout)
        merged: Tensor = self.merge(mixed.transpose(1, 2).flatten(2))
        return merged


def _visible(mask: Tensor) -> Tensor:
    """Who sees whom: everyone the real items, and itself, so that no softmax is ever over nothing."""
    itself = torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
    return (mask[:, None, :] | itself)[:, None]
