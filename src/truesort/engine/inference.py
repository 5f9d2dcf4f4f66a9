"""A trained scorer given back for use, from one file of tensors and JSON: nothing in it can run code."""

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
    network = scorer or _build(file, facts)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise RunError(f"{file} does not fit the scorer: {error}") from error
    return TrainedScorer(network.eval(), float(facts["mean"]), float(facts["std"]), facts)


def _build(file: Path, facts: Facts) -> nn.Module:
    description: Any = facts.get("scorer")
    if description is None:
        raise RunError(f"{file} holds a scorer of your own; give it, freshly built: load(path, scorer=MyScorer())")
    try:
        network: nn.Module = models.from_dict(description).build()
    except (TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{file} describes a scorer this version cannot build: {error}") from error
    return network


def _text(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))
