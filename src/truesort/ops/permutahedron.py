"""Fast soft sort and rank (Blondel, Teboul, Berthet, Djolonga, ICML 2020): projections onto a permutahedron.

Ranks are the point nearest to x / strength among all mixtures of the orders of (0, …, n−1); values the one nearest to
positions / strength among all mixtures of the orders of x. Either is an isotonic regression, so sorting and pooling
replace the n×n matrix: there is no P, little memory, and below some positive strength the result is exactly hard.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ._backend import fused, module_for, transformed, unwatched
from ._method import (
    Method,
    centred,
    finest,
    real_items,
    require_choice,
    require_positive,
    without_padding,
)


class Fit(NamedTuple):
    """How an isotonic fit sums up a block: its value there is the summary of `start` less that of `target`."""

    pool: Callable[[Tensor, Tensor], Tensor]
    """From values and the block of each to the summary of its block, differentiably."""
    running: Callable[[Tensor], Tensor]
    """Running totals of ascending values; before the first stands `nothing`."""
    between: Callable[[Tensor, Tensor, Tensor], Tensor]
    """The summary of a block from the totals at its end and before its start, and its size."""
    nothing: float


@dataclass(frozen=True)
class Permutahedron(Method):
    """Projection in the sense of `regularization`: "l2" distance, or "kl" divergence between exponentials.

    For ranks `strength` is in the unit of the keys, for values in its inverse. Towards 0 both become hard; towards
    infinity ranks become their mean, and so do values ("l2") or the logarithm of their mean exponential ("kl").
    """

    strength: float = 1.0
    regularization: Literal["l2", "kl"] = "l2"

    def __post_init__(self) -> None:
        require_positive("Permutahedron", "strength", self.strength)
        require_choice("Permutahedron", "regularization", self.regularization, tuple(FITS))

    def sort(self, keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
        """The first `outputs` values in ascending order, (rows, outputs)."""
        if _fusible(keys):
            values: Tensor = _Fused.apply(keys, count, self, False)  # type: ignore[no-untyped-call]
            return values[:, :outputs]
        return self._sort(keys, count)[:, :outputs]

    def rank(self, keys: Tensor, count: Tensor | None) -> Tensor:
        """The position of every item, from 0, (rows, n); those of n real items sum to 0 + … + (n−1)."""
        if _fusible(keys):
            ranks: Tensor = _Fused.apply(keys, count, self, True)  # type: ignore[no-untyped-call]
            return ranks
        return self._rank(keys, count)

    def _sort(self, keys: Tensor, count: Tensor | None) -> Tensor:
        real = real_items(keys, count)
        ordered = keys.gather(-1, _order(keys, real))
        target = without_padding(ordered, real)
        start = (_positions(keys) / self.strength).expand_as(keys)
        fit = FITS[self.regularization]
        block = blocks(start, target, real, fit)
        values = start - fit.pool(start, block) + fit.pool(target, block)
        return values if real is None else torch.where(real, values, ordered)

    def _rank(self, keys: Tensor, count: Tensor | None) -> Tensor:
        real = real_items(keys, count)
        order = _order(keys, real)
        start = (centred(keys, real) / self.strength).gather(-1, order)
        positions = _positions(keys).expand_as(keys)
        fit = FITS[self.regularization]
        if self.regularization == "l2":
            block = blocks(start, positions, real, fit)
            ranks = start - fit.pool(start, block) + fit.pool(positions, block)
        else:  # exponentials are positive, so these mix the orders of (1, …, n)
            block = blocks(start, positions.log1p(), real, fit)
            ranks = (start - fit.pool(start, block)).exp() * _sum(positions + 1, block) - 1
        return torch.zeros_like(ranks).scatter(-1, order, ranks)


def _fusible(keys: Tensor) -> bool:
    return not transformed() and unwatched(keys) and fused(keys.device.type) != "reference"


class _Fused(torch.autograd.Function):
    """Sorting, pooling and putting back in one pass over each row; a second derivative goes the long way."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, count: Tensor | None, method: Permutahedron, ranks: bool) -> Tensor:
        settings = count, method.strength, method.regularization == "kl", ranks
        result, *parts = module_for(keys).project(keys, *settings)
        ctx.save_for_backward(keys, *parts, result)
        ctx.method, ctx.settings = method, settings
        answer: Tensor = result
        return answer

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        keys, *saved = ctx.saved_tensors
        count, *_, ranks = ctx.settings
        if torch.is_grad_enabled():
            result = (ctx.method._rank if ranks else ctx.method._sort)(keys, count)
            return torch.autograd.grad(result, keys, grad, create_graph=True)[0], None, None, None
        return module_for(keys).project_backward(keys, *ctx.settings, *saved, grad), None, None, None


@torch.no_grad()
def blocks(start: Tensor, target: Tensor, real: Tensor | None, fit: Fit) -> Tensor:
    """The block, counted from 0, of each item in the ascending fit to start − target, both ascending, (rows, n).

    Pool adjacent violators, all at once: neighbouring blocks in the wrong order have one value in the best fit, so
    every such pair is merged, until there is none. This takes a few rounds, or up to n when one block eats the others
    singly.
    """
    size = start.shape[-1]
    place = torch.arange(size, device=start.device).expand(start.shape)
    totals = [pad(fit.running(x.to(finest(x.device))), (1, 0), value=fit.nothing) for x in (start, target)]
    fresh = torch.ones_like(start, dtype=torch.bool)
    while True:
        first = torch.where(fresh, place, 0).cummax(-1).values
        upcoming = torch.where(fresh, place, size).flip(-1).cummin(-1).values.flip(-1)
        end = pad(upcoming, (0, 1), value=size)[:, 1:]
        ours, theirs = (fit.between(total.gather(-1, end), total.gather(-1, first), end - first) for total in totals)
        wrong = fresh[:, 1:] & ((ours - theirs).diff(dim=-1) < 0)
        if real is not None:
            wrong &= real[:, 1:]
        if not wrong.any():
            return fresh.cumsum(-1) - 1
        fresh[:, 1:] &= ~wrong


def _order(keys: Tensor, real: Tensor | None) -> Tensor:
    return without_padding(keys.detach(), real, torch.inf).argsort(dim=-1, stable=True)


def _positions(keys: Tensor) -> Tensor:
    return torch.arange(keys.shape[-1], dtype=keys.dtype, device=keys.device)


def _sum(values: Tensor, block: Tensor) -> Tensor:
    return torch.zeros_like(values).scatter_add(-1, block, values).gather(-1, block)


def _mean(values: Tensor, block: Tensor) -> Tensor:
    return _sum(values, block) / _sum(torch.ones_like(values), block)


def _log_sum_exp(values: Tensor, block: Tensor) -> Tensor:
    lowest = torch.full_like(values, -torch.inf)
    top = lowest.scatter_reduce(-1, block, values.detach(), "amax").gather(-1, block)
    return top + _sum((values - top).exp(), block).log()


def _mean_between(end: Tensor, before: Tensor, size: Tensor) -> Tensor:
    return (end - before) / size


def _log_sum_exp_between(end: Tensor, before: Tensor, size: Tensor) -> Tensor:
    return end + torch.log1p(-torch.exp(before - end))  # ascending, so the block is no small part of the total


FITS = {
    "l2": Fit(_mean, lambda values: values.cumsum(-1), _mean_between, 0.0),
    "kl": Fit(_log_sum_exp, lambda values: values.logcumsumexp(-1), _log_sum_exp_between, -torch.inf),
}
