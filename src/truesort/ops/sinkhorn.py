"""Sinkhorn: sorting as optimal transport of items to positions, blurred by entropy (Cuturi, Teboul, Vert, 2019).

P is the doubly stochastic matrix of the form exp(2 key_i j / temperature + f_i + g_j): cheapest for the cost
(key_i − j)², less temperature times entropy. Shifting the keys only shifts g, so nothing has to be squashed first, and
two items stay in order with the weight logistic(gap / temperature), as in NeuralSort and SoftSort.

Plain Sinkhorn sweeps need thousands of steps where clusters of keys lie far apart. So we start from the potentials of
the hard order and, unless the sweeps themselves are to be differentiated, take Newton's steps on the same potentials.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ._method import (
    Method,
    block_logits,
    centred,
    finest,
    real_items,
    require_choice,
    require_positive,
    without_padding,
)


class ConvergenceWarning(UserWarning):
    """A result was given although its iteration had not come to rest."""


@dataclass(frozen=True)
class Sinkhorn(Method):
    """Doubly stochastic P; `temperature` is in the unit of the keys, and towards 0 the order becomes hard.

    At most `iterations` steps are taken, until every row and column of P sums to 1 within `tolerance`; otherwise a
    ConvergenceWarning says how far off it is. `gradient="implicit"` differentiates the fixed point, in memory that does
    not grow with the steps: first and second derivatives are exact there, higher ones are not. `gradient="unrolled"`
    takes plain sweeps, usually many more, and differentiates what they compute, to any order.
    """

    temperature: float = 0.1
    iterations: int = 100
    gradient: Literal["implicit", "unrolled"] = "implicit"
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        require_positive("Sinkhorn", "temperature", self.temperature)
        require_positive("Sinkhorn", "tolerance", self.tolerance)
        require_choice("Sinkhorn", "gradient", self.gradient, ("implicit", "unrolled"))
        if isinstance(self.iterations, bool) or not isinstance(self.iterations, int) or self.iterations < 1:
            raise ValueError(f"Sinkhorn's iterations is {self.iterations!r}; it must be a whole number from 1 up")

    def permutation(self, keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
        """The first `outputs` columns of P, (rows, n, outputs); columns sum to 1, rows within the tolerance."""
        real = real_items(keys, count)
        fine = centred(keys, real).to(finest(keys.device)) / self.temperature
        positions = torch.arange(keys.shape[-1], dtype=fine.dtype, device=fine.device)
        logits = block_logits(2 * fine.unsqueeze(-1) * positions, real)
        start = _hard_potential(logits, fine, real)
        if self.gradient == "unrolled":
            potential = self._solve(logits, start, _sweep)
        else:
            with torch.no_grad():
                potential = self._solve(logits, start, _newton)
            potential = _attach(potential, logits)
        return _log_weights(logits[..., :outputs], potential).exp().to(keys.dtype)

    def _solve(self, logits: Tensor, potential: Tensor, step: "Step") -> Tensor:
        """Step until the rows of P sum to 1. A row at rest stays there: it must not feel which rows it came with."""
        for _ in range(self.iterations):
            weights = _log_weights(logits, potential)
            moving = (_excess(weights).abs() > self.tolerance).any(-1, keepdim=True)
            if not moving.any():
                return potential
            potential = torch.where(moving, step(weights, potential), potential)
        self._check(_excess(_log_weights(logits.detach(), potential.detach())))
        return potential

    def _check(self, excess: Tensor) -> None:
        residual = excess.abs().amax(-1)
        late = int((residual > self.tolerance).sum())
        if late:
            warnings.warn(
                f"Sinkhorn did not converge in {late} of {len(residual)} rows: after iterations={self.iterations} sums "
                f"of P are off by up to {residual.max().item():.1e}, more than tolerance={self.tolerance:g}; raise "
                f"iterations, tolerance or temperature (now {self.temperature:g})"
                + (" or use gradient='implicit'" if self.gradient == "unrolled" else ""),
                ConvergenceWarning,
                stacklevel=2,
            )


Step = Callable[[Tensor, Tensor], Tensor]
"""From the logarithm of P at a potential, and that potential, to a better potential."""


def _log_weights(logits: Tensor, potential: Tensor) -> Tensor:
    """The logarithm of P: of all g, the one for which every column sums to 1."""
    return torch.log_softmax(logits + potential.unsqueeze(-1), dim=-2)


def _excess(log_weights: Tensor) -> Tensor:
    return log_weights.exp().sum(-1) - 1


def _hard_potential(logits: Tensor, keys: Tensor, real: Tensor | None) -> Tensor:
    """f for the g of temperature 0: neighbouring positions meet half-way between the keys sorted there."""
    order = without_padding(keys.detach(), real, torch.inf).argsort(dim=-1, stable=True)
    ordered = keys.gather(-1, order)
    steps = torch.nn.functional.pad(ordered[:, 1:] + ordered[:, :-1], (1, 0))
    return -torch.logsumexp(logits - steps.cumsum(-1).unsqueeze(-2), dim=-1)


def _sweep(log_weights: Tensor, potential: Tensor) -> Tensor:
    """Make the rows sum to 1; the columns follow in `_log_weights`."""
    return potential - torch.logsumexp(log_weights, dim=-1)


def _newton(log_weights: Tensor, potential: Tensor) -> Tensor:
    """Newton's step on the convex dual, shortened so that it goes down from anywhere, and by nothing near the end."""
    move = _correction(_factor(log_weights), log_weights)
    spread = (move.amax(-1, keepdim=True) - move.amin(-1, keepdim=True)).clamp_min(1e-12)
    return potential + move * (torch.log1p(spread) / spread)


def _factor(log_weights: Tensor) -> Tensor:
    """Cholesky factor of the derivative of the row sums by f, a graph Laplacian whose diagonal adds up its links.

    The ridge settles what f leaves free (a constant, padding) and blocks whose link is below rounding.
    """
    weights = log_weights.exp()
    rounding = torch.finfo(weights.dtype).eps
    weights = weights.masked_fill(weights < rounding**2, 0)  # products in the subnormal range would be 20 times slower
    links = weights @ weights.transpose(-1, -2)
    links = links - torch.diag_embed(links.diagonal(dim1=-2, dim2=-1))
    ridge = 1e4 * rounding
    factor: Tensor = torch.linalg.cholesky_ex(torch.diag_embed(links.sum(-1) + ridge) - links)[0]
    return factor


def _correction(factor: Tensor, log_weights: Tensor) -> Tensor:
    return torch.cholesky_solve(-_excess(log_weights).unsqueeze(-1), factor).squeeze(-1)


def _attach(potential: Tensor, logits: Tensor) -> Tensor:
    """The same solution as a function of the logits: Newton steps from it that move its derivatives and not its value.

    With the matrix held fixed each step makes one more order of derivatives exact; two serve double backward.
    """
    if not logits.requires_grad:
        return potential
    factor = _factor(_log_weights(logits.detach(), potential))
    for _ in range(2):
        move = _correction(factor, _log_weights(logits, potential))
        potential = potential + (move - move.detach())
    return potential
