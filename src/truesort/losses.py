"""Losses that teach an order: on P, on what P carries, on ranks, on positions, on the top k and on pairs.

The truth is either true values, shape (..., n), that grow as the scores should, or the permutation matrix P_gt, shape
(..., n, n); rows are inputs, columns positions. Every loss is one number: a loss of each sequence, averaged over the
sequences that have something to say. Where a sequence's loss is itself a sum over entries, `reduction` chooses: "sum"
is the paper's formula, "mean" divides by the number of entries, as the paper's published code does. A weight λ between
two losses belongs to one of them: those in the paper's tables were used with means. Masked items count for nothing.
Half precision is computed and returned in float32.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from . import functional
from .ops import Method, hard

REDUCTIONS = ("mean", "sum")


def permutation_loss(P: Tensor, truth: Tensor, *, mask: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Entry-wise binary cross-entropy of a *soft* P (..., n, n): −Σ_ij P_gt log P + (1 − P_gt) log(1 − P).

    Where a pair is confidently wrong P is about 1e-26 and log P still has a slope worth following, so the logarithm's
    argument is held at 1e-30 or above while its gradient passes as if it were not (1 − P at the dtype's epsilon: below
    it there are only rounding errors). An exact 0, as in an error-free P, is held at epsilon too: it has no tail to
    weigh up the gradient, which stays finite but is too large to be of use; give this loss `error_free=False`.
    P_gt may be soft as well. `reduction` is over the n² entries of real items (k² of k).
    """
    check_reduction(reduction)
    if not isinstance(P, Tensor) or not P.is_floating_point():
        raise TypeError(f"P is {hard.say(P)}; it must be a floating-point tensor")
    if P.ndim < 2 or P.shape[-1] != P.shape[-2]:
        raise ValueError(f"P has shape {tuple(P.shape)}; it must be (..., n, n)")
    hard.require_mask(mask, P.shape[:-1], "the items of P")
    target = _target(truth, P, mask)
    least = torch.finfo(P.dtype)
    weight = _full(P)
    yes = _log(weight, torch.where(weight == 0, least.eps, max(1e-30, least.tiny)))
    no = _log(1 - weight, torch.full_like(weight, least.eps))
    items = _real(mask, P.diagonal(dim1=-2, dim2=-1))
    real = items.unsqueeze(-1) & hard.real_positions(mask, items).unsqueeze(-2)
    entries = torch.where(real, -(target * yes + (1 - target) * no), 0)
    return _reduce(entries.sum((-2, -1)), items.sum(-1) ** 2, reduction)


