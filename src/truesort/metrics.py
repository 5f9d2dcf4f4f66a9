"""How good an order is: the paper's two accuracies with tie-aware forms, and those of statisticians and search engines.

Every metric takes scores of shape (..., n) and the truth, and gives one number for each sequence, shape (...): the
mean over sequences is up to the caller, who knows how many there are. The truth is either true values, shape (..., n),
that grow as the scores should, or the permutation matrix P_gt, shape (..., n, n). Masked items do not count.
"""

import torch
from torch import Tensor

from .ops import hard


def exact_match(scores: Tensor, truth: Tensor, *, mask: Tensor | None = None, tie_aware: bool = False) -> Tensor:
    """1 for each sequence whose scores put every item at its true position, else 0: the mean is the paper's acc_em.

    Ties keep their input order, among scores and among true values alike. The paper writes argsort(P_gtᵀs) =
    argsort(Pᵀs), which for scores without ties says the same; where scores tie it would call any order right, so that a
    constant score would be perfect. With `tie_aware`, any order among equal *true* values is right.
    A score that is nan is never right; an empty sequence is.
    """
    return _all_hit(_score_hits(scores, truth, mask, tie_aware), scores)


def element_wise(scores: Tensor, truth: Tensor, *, mask: Tensor | None = None, tie_aware: bool = False) -> Tensor:
    """The fraction of each sequence's positions that hold the right item: the mean is the paper's acc_ew.

    Ties, nan and empty sequences as in `exact_match`.
    """
    return _share_hit(_score_hits(scores, truth, mask, tie_aware), scores, mask)


def permutation_exact_match(P: Tensor, truth: Tensor, *, mask: Tensor | None = None, tie_aware: bool = False) -> Tensor:
    """`exact_match` of a permutation matrix (..., n, n), soft or hard, instead of scores.

    At position j stands the item with the largest weight in column j, the first of them if several are largest. A soft
    P may name one item twice and another never, which is how a soft network fails on long sequences.
    """
    return _all_hit(_matrix_hits(P, truth, mask, tie_aware), P)


def permutation_element_wise(
    P: Tensor, truth: Tensor, *, mask: Tensor | None = None, tie_aware: bool = False
) -> Tensor:
    """`element_wise` of a permutation matrix (..., n, n), read as in `permutation_exact_match`."""
    return _share_hit(_matrix_hits(P, truth, mask, tie_aware), P, mask)


