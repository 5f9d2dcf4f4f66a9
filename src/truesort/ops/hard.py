"""The true order, hard: where each item stands when nothing is soft, with ties and masks.

Losses and metrics are told the truth as values or as a permutation matrix. Both read it here, so that they agree on
which of two equal items comes first (the one that came first) and on where masked items go (to the end).
"""

import torch
from torch import Tensor


def require_mask(mask: Tensor | None, shape: torch.Size, of: str) -> None:
    """Raise unless `mask` is None or boolean and of the `shape` that the argument `of` has."""
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError(f"mask is {say(mask)}; it must be a boolean tensor, True for real items")
    if mask.shape != shape:
        raise ValueError(f"mask has shape {tuple(mask.shape)}; it must have that of {of}, {tuple(shape)}")


def true_values(truth: Tensor, shape: torch.Size, of: str) -> Tensor:
    """Values whose order is the truth: `truth` itself, or the positions its rows name if it is a permutation matrix."""
    if not isinstance(truth, Tensor):
        raise TypeError(f"truth is {say(truth)}; it must be a tensor")
    if truth.shape == shape:
        return truth
    if truth.shape == (*shape, *shape[-1:]):
        return truth.argmax(-1) if shape[-1] else truth.new_zeros(shape)
    raise ValueError(
        f"truth has shape {tuple(truth.shape)}; {of} needs true values of shape {tuple(shape)} "
        f"or a permutation matrix of shape {(*shape, *shape[-1:])}"
    )


def say(value: object) -> str:
    """A value as an error message names it, tensors by their dtype."""
    return f"a tensor of {value.dtype}" if isinstance(value, Tensor) else repr(value)


def order(values: Tensor, mask: Tensor | None = None, descending: bool = False) -> Tensor:
    """The item at each position; equal items keep their order, masked ones follow at the end in theirs."""
    by_value = values.argsort(dim=-1, descending=descending, stable=True)
    if mask is None:
        return by_value
    return by_value.gather(-1, (~mask).gather(-1, by_value).to(torch.uint8).argsort(dim=-1, stable=True))


def inverse(permutation: Tensor) -> Tensor:
    """From the item at each position to the position of each item, and back."""
    places = torch.arange(permutation.shape[-1], device=permutation.device).expand_as(permutation)
    return permutation.scatter(-1, permutation, places)


def real_positions(mask: Tensor | None, like: Tensor) -> Tensor:
    """True for the positions that real items take: the first of each sequence."""
    if mask is None:
        return torch.ones(like.shape, dtype=torch.bool, device=like.device)
    return torch.arange(mask.shape[-1], device=mask.device) < mask.sum(-1, keepdim=True)


def tie_mean(values: Tensor, keys: Tensor, mask: Tensor | None = None) -> Tensor:
    """`values` with every item's replaced by the mean over the items that have the same key; masked items keep to
    themselves."""
    by_key = order(keys, mask)
    ordered = keys.gather(-1, by_key)
    apart = ordered[..., 1:] != ordered[..., :-1]
    if mask is not None:
        apart = apart | ~real_positions(mask, keys)[..., 1:]
    group = torch.nn.functional.pad(apart.cumsum(-1), (1, 0))[..., : keys.shape[-1]]
    group = group.scatter(-1, by_key, group)
    total = torch.zeros_like(values).scatter_add(-1, group, values)
    number = torch.zeros_like(values).scatter_add(-1, group, torch.ones_like(values))
    return (total / number.clamp_min(1)).gather(-1, group)


def average_ranks(values: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Ranks from 0, equal items sharing the mean of theirs, as statisticians rank."""
    return tie_mean(inverse(order(values, mask)).to(dtype), values, mask)


def discounts(like: Tensor, k: int | None) -> Tensor:
    """What DCG multiplies a relevance by at each position j, (n,): 1 / log2(j + 2), and 0 from position k on."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise ValueError(f"k is {k!r}; it must be a whole number from 1 up, or None for all items")
    positions = torch.arange(like.shape[-1], dtype=like.dtype, device=like.device)
    discount = 1 / torch.log2(positions + 2)
    return discount if k is None else discount.masked_fill(positions >= k, 0)
