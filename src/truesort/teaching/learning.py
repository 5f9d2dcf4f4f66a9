"""How a scorer learns from right orders: random lists, a loss that sorts, and the mean of the last weights.

Lists may have two items or thousands. A step takes a few lists and at most `WIDTH` random items of each, which is a
right order too, so memory is bounded whatever the lists are. Equal grades are one place that several items share: the
losses ask who is in it and never who is first.
"""

import math
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from truesort import functional, losses
from truesort.engine.progress import Show
from truesort.ops import Network, hard

Loss = Literal["permutation", "pairwise", "ndcg", "spearman"]
WIDTH = 32
"""Most items of a list in one step."""
ITEMS = 256
"""Items of one step, about."""
MEMORY = 0.99
"""Weights are averaged over about the last hundred steps."""
SOFT = Network(error_free=False)
EXACT = Network()


@dataclass(frozen=True)
class Recipe:
    """How to learn."""

    loss: Loss = "permutation"
    """What is made small: permutation (exact and soft sorting), pairwise (logistic), ndcg or spearman."""
    model: Literal["item", "set"] = "item"
    """Score each item by itself, or beside the other items of its list."""
    steps: int = 1500
    """Updates of the scorer."""
    seconds: float = 120.0
    """Most time for them; a slow machine then takes fewer steps."""
    learning_rate: float = 2e-3
    """Highest learning rate of AdamW."""
    augment: bool = True
    """Turn, shift and stretch pictures a little, so that few go a long way."""
    holdout: float = 0.2
    """Share of the orders held back to measure on; the model that is kept then learns from all. 0 measures nothing."""
    by: Literal["list", "item"] = "list"
    """Hold back whole lists, or items, so that the measure is on items never seen."""
    seed: int = 0
    """Seed of first weights, draws and held-out orders."""

    def __post_init__(self) -> None:
        for name in CHOICES:
            if getattr(self, name) not in (choices := CHOICES[name]):
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        if not 0 <= self.holdout < 1:
            raise ValueError(f"holdout must be at least 0 and below 1, got {self.holdout!r}")
        for name in ("steps", "seconds", "learning_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, got {getattr(self, name)!r}")


CHOICES = {"loss": get_args(Loss), "model": ("item", "set"), "by": ("list", "item")}


@dataclass(frozen=True, eq=False)
class Lists:
    """Right orders as numbers: list l has the items and grades from starts[l] to starts[l + 1]; higher grades later."""

    items: NDArray[np.int64]
    grades: NDArray[np.float32]
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        """The number of lists."""
        return len(self.starts) - 1

    def __getitem__(self, chosen: NDArray[np.int64]) -> "Lists":
        """Some of the lists."""
        entries = np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in chosen] or [chosen[:0]])
        return Lists(self.items[entries], self.grades[entries], starts_of(np.diff(self.starts)[chosen]))

    def only(self, wanted: NDArray[np.bool_]) -> "Lists":
        """The lists cut to the entries wanted; what then has nothing to compare is left out."""
        entries = wanted.nonzero()[0]
        of_list = np.searchsorted(self.starts, entries, side="right") - 1
        sizes = np.bincount(of_list, minlength=len(self))
        cut = Lists(self.items[entries], self.grades[entries], starts_of(sizes))
        return cut[cut.comparable().nonzero()[0]]

    def comparable(self) -> NDArray[np.bool_]:
        """For each list, whether it has two items of different grades."""
        if not len(self.grades):
            return np.zeros(len(self), dtype=bool)
        first = np.repeat(self.grades[np.minimum(self.starts[:-1], len(self.grades) - 1)], np.diff(self.starts))
        differs = np.concatenate([[0], np.cumsum(self.grades != first)])
        return differs[self.starts[1:]] > differs[self.starts[:-1]]


def starts_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each list starts, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


class Sampler:
    """Random lists, padded to one width: `(items, grades, mask)`, each (lists, width)."""

    def __init__(self, lists: Lists, number: int, generator: torch.Generator) -> None:
        self._items, self._grades = torch.from_numpy(lists.items), torch.from_numpy(lists.grades)
        self._starts = torch.from_numpy(lists.starts)
        self._number, self._generator = number, generator

    def __call__(self) -> tuple[Tensor, Tensor, Tensor]:
        """The lists of one step, and of each a random part in random order."""
        chosen = torch.randint(len(self._starts) - 1, (self._number,), generator=self._generator)
        start, size = self._starts[chosen, None], (self._starts[chosen + 1] - self._starts[chosen])[:, None]
        longest = int(size.max())
        chance = torch.rand(self._number, longest, generator=self._generator)
        chance = chance.masked_fill(torch.arange(longest) >= size, 2)
        place = chance.topk(min(WIDTH, longest), largest=False).indices
        mask = place < size
        entry = start + place * mask
        return self._items[entry], self._grades[entry], mask