def kendall_tau(scores: Tensor, truth: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Kendall's τ-b of scores and truth, as `scipy.stats.kendalltau`; nan where all scores or all true values tie."""
    values = _read(scores, truth, mask)
    a, b = _pair_signs(scores, mask), _pair_signs(values, mask)
    agreement = _count(a * b, scores)
    tau = agreement / (_count(a.abs(), scores).sqrt() * _count(b.abs(), scores).sqrt())
    return tau.masked_fill(_broken(scores, mask), torch.nan)


def spearman_rho(scores: Tensor, truth: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """Spearman's ρ of scores and truth, ties sharing the mean of their ranks, as `scipy.stats.spearmanr`.

    nan where all scores or all true values tie.
    """
    values = _read(scores, truth, mask)
    real = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    middle = (real.sum(-1, keepdim=True).to(_dtype(scores)) - 1) / 2
    a, b = ((hard.average_ranks(x, mask, _dtype(scores)) - middle).masked_fill(~real, 0) for x in (scores, values))
    rho = (a * b).sum(-1) / (a.square().sum(-1).sqrt() * b.square().sum(-1).sqrt())
    return rho.masked_fill(_broken(scores, mask), torch.nan)


def ndcg(scores: Tensor, relevance: Tensor, *, k: int | None = None, mask: Tensor | None = None) -> Tensor:
    """NDCG of the k items with the *highest* scores (all items for None), as `sklearn.metrics.ndcg_score`.

    DCG is Σ_j relevance of the item at position j / log2(j + 2), averaged over the orders that tied scores allow, and
    NDCG its share of the best possible DCG; 0 where nothing is relevant. Relevances are at least 0. They count as they
    are: for exponential gains give `2**relevance - 1`.
    """
    _require(scores, relevance, mask)
    if relevance.shape != scores.shape:
        raise ValueError(
            f"relevance has shape {tuple(relevance.shape)}; it must have that of scores, {tuple(scores.shape)}"
        )
    gains = relevance.to(_dtype(scores))
    gains = gains if mask is None else gains.masked_fill(~mask, 0)
    if (gains < 0).any():
        raise ValueError(f"relevance has entries below 0, the lowest {gains.min().item():g}; NDCG needs 0 or more")
    found = _discounted(gains, scores, k, mask)
    best = _discounted(gains, gains, k, mask)
    share = torch.where(best > 0, found / best.masked_fill(best == 0, 1), 0)
    return share.masked_fill(_broken(scores, mask), torch.nan)


def _discounted(gains: Tensor, scores: Tensor, k: int | None, mask: Tensor | None) -> Tensor:
    """DCG of each sequence sorted by falling scores; tied items share their positions' discounts."""
    place = hard.inverse(hard.order(scores, mask, descending=True))
    return (gains * hard.tie_mean(hard.discounts(gains, k)[place], scores, mask)).sum(-1)


def _score_hits(scores: Tensor, truth: Tensor, mask: Tensor | None, tie_aware: bool) -> Tensor:
    values = _read(scores, truth, mask)
    found = hard.order(scores, mask)
    hits = _hits(found, values, mask, tie_aware)
    return hits & ~(scores.isnan().gather(-1, found) & hard.real_positions(mask, scores))


def _matrix_hits(P: Tensor, truth: Tensor, mask: Tensor | None, tie_aware: bool) -> Tensor:
    if not isinstance(P, Tensor) or P.ndim < 2 or P.shape[-1] != P.shape[-2]:
        shape = tuple(P.shape) if isinstance(P, Tensor) else P
        raise ValueError(f"P is {shape}; it must be a tensor of shape (..., n, n)")
    hard.require_mask(mask, P.shape[:-1], "the items of P")
    values = hard.true_values(truth, P.shape[:-1], "P")
    if not P.shape[-1]:
        return torch.ones(P.shape[:-1], dtype=torch.bool, device=P.device)
    hits = _hits(P.argmax(-2), values, mask, tie_aware)
    return hits & ~(P.isnan().any(-2) & hard.real_positions(mask, hits))


def _hits(found: Tensor, values: Tensor, mask: Tensor | None, tie_aware: bool) -> Tensor:
    """At each position: is the item found there right? Positions of masked items always are."""
    right = hard.order(values, mask)
    same = values.gather(-1, found) == values.gather(-1, right) if tie_aware else found == right
    if mask is None:
        return same
    return same & mask.gather(-1, found) | ~hard.real_positions(mask, values)


def _all_hit(hits: Tensor, like: Tensor) -> Tensor:
    return hits.all(-1).to(_dtype(like))


def _share_hit(hits: Tensor, like: Tensor, mask: Tensor | None) -> Tensor:
    real = hard.real_positions(mask, hits)
    share = (hits & real).sum(-1).to(_dtype(like)) / real.sum(-1).clamp_min(1)
    return share.masked_fill(~real.any(-1), 1)


def _pair_signs(values: Tensor, mask: Tensor | None) -> Tensor:
    """(..., n, n): +1 where the row's item is the larger, −1 where it is the smaller, 0 for ties and masked items."""
    row, column = values.unsqueeze(-1), values.unsqueeze(-2)
    signs = (row > column).to(torch.int8) - (row < column).to(torch.int8)
    return signs if mask is None else signs * (mask.unsqueeze(-1) & mask.unsqueeze(-2))


def _count(signs: Tensor, like: Tensor) -> Tensor:
    return signs.sum((-2, -1)).to(_dtype(like))


def _broken(scores: Tensor, mask: Tensor | None) -> Tensor:
    nan = scores.isnan()
    return (nan if mask is None else nan & mask).any(-1)


def _dtype(like: Tensor) -> torch.dtype:
    return torch.promote_types(like.dtype, torch.float32)


def _read(scores: Tensor, truth: Tensor, mask: Tensor | None) -> Tensor:
    _require(scores, truth, mask)
    return hard.true_values(truth, scores.shape, "scores")


def _require(scores: Tensor, truth: Tensor, mask: Tensor | None) -> None:
    for name, value in (("scores", scores), ("truth", truth)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} is {value!r}; it must be a tensor")
    if scores.ndim < 1:
        raise ValueError("scores has shape (); it needs a last dim, the items of a sequence")
    hard.require_mask(mask, scores.shape, "scores")
