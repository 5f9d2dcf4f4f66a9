"""What every way to sort promises to `functional`, so that shapes, dims and masks are written once and maths once each.

A method sees rows of keys, (rows, n), of which the first `count[r]` are real; what follows them is padding that stays
where it is and that no real item may feel. A method that can say P says only that, and inherits the rest; one that has
a shorter way to values or ranks overrides it.
"""

import math
from collections.abc import Collection
from typing import ClassVar

import torch
from torch import Tensor

from ._backend import transformed, unwatched


class Method:
    """Base of all methods; a subclass is a frozen dataclass, so a configuration can be compared, printed and stored.

    P[..., i, j] is the weight with which input i lands at output position j: sorted = Pᵀx, ascending, from 0.
    """

    finite_only: ClassVar[bool] = True
    """Whether `functional` takes ±inf out of a row (to the ends, hard) before the method sees it."""

    def permutation(self, keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
        """The first `outputs` columns of P, (rows, n, outputs)."""
        raise TypeError(
            f"method is {type(self).__name__}, which has no permutation matrix and so gives only sort and rank; "
            "permutation, reorder and topk's selection work with Network, NeuralSort, SoftSort and Sinkhorn"
        )

    def sort(self, keys: Tensor, count: Tensor | None, outputs: int) -> Tensor:
        """The first `outputs` values in ascending order, (rows, outputs): Pᵀ keys."""
        weights = self.permutation(keys, count, outputs)
        return _carry(weights, keys.unsqueeze(-1), count).squeeze(-1)

    def rank(self, keys: Tensor, count: Tensor | None) -> Tensor:
        """The position of every item, from 0, (rows, n): P positions."""
        n = keys.shape[-1]
        return self.permutation(keys, count, n) @ torch.arange(n, dtype=keys.dtype, device=keys.device)

    def reorder(self, keys: Tensor, payload: Tensor, count: Tensor | None) -> Tensor:
        """The payload, (rows, n, c), in the order of its keys: Pᵀ payload."""
        return _carry(self.permutation(keys, count, keys.shape[-1]), payload, count)


def _carry(weights: Tensor, payload: Tensor, count: Tensor | None) -> Tensor:
    """Pᵀ payload; padding comes back untouched, and an inf or nan in it meets no weight, not even a zero."""
    real = real_items(payload, count)
    outputs = weights.shape[-1]
    if real is None:
        return weights.transpose(-1, -2) @ payload
    moved = weights.transpose(-1, -2) @ payload.masked_fill(~real.unsqueeze(-1), 0)
    return torch.where(real[:, :outputs].unsqueeze(-1), moved, payload[:, :outputs])


def real_items(items: Tensor, count: Tensor | None) -> Tensor | None:
    """Boolean (rows, n), True for the first `count[r]` of the n items of a row; None where everything is real."""
    if count is None:
        return None
    return torch.arange(items.shape[1], device=items.device) < count.unsqueeze(-1)


def known_finite(keys: Tensor) -> bool:
    """Whether all keys are finite, where one may look: a GPU would keep us waiting, and a trace is of any keys."""
    return keys.device.type == "cpu" and not transformed() and unwatched(keys) and bool(keys.isfinite().all())


def without_padding(keys: Tensor, real: Tensor | None, fill: float = 0.0) -> Tensor:
    """The keys with `fill` for padding, which may hold anything, also nan."""
    return keys if real is None else keys.masked_fill(~real, fill)


def centred(keys: Tensor, real: Tensor | None) -> Tensor:
    """Keys without padding around 0: the same answer for a method that shifting leaves alone, with fewer digits lost.

    For such a method the middle is no function of the keys worth a gradient, so none flows through it.
    """
    if keys.shape[-1] == 0:
        return keys
    clean = without_padding(keys, real).detach()
    low = without_padding(keys.detach(), real, math.inf).amin(-1, keepdim=True)
    high = without_padding(keys.detach(), real, -math.inf).amax(-1, keepdim=True)
    middle = torch.where(low <= high, low / 2 + high / 2, clean[:, :1])
    return without_padding(keys - middle, real)


def block_logits(logits: Tensor, real: Tensor | None) -> Tensor:
    """Logits (rows, n, outputs) of P whose exponentials vanish between real and padding and are 1 on padding itself."""
    if real is None:
        return logits
    n, outputs = logits.shape[-2:]
    both = real.unsqueeze(-1) & real[:, None, :outputs]
    own = torch.eye(n, outputs, dtype=torch.bool, device=logits.device) & ~real.unsqueeze(-1)
    return torch.where(both, logits, torch.where(own, 0.0, -math.inf))


def finest(device: torch.device) -> torch.dtype:
    """The dtype for steps in which large numbers nearly cancel: float64, which only MPS lacks."""
    return torch.float32 if device.type == "mps" else torch.float64


def require_positive(method: str, field: str, value: float) -> None:
    """Raise unless `value` is a positive finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"{method}'s {field} is {value!r}; it must be a positive finite number")


def require_choice(method: str, field: str, value: object, choices: Collection[str]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{method}'s {field} is {value!r}; choose one of {', '.join(map(repr, choices))}")