Numbers = Callable[[Tensor], Tensor]


def learn(scorer: nn.Module, values: Tensor, numbers: Numbers, lists: Lists, recipe: Recipe, show: Show) -> nn.Module:
    """Teach the scorer, and return the mean of its last weights; `numbers` turns items as stored into what it reads."""
    generator = torch.Generator().manual_seed(recipe.seed)
    size = min(WIDTH, float(np.diff(lists.starts).mean()))
    sample = Sampler(lists, max(4, round(ITEMS / size)), generator)
    loss_of = list_loss(recipe.loss)
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=recipe.learning_rate, weight_decay=0.05)
    mean = deepcopy(scorer).eval().requires_grad_(False)
    start, done, step = time.monotonic(), 0.0, 0
    with show:
        while done < 1:
            items, grades, mask = sample()
            chosen = numbers(values[items.flatten()])
            if recipe.augment and chosen.ndim == 4:
                chosen = augmented(chosen, generator)
            scores = scorer(chosen.reshape(*items.shape, *chosen.shape[1:]), mask)
            loss = loss_of(scores, grades, mask)
            optimizer.param_groups[0]["lr"] = recipe.learning_rate * min(1, 20 * done + 0.01, 1.05 - done)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
            _average(mean, scorer, min(MEMORY, step / (step + 10)))
            done = max(step / recipe.steps, (time.monotonic() - start) / recipe.seconds)
            show.steps(step, recipe.steps, loss.item())
    return mean


def _average(mean: nn.Module, scorer: nn.Module, memory: float) -> None:
    with torch.no_grad():
        for kept, new in zip(mean.state_dict().values(), scorer.state_dict().values(), strict=True):
            if kept.is_floating_point():
                kept.lerp_(new, 1 - memory)
            else:
                kept.copy_(new)


def augmented(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Pictures (n, C, H, W), each turned, stretched, slanted and shifted at random by up to a fifth or so."""

    def around(centre: float, reach: float, *more: int) -> Tensor:
        return centre + reach * (2 * torch.rand(len(pictures), *more, generator=generator) - 1)

    angle, slant, scale, shift = around(0, 0.25), around(0, 0.25), around(1, 0.2, 2), around(0, 0.15, 2)
    first = torch.stack([angle.cos() * scale[:, 0], slant - angle.sin() * scale[:, 1], shift[:, 0]], -1)
    second = torch.stack([angle.sin() * scale[:, 0], angle.cos() * scale[:, 1], shift[:, 1]], -1)
    grid = F.affine_grid(torch.stack([first, second], 1), list(pictures.shape), align_corners=False)
    return F.grid_sample(pictures, grid, padding_mode="border", align_corners=False)


def list_loss(name: Loss) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The loss called `name`, of scores, grades and mask, each (lists, width)."""
    return {"permutation": _permutation, "pairwise": _pairwise, "ndcg": _ndcg, "spearman": _spearman}[name]


def _permutation(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy of the soft P, and the squared distance of ranks, equals sharing theirs, in the exact order."""
    soft = tied_cross_entropy(functional.permutation(scores, SOFT, mask=mask), grades, mask)
    ranks = hard.average_ranks(grades, mask, scores.dtype).unsqueeze(-1) / 4
    return soft + 0.1 * losses.reorder_loss(scores, ranks, grades, EXACT, mask=mask)


def tied_cross_entropy(P: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    """Cross-entropy of P in which positions of equal grades are one place, so that an item is right anywhere in it."""
    order = hard.order(grades, mask)
    ordered = grades.gather(-1, order)
    same = (ordered.unsqueeze(-1) == ordered.unsqueeze(-2)).to(P.dtype)
    real = hard.real_positions(mask, grades)
    same = same * (real.unsqueeze(-1) & real.unsqueeze(-2))
    target = (grades.unsqueeze(-1) == ordered.unsqueeze(-2)).to(P.dtype)
    return losses.permutation_loss(P @ same, target, mask=mask)


def _pairwise(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    return losses.pairwise_logistic_loss(scores, grades, mask=mask)


def _ndcg(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    return losses.ndcg_loss(scores, gains(grades, mask), SOFT, mask=mask)


def _spearman(scores: Tensor, grades: Tensor, mask: Tensor) -> Tensor:
    return losses.spearman_loss(scores, grades, EXACT, mask=mask)


def gains(grades: Tensor, mask: Tensor) -> Tensor:
    """What DCG adds up: grades counted from the lowest of the list."""
    lowest = grades.masked_fill(~mask, torch.inf).amin(-1, keepdim=True)
    return (grades - lowest).masked_fill(~mask, 0)