def reorder_loss(
    scores: Tensor,
    payload: Tensor,
    truth: Tensor,
    method: Method | None = None,
    *,
    split: int | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Squared distance ‖Pᵀ payload − P_gtᵀ payload‖² of a payload (..., n, features) ordered by scores and by truth.

    With `split`, items are taken in blocks of that many, in input order, and each block is sorted by itself: its items
    in the relative order that P and P_gt give them (the paper's proposition 4). A pair in different blocks is then not
    compared, which leaves fewer permutations to tell apart. A last block of one item joins its neighbour, since alone
    it has nothing to learn. `reduction` is over the entries of the payload that belong to real items.
    """
    check_reduction(reduction)
    check_split(split)
    scores, values = _read(scores, truth, mask)
    if not isinstance(payload, Tensor) or not payload.is_floating_point():
        raise TypeError(f"payload is {hard.say(payload)}; it must be a floating-point tensor")
    if payload.shape[: scores.ndim] != scores.shape:
        raise ValueError(
            f"payload has shape {tuple(payload.shape)}; it must begin with the shape of scores, {tuple(scores.shape)}"
        )
    features = math.prod(payload.shape[scores.ndim :])
    entries = _real(mask, scores).sum(-1) * features
    inputs = (scores, _full(payload).reshape(*scores.shape, features), values, mask)
    distance = _squared_distance(*(inputs if split is None else _blocks(*inputs, split)), method)
    return _reduce(distance.flatten(scores.ndim - 1).sum(-1), entries, reduction)


def spearman_loss(scores: Tensor, truth: Tensor, method: Method | None = None, *, mask: Tensor | None = None) -> Tensor:
    """1 − ρ, Spearman's correlation of the soft ranks of the scores with the ranks of the truth.

    Equal true values share the mean of their ranks, as in scipy. So do equal scores, in value: the gradient is that of
    their own soft ranks and pulls them apart. If all scores are equal ρ counts as 0; a sequence whose true values are
    all equal has no ρ and is left out of the average.
    """
    scores, values = _read(scores, truth, mask)
    soft = functional.rank(scores, method, mask=mask)
    shared = hard.tie_mean(soft.detach(), scores, mask) + (soft - soft.detach())
    found, right = _centred(shared, mask), _centred(hard.average_ranks(values, mask, soft.dtype), mask)
    n = _real(mask, scores).sum(-1)
    widest = (n * (n**2 - 1) / 12).to(soft.dtype)
    spread = found.square().sum(-1)
    spread = torch.where(spread < 100 * torch.finfo(soft.dtype).eps ** 2 * widest, widest, spread)
    spread_right = right.square().sum(-1)
    counted = spread_right > 0
    rho = (found * right).sum(-1) / torch.where(counted, spread * spread_right, 1).sqrt()
    return _average(1 - rho, counted)


def ndcg_loss(
    scores: Tensor,
    relevance: Tensor,
    method: Method | None = None,
    *,
    k: int | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """1 − NDCG of the items with the *highest* scores, their relevances put in order by a soft P.

    DCG is Σ_j [P↓ᵀ relevance]_j / log2(j + 2) over the first k positions (all for None), NDCG its share of the best
    possible. Relevances are at least 0 and count as they are: for exponential gains give `2**relevance - 1`. A sequence
    in which nothing is relevant is left out of the average.
    """
    scores = _check(scores, mask)
    if not isinstance(relevance, Tensor) or relevance.shape != scores.shape:
        shape = tuple(relevance.shape) if isinstance(relevance, Tensor) else relevance
        raise ValueError(f"relevance has shape {shape}; it must have that of scores, {tuple(scores.shape)}")
    gains = relevance.to(scores.dtype).masked_fill(~_real(mask, scores), 0)
    discount = hard.discounts(gains, k)
    found = functional.reorder(scores, gains.unsqueeze(-1), method, descending=True, mask=mask).squeeze(-1)
    best = (gains.sort(dim=-1, descending=True).values * discount).sum(-1)
    counted = best > 0
    return _average(1 - (found * discount).sum(-1) / torch.where(counted, best, 1), counted)


def topk_cross_entropy(selection: Tensor, truth: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """−log of the probability that a right item is among the top k, given the *soft* `selection` (..., n, k) of `topk`.

    That probability is Σ_j selection[i, j]. `truth` is the index of the right item, integers of shape (...), or
    booleans of shape (..., n) if several items are right: then the loss is the mean over them. A sequence without a
    right item is left out of the average. Logarithms are held as in `permutation_loss`.
    """
    if not isinstance(selection, Tensor) or not selection.is_floating_point() or selection.ndim < 2:
        raise TypeError(
            f"selection is {hard.say(selection)}; it must be the floating-point (..., n, k) that topk gives"
        )
    items = selection.shape[:-1]
    hard.require_mask(mask, items, "the items of selection")
    least = torch.finfo(selection.dtype)
    chosen = _full(selection).sum(-1)
    right = _right_items(truth, items) & _real(mask, chosen)
    surprise = -_log(chosen, torch.where(chosen == 0, least.eps, max(1e-30, least.tiny)))
    number = right.sum(-1)
    return _average(torch.where(right, surprise, 0).sum(-1) / number.clamp_min(1), number > 0)


def pairwise_logistic_loss(
    scores: Tensor, truth: Tensor, *, mask: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Σ log(1 + exp(s_i − s_j)) over the pairs with true_i < true_j (RankNet, Burges et al. 2005): no sorting at all.

    Ties of the truth give no pair, and a sequence without pairs is left out of the average. `reduction` is over the
    pairs of a sequence.
    """
    check_reduction(reduction)
    scores, values = _read(scores, truth, mask)
    real = _real(mask, scores)
    clean = scores.masked_fill(~real, 0)
    pairs = (values.unsqueeze(-1) < values.unsqueeze(-2)) & real.unsqueeze(-1) & real.unsqueeze(-2)
    wrong = softplus(clean.unsqueeze(-1) - clean.unsqueeze(-2))
    return _reduce(torch.where(pairs, wrong, 0).sum((-2, -1)), pairs.sum((-2, -1)), reduction)


def _log(weight: Tensor, floor: Tensor) -> Tensor:
    """log(weight) held at `floor` in value; the gradient passes as if it were not."""
    return (torch.maximum(weight.detach(), floor) + (weight - weight.detach())).log()


def _target(truth: Tensor, P: Tensor, mask: Tensor | None) -> Tensor:
    if isinstance(truth, Tensor) and truth.shape == P.shape:
        return truth.to(_full(P).dtype)
    positions = hard.inverse(hard.order(hard.true_values(truth, P.shape[:-1], "P"), mask))
    places = torch.arange(P.shape[-1], device=P.device)
    return (positions.unsqueeze(-1) == places).to(_full(P).dtype)


def _right_items(truth: Tensor, items: torch.Size) -> Tensor:
    if not isinstance(truth, Tensor) or truth.is_floating_point() or truth.is_complex():
        raise TypeError(f"truth is {hard.say(truth)}; it must hold the right items' indices, or booleans")
    if truth.dtype == torch.bool and truth.shape == items:
        return truth
    if truth.dtype == torch.bool or truth.shape != items[:-1]:
        raise ValueError(
            f"truth has shape {tuple(truth.shape)}; selection needs indices of shape {tuple(items[:-1])} "
            f"or booleans of shape {tuple(items)}"
        )
    none = torch.zeros(items, dtype=torch.bool, device=truth.device)
    return none.scatter(-1, truth.long().unsqueeze(-1), True)


def _squared_distance(
    scores: Tensor, payload: Tensor, values: Tensor, mask: Tensor | None, method: Method | None
) -> Tensor:
    found = functional.reorder(scores, payload, method, mask=mask)
    order = hard.order(values, mask).unsqueeze(-1).expand(payload.shape)
    off = found - payload.gather(-2, order)
    if mask is not None:
        off = torch.where(hard.real_positions(mask, scores).unsqueeze(-1), off, 0)
    return off.square()


def _blocks(
    scores: Tensor, payload: Tensor, values: Tensor, mask: Tensor | None, size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The same tensors cut along their items, (..., blocks, items of a block), the real items of a sequence first."""
    n = scores.shape[-1]
    if n <= size:
        return scores, payload, values, mask
    count = torch.full((), n, device=scores.device)
    if mask is not None:
        first = (~mask).to(torch.uint8).argsort(dim=-1, stable=True)
        scores, values = scores.gather(-1, first), values.gather(-1, first)
        payload = payload.gather(-2, first.unsqueeze(-1).expand(payload.shape))
        count = mask.sum(-1)
    whole = mask is None and n % size == 0
    item, real = _block_items(n, count, size, joins=mask is not None or n % size == 1)
    scores, payload, values = scores[..., item], payload[..., item, :], values[..., item]
    return scores, payload, values, None if whole else real.expand(scores.shape)


def _block_items(n: int, count: Tensor, size: int, joins: bool) -> tuple[Tensor, Tensor]:
    """Which item stands where in which block, (blocks, width), and whether it is real, (..., blocks, width).

    If a last item can be alone and has to join, every block has a place more for it.
    """
    column = torch.arange(size + joins, device=count.device)
    item = torch.arange(0, n - 1, size, device=count.device).unsqueeze(-1) + column
    count = count[..., None, None]
    alone = (item == count - 1) & (item % size == 0) & (item > 0)
    return item.clamp_max(n - 1), (item < count) & (alone == (column == size))


def _centred(values: Tensor, mask: Tensor | None) -> Tensor:
    real = _real(mask, values)
    values = values.masked_fill(~real, 0)
    mean = values.sum(-1, keepdim=True) / real.sum(-1, keepdim=True).clamp_min(1)
    return (values - mean).masked_fill(~real, 0)


def _reduce(per_sequence: Tensor, entries: Tensor, reduction: str) -> Tensor:
    per_sequence = per_sequence / entries.clamp_min(1) if reduction == "mean" else per_sequence
    return _average(per_sequence, entries > 0)


def _average(per_sequence: Tensor, counted: Tensor) -> Tensor:
    return torch.where(counted, per_sequence, 0).sum() / counted.sum().clamp_min(1)


def _real(mask: Tensor | None, like: Tensor) -> Tensor:
    return torch.ones(like.shape, dtype=torch.bool, device=like.device) if mask is None else mask


def _full(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _read(scores: Tensor, truth: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = _check(scores, mask)
    return scores, hard.true_values(truth, scores.shape, "scores")


def _check(scores: Tensor, mask: Tensor | None) -> Tensor:
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise TypeError(f"scores is {hard.say(scores)}; it must be a floating-point tensor")
    if scores.ndim < 1:
        raise ValueError("scores has shape (); it needs a last dim, the items of a sequence")
    hard.require_mask(mask, scores.shape, "scores")
    return _full(scores)


def check_reduction(reduction: str) -> None:
    """Raise unless `reduction` is one of REDUCTIONS."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; choose one of {', '.join(map(repr, REDUCTIONS))}")


def check_split(split: int | None) -> None:
    """Raise unless `split` is None or the number of items of a block."""
    if split is not None and (isinstance(split, bool) or not isinstance(split, int) or split < 2):
        raise ValueError(f"split is {split!r}; it must be None or a whole number from 2 up, the items of a block")
