"""A taught model: a scorer, the preparation of what it scores, and the record of how it was taught, in one file.

The file is safetensors with JSON in its header. Nothing in it can run code, and no size in it is believed before the
tensors that must fill it are there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from truesort import engine
from truesort.data.items import open_items
from truesort.engine import RunError, TrainedScorer
from truesort.engine.checkpoint import read_tensors, write_tensors
from truesort.teaching import preparation, scorers
from truesort.teaching.measuring import Report
from truesort.teaching.preparation import Encoded, Preparation

ROWS = 8192
"""Rows scored at a time."""
PICTURES = 256
"""Pictures scored at a time."""
LONGEST_SET = 10_000
"""Most items that attention may compare at once."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Items with their scores, in order; what could not be read, and why, beside. Rows are named by number."""

    names: list[str]
    scores: Tensor
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def __len__(self) -> int:
        """The number of readable items."""
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        """The names in order."""
        return iter(self.names)

    def best(self, number: int | None, descending: bool) -> "Ranking":
        """The first `number` by score, all for None; equal scores keep their order, and nan comes last."""
        key = torch.nan_to_num(-self.scores if descending else self.scores, nan=torch.inf)
        order = key.argsort(stable=True)[:number]
        return Ranking([self.names[place] for place in order.tolist()], self.scores[order], self.unreadable)


@dataclass(frozen=True, eq=False)
class Taught:
    """What `teach` returns and `load` gives back."""

    network: nn.Module
    preparation: Preparation
    facts: dict[str, Any]

    @torch.inference_mode()
    def score_numbers(self, values: Tensor) -> Tensor:
        """Scores of prepared items (n, ...)."""
        if self.sees_sets:
            if len(values) > LONGEST_SET:
                raise ValueError(
                    f"items are {len(values):,}; a model that compares the items of a set takes {LONGEST_SET:,}"
                )
            return self._scores(values)
        step = ROWS if values.ndim == 2 else PICTURES
        parts = [self._scores(values[start : start + step]) for start in range(0, len(values), step)]
        return torch.cat(parts) if parts else torch.zeros(0)

    def _scores(self, values: Tensor) -> Tensor:
        scores: Tensor = self.network(self.preparation.numbers(values).unsqueeze(0), None)
        return scores[0].float()

    @property
    def sees_sets(self) -> bool:
        """Does a score depend on what else is there?"""
        return str(self.facts["recipe"]["model"]) == "set"

    @property
    def report(self) -> Report:
        """What was measured on the orders held back when it was taught."""
        return Report.of(self.facts["report"])

    def score(self, items: Any, name: str | None = None) -> Ranking:
        """The items as they come, with scores; `name` is a table's column of names."""
        return self._together(self._scored(items, name))

    def sort(self, items: Any, *, descending: bool = False, top: int | None = None, name: str | None = None) -> Ranking:
        """The items, lowest score first or highest; `top` keeps the first so many, and no more in memory."""
        if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
            raise ValueError(f"top must be a whole number from 1 up, or None, got {top!r}")
        if top is None:
            return self.score(items, name).best(None, descending)
        kept = Ranking([], torch.zeros(0))
        for part in self._scored(items, name):
            kept = self._together([kept, part]).best(top, descending)
        return kept

    def _scored(self, items: Any, name: str | None) -> Iterator[Ranking]:
        source = open_items(items, name)
        encoded = (self.preparation.encode(block) for block in source.blocks(self.preparation.numeric))
        for part in [_whole(list(encoded))] if self.sees_sets else encoded:
            yield Ranking(part.names, self.score_numbers(part.values), part.unreadable)

    @staticmethod
    def _together(parts: Any) -> Ranking:
        names: list[str] = []
        scores: list[Tensor] = []
        unreadable: list[tuple[str, str]] = []
        for part in parts:
            names += part.names
            scores.append(part.scores)
            unreadable += part.unreadable
        return Ranking(names, torch.cat(scores) if scores else torch.zeros(0), unreadable)

    def save(self, path: str | Path) -> None:
        """Write one file, all of it or nothing."""
        config = getattr(self.network, "config", None)
        own = {"taught": {"preparation": preparation.to_facts(self.preparation), **self.facts}}
        own["taught"]["scorer"] = None if config is None else scorers.to_dict(config)
        write_tensors(Path(path), self.network.state_dict(), own)


def _whole(parts: list[Encoded]) -> Encoded:
    names, unreadable = (
        [name for part in parts for name in part.names],
        [bad for part in parts for bad in part.unreadable],
    )
    return Encoded(names, torch.cat([part.values for part in parts]), unreadable)


def load(path: str | Path, *, scorer: nn.Module | None = None) -> Taught | TrainedScorer:
    """A taught model, or the best scorer of a training run; a scorer of your own is given, freshly built."""
    path = Path(path)
    tensors, facts = ({}, {}) if path.is_dir() else read_tensors(path)
    if "taught" not in facts:
        return engine.load(path, scorer=scorer)
    taught = facts["taught"]
    try:
        prepared = preparation.from_facts(taught.pop("preparation"))
        description = taught.pop("scorer")
        if scorer is None and description is None:
            raise RunError(f"{path} holds a scorer of your own; give it, freshly built: load(path, scorer=MyScorer())")
        network = scorer or _filled(description, tensors)
        network.load_state_dict(tensors, assign=True)
        model = Taught(network.eval().requires_grad_(False), prepared, taught)
        _ = model.sees_sets, model.report
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise RunError(f"{path} is damaged or not a model this version knows: {error}") from error
    return model


def _filled(description: dict[str, Any], tensors: dict[str, Tensor]) -> nn.Module:
    """The scorer without memory of its own: its weights are the tensors of the file."""
    with torch.device("meta"):
        network: nn.Module = scorers.from_dict(description).build()
    wanted = {name: tensor.shape for name, tensor in network.state_dict().items()}
    if wanted != {name: tensor.shape for name, tensor in tensors.items()}:
        raise ValueError("its tensors are not those of its scorer")
    return network
