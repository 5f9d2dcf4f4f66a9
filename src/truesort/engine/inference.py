"""A trained scorer given back for use, from one file of tensors and JSON: nothing in it can run code."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from truesort import models
from truesort.engine.checkpoint import read_tensors
from truesort.engine.learner import score
from truesort.engine.record import Facts, RunError
from truesort.ops import hard


@dataclass(frozen=True, eq=False)
class TrainedScorer:
    """A scorer with the way its items are to be read; `facts` says how it was trained."""

    network: nn.Module
    mean: float
    std: float
    facts: Facts

    @torch.no_grad()
    def score(self, items: Tensor) -> Tensor:
        """Scores of a sequence (n, ...) or of several (B, n, ...); items are bytes, or floats already normalised."""
        wanted = tuple(self.facts["item_shape"])
        extra = items.ndim - len(wanted)
        if extra not in (1, 2) or tuple(items.shape[extra:]) != wanted:
            raise ValueError(
                f"items must have shape (n, {_text(wanted)}) or (B, n, {_text(wanted)}), got {tuple(items.shape)}"
            )
        device = next(self.network.parameters()).device
        ready = self._read(items.to(device))
        scores = score(self.network, ready if extra == 2 else ready.unsqueeze(0), torch.float32)
        return scores if extra == 2 else scores.squeeze(0)

    def sort(self, items: Tensor, descending: bool = False) -> Tensor:
        """The items of each sequence, lowest score first."""
        order = self.order(items, descending).to(items.device)
        return items.take_along_dim(order.reshape(*order.shape, *[1] * (items.ndim - order.ndim)), order.ndim - 1)

    def order(self, items: Tensor, descending: bool = False) -> Tensor:
        """The indices that sort the items of each sequence; equal scores keep their order."""
        return hard.order(self.score(items), None, descending=descending)

    def to(self, device: torch.device | str) -> "TrainedScorer":
        """The same on another device."""
        return TrainedScorer(self.network.to(device), self.mean, self.std, self.facts)

    def _read(self, items: Tensor) -> Tensor:
        if items.is_floating_point():
            return items.float()
        if items.dtype != torch.uint8:
            raise TypeError(f"items must be bytes (torch.uint8) or floats, got {items.dtype}")
        return items.float().mul(1 / (255 * self.std)).sub(self.mean / self.std)


def load(path: str | Path, *, scorer: nn.Module | None = None) -> TrainedScorer:
    """The best scorer of a run: `path` is the run's folder or its model.safetensors.

    A scorer that is not one of truesort's own must be given, freshly built, as `scorer`.
    """
    path = Path(path)
    file = path / "model.safetensors" if path.is_dir() else path
    tensors, facts = read_tensors(file)
    mean, std, item_shape = _reading(file, facts)
    network = scorer or _unfilled(file, facts, item_shape, tensors)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise RunError(f"{file} does not fit the scorer: {error}") from error
    return TrainedScorer(network.eval(), mean, std, facts)


def _reading(file: Path, facts: Facts) -> tuple[float, float, tuple[int, ...]]:
    """How items are to be read: mean, deviation and shape."""
    try:
        mean, std = float(facts["mean"]), float(facts["std"])
        shape = tuple(int(side) for side in facts["item_shape"])
        sound = math.isfinite(mean) and 0 < std < math.inf and min(shape) > 0 and isinstance(facts["config"], dict)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{file} is not the scorer of a training run: {type(error).__name__} {error}") from error
    if not sound:
        raise RunError(f"{file} is not the scorer of a training run: mean {mean}, std {std}, items of shape {shape}")
    return mean, std, shape


def _unfilled(file: Path, facts: Facts, item_shape: tuple[int, ...], tensors: dict[str, Tensor]) -> nn.Module:
    """The scorer that a file describes; takes memory only once the file's tensors are seen to fill it."""
    description: Any = facts.get("scorer")
    if description is None:
        raise RunError(f"{file} holds a scorer of your own; give it, freshly built: load(path, scorer=MyScorer())")
    try:
        config = models.from_dict(description)
        with torch.device("meta"):
            network: nn.Module = config.build()
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise RunError(f"{file} describes a scorer this version cannot build: {error}") from error
    wanted = {name: tensor.shape for name, tensor in network.state_dict().items()}
    if wanted != {name: tensor.shape for name, tensor in tensors.items()} or _input_shape(config) != item_shape:
        raise RunError(f"{file} does not hold the tensors of the scorer it describes")
    return network.to_empty(device="cpu")


def _input_shape(config: models.Config) -> tuple[int, ...]:
    return (config.inputs,) if isinstance(config, models.MLP) else config.item_shape


def _text(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
