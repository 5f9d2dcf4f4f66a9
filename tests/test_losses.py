"""Losses equal their formulas, give useful gradients where it is hardest, and do not feel padding."""

import itertools
import math
from functools import partial

import pytest
import scipy.stats
import torch
from sklearn.metrics import ndcg_score
from torch import Tensor
from torch.nn.functional import binary_cross_entropy

import truesort as ts
from truesort import losses
from truesort.relaxations import CURVES, sigma

SOFT = ts.Network(steepness=2.0, error_free=False)
SOFT_METHODS = [SOFT, ts.Network(layout="bitonic", swap="cauchy", error_free=False), ts.NeuralSort()]


def on_permutation(scores: Tensor, truth: Tensor, mask: Tensor | None = None, reduction: str = "mean") -> Tensor:
    P = ts.permutation(scores, SOFT, mask=mask)
    return losses.permutation_loss(P, truth, mask=mask, reduction=reduction)


def on_payload(
    scores: Tensor,
    truth: Tensor,
    mask: Tensor | None = None,
    reduction: str = "mean",
    split: int | None = None,
    method: ts.Method = SOFT,
) -> Tensor:
    payload = torch.stack([truth.sin(), truth.cos(), 2 * truth], dim=-1).to(scores.dtype)
    return losses.reorder_loss(scores, payload, truth, method, split=split, mask=mask, reduction=reduction)


def on_topk(scores: Tensor, truth: Tensor, mask: Tensor | None = None) -> Tensor:
    _, selection = ts.topk(scores, 2, SOFT, mask=mask)
    return losses.topk_cross_entropy(selection, truth > 1, mask=mask)


LOSSES = {
    "permutation mean": on_permutation,
    "permutation sum": partial(on_permutation, reduction="sum"),
    "payload mean": on_payload,
    "payload sum": partial(on_payload, reduction="sum"),
    "payload in twos": partial(on_payload, split=2),
    "payload in threes, error-free": partial(on_payload, split=3, method=ts.Network()),
    "spearman": partial(losses.spearman_loss, method=SOFT),
    "spearman, error-free": losses.spearman_loss,
    "ndcg": partial(losses.ndcg_loss, method=SOFT),
    "ndcg at 2": partial(losses.ndcg_loss, method=SOFT, k=2),
    "top k": on_topk,
    "pairs mean": losses.pairwise_logistic_loss,
    "pairs sum": partial(losses.pairwise_logistic_loss, reduction="sum"),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def value_and_gradient(loss, scores: Tensor, *rest, **options) -> tuple[Tensor, Tensor]:
    scores = scores.detach().clone().requires_grad_()
    value = loss(scores, *rest, **options)
    if value.requires_grad:
        value.backward()
    return value.detach(), torch.zeros_like(scores) if scores.grad is None else scores.grad


# Laws of all losses


@every_loss
def test_padding_changes_neither_loss_nor_gradient(loss) -> None:
    real = torch.rand(12, 7) < 0.7
    real[:, 2:4] = True
    scores = torch.randn(12, 7, dtype=torch.float64)
    truth = torch.randint(0, 4, (12, 7))
    truth[:, 2], truth[:, 3] = 3, 0
    dirty, dirty_truth = torch.where(real, scores, torch.nan), torch.where(real, truth.double(), torch.nan)
    together, gradient = value_and_gradient(loss, dirty, dirty_truth, mask=real)
    alone = [value_and_gradient(loss, s[m], t[m]) for s, t, m in zip(scores, truth.double(), real, strict=True)]
    torch.testing.assert_close(together, torch.stack([value for value, _ in alone]).mean())
    torch.testing.assert_close(gradient[real], torch.cat([g for _, g in alone]) / 12)
    assert (gradient[~real] == 0).all()


@every_loss
def test_batches_of_any_shape_are_averaged(loss) -> None:
    scores, truth = torch.randn(2, 3, 5, dtype=torch.float64), torch.stack([torch.randperm(5) for _ in range(6)])
    flat = loss(scores.reshape(6, 5), truth.double())
    torch.testing.assert_close(loss(scores, truth.double().reshape(2, 3, 5)), flat)
    rows = [loss(s, t) for s, t in zip(scores.reshape(6, 5), truth.double(), strict=True)]
    torch.testing.assert_close(torch.stack(rows).mean(), flat)


@pytest.mark.parametrize("name", [name for name in LOSSES if "error-free" not in name])
def test_gradients_are_those_of_the_value(name: str) -> None:
    truth = torch.tensor([[3.0, 1, 2, 0, 2], [0, 4, 1, 1, 2]], dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [True, True, False, True, True]])
    scores = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: LOSSES[name](s, truth, mask=mask), scores)
    assert torch.autograd.gradgradcheck(lambda s: LOSSES[name](s, truth), scores)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(loss, dtype: torch.dtype) -> None:
    scores, truth = torch.randn(3, 6).to(dtype), torch.stack([torch.randperm(6) for _ in range(3)])
    value, gradient = value_and_gradient(loss, scores, truth)
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert gradient.isfinite().all()
    torch.testing.assert_close(value, loss(scores.float(), truth), rtol=0.05, atol=0.02)


@every_loss
def test_nothing_to_learn_is_no_loss_and_no_nan(loss) -> None:
    for scores, mask in (
        (torch.zeros(0, 4), None),
        (torch.zeros(3, 0), None),
        (torch.zeros(3, 4), torch.zeros(3, 4, dtype=torch.bool)),
    ):
        if "on_topk" in repr(loss) and scores.shape[1] < 2:
            continue
        value, gradient = value_and_gradient(loss, scores, torch.zeros(scores.shape), mask=mask)
        assert value == 0
        assert (gradient == 0).all()


@every_loss
def test_a_nan_score_shows(loss) -> None:
    scores = torch.tensor([[0.0, torch.nan, 1, 2], [3, 2, 1, 0]])
    assert loss(scores, torch.tensor([[0.0, 1, 2, 3]]).repeat(2, 1)).isnan()


@pytest.mark.parametrize(
    ("loss", "reached"),
    [
        (on_permutation, 0.8),
        (partial(on_payload, method=ts.Network()), 0.5),  # as the paper says, this one alone has no smooth landscape
        (partial(on_payload, method=ts.Network(), split=3), 0.5),
        (losses.spearman_loss, 0.9),
        (losses.ndcg_loss, 0.8),
        (losses.pairwise_logistic_loss, 0.99),
    ],
    ids=["permutation", "payload", "payload in threes", "spearman", "ndcg", "pairs"],
)
def test_descent_sorts(loss, reached: float) -> None:
    truth = torch.stack([torch.randperm(6) for _ in range(20)]).float()
    scores = torch.randn(20, 6).requires_grad_()
    assert ts.metrics.kendall_tau(scores, truth).mean() < 0.3
    optimizer = torch.optim.Adam([scores], lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        loss(scores, truth).backward()
        optimizer.step()
    assert ts.metrics.kendall_tau(scores, truth).mean() > reached


@every_loss
def test_vmap_is_a_loop(loss) -> None:
    scores, truth = torch.randn(3, 5, dtype=torch.float64), torch.rand(3, 5).mul(4).round()
    looped = torch.stack([loss(s, t) for s, t in zip(scores, truth, strict=True)])
    torch.testing.assert_close(torch.func.vmap(loss)(scores, truth), looped)


def test_losses_compile_to_one_graph() -> None:
    def some_at_once(scores: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
        names = ("permutation mean", "payload in twos", "spearman", "ndcg", "pairs mean")
        return torch.stack([LOSSES[name](scores, truth, mask=mask) for name in names])

    args = torch.randn(2, 3), torch.rand(2, 3), torch.tensor([[True, True, True], [True, True, False]])
    compiled = torch.compile(some_at_once, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*args), some_at_once(*args))


# Cross-entropy on P


@pytest.mark.parametrize("shape", [(4, 4), (3, 2, 5, 5)])
def test_permutation_loss_is_cross_entropy(shape: tuple[int, ...]) -> None:
    P = torch.rand(shape, dtype=torch.float64)
    truth = torch.rand(shape[:-1])
    P_gt = (truth.argsort().argsort().unsqueeze(-1) == torch.arange(shape[-1])).double()
    n, batch = shape[-1], math.prod(shape[:-2])
    for told in (truth, P_gt):
        torch.testing.assert_close(losses.permutation_loss(P, told), binary_cross_entropy(P, P_gt))
        total = binary_cross_entropy(P, P_gt, reduction="sum") / batch
        torch.testing.assert_close(losses.permutation_loss(P, told, reduction="sum"), total)
    soft = torch.rand(shape, dtype=torch.float64)
    torch.testing.assert_close(losses.permutation_loss(P, soft), binary_cross_entropy(P, soft))
    torch.testing.assert_close(losses.permutation_loss(P, truth, reduction="mean") * n**2 * batch, total * batch)


@pytest.mark.parametrize("swap", CURVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", ["odd_even", "bitonic"])
def test_a_confidently_wrong_pair_gets_the_gradient_of_its_logarithm(
    swap: str, dtype: torch.dtype, layout: str
) -> None:
    """Of the four entries of a 2×2 P two are log τ; the other two, log(1 − (1 − τ)), add as much until τ drowns."""
    method = ts.Network(layout=layout, swap=swap, steepness=124.0, error_free=False)
    for gap in range(1, 11):
        scores = torch.tensor([float(gap), 0.0], dtype=dtype, requires_grad=True)
        loss = losses.permutation_loss(ts.permutation(scores, method), torch.tensor([0, 1]), reduction="sum")
        gradient = torch.autograd.grad(loss, scores)[0]
        # The curves with exponential tails go on as straight lines of log σ from where they would drown in float32.
        held = min(gap, 10.5 / 124) if swap == "gaussian" else gap
        far = torch.tensor(-float(held), dtype=torch.float64, requires_grad=True)
        slope = -torch.autograd.grad(-sigma(swap, far, 124.0).log(), far)[0]
        assert 1.95 < gradient[0] / slope < 4.05
        torch.testing.assert_close(gradient[0], -gradient[1])


@pytest.mark.parametrize("swap", CURVES)
def test_a_reversed_row_still_learns_at_steepness_124(swap: str) -> None:
    method = ts.Network(swap=swap, steepness=124.0, error_free=False)
    scores = torch.arange(8, 0, -1).float()
    value, gradient = value_and_gradient(
        lambda s: losses.permutation_loss(ts.permutation(s, method), torch.arange(8)), scores
    )
    assert value.isfinite()
    assert (gradient[:4] > 1e-4).all()
    assert (gradient[4:] < -1e-4).all()


def test_an_error_free_matrix_gives_a_finite_loss_and_gradient() -> None:
    scores = torch.randn(20, 6)
    value, gradient = value_and_gradient(
        lambda s: losses.permutation_loss(ts.permutation(s), torch.arange(6).expand(20, 6)), scores
    )
    assert value.isfinite()
    assert gradient.square().isfinite().all()  # as an optimizer that squares it needs
    right = ts.permutation(scores)
    assert losses.permutation_loss(right, scores) < 1e-6


# What P carries, in blocks


def blocks(n: int, size: int | None) -> list[slice]:
    """Consecutive blocks as the paper splits them, a remainder of one joined to its neighbour."""
    starts = [0] if size is None else [s for s in range(0, n, size) if s == 0 or n - s > 1]
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], n], strict=True)]


@pytest.mark.parametrize(
    ("n", "size", "sizes"),
    [(5, 2, [2, 3]), (9, 4, [4, 5]), (9, 2, [2, 2, 2, 3]), (7, 4, [4, 3]), (5, 4, [5]), (4, 2, [2, 2]), (3, 9, [3])],
)
def test_a_remainder_of_one_joins_its_neighbour(n: int, size: int, sizes: list[int]) -> None:
    assert [b.stop - b.start for b in blocks(n, size)] == sizes
    scores, truth = torch.randn(n), torch.randperm(n)
    expected = [on_payload(scores[b], truth[b], reduction="sum", method=ts.Network()) for b in blocks(n, size)]
    found = on_payload(scores, truth, reduction="sum", split=size, method=ts.Network())
    torch.testing.assert_close(found, torch.stack(expected).sum())


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 9, 10])
@pytest.mark.parametrize("size", [None, 2, 3, 4, 20])
@pytest.mark.parametrize("method", [SOFT, ts.Network(), ts.Network(backward="matrix", layout="bitonic")], ids=repr)
def test_blocks_are_sorted_by_themselves(n: int, size: int | None, method: ts.Method) -> None:
    payload, scores = torch.randn(3, n, 2, 2, dtype=torch.float64), torch.randn(3, n, dtype=torch.float64)
    truth = torch.rand(3, n)

    def written_out(s: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for b in blocks(n, size):
            found = ts.reorder(s[:, b], payload[:, b], method)
            right = torch.stack([p[t.argsort()] for p, t in zip(payload[:, b], truth[:, b], strict=True)])
            total = total + (found - right).square().sum() / 3
        return total

    expected = value_and_gradient(written_out, scores)
    P_gt = (truth.argsort().argsort().unsqueeze(-1) == torch.arange(n)).double()
    for told in (truth, P_gt):
        found = value_and_gradient(losses.reorder_loss, scores, payload, told, method, split=size, reduction="sum")
        torch.testing.assert_close(found, expected)
        mean = losses.reorder_loss(scores, payload, told, method, split=size)
        torch.testing.assert_close(mean * n * 4, expected[0])


@pytest.mark.parametrize("split", [None, 2])
def test_a_learnt_payload_gets_its_gradient_too(split: int | None) -> None:
    scores, payload = torch.randn(2, 5, dtype=torch.float64), torch.randn(2, 5, 2, dtype=torch.float64)
    truth, mask = torch.rand(2, 5), torch.tensor([[True] * 5, [True, False, True, True, True]])
    assert torch.autograd.gradcheck(
        lambda s, p: losses.reorder_loss(s, p, truth, SOFT, split=split, mask=mask),
        (scores.requires_grad_(), payload.requires_grad_()),
    )


def test_the_error_free_distance_is_that_of_hard_orders() -> None:
    scores, truth, payload = torch.randn(10, 6), torch.rand(10, 6), torch.randn(10, 6, 3)
    found, right = (payload.gather(1, x.argsort()[..., None].expand_as(payload)) for x in (scores, truth))
    torch.testing.assert_close(losses.reorder_loss(scores, payload, truth), torch.nn.functional.mse_loss(found, right))
    assert losses.reorder_loss(truth * 3 - 1, payload, truth) == 0


# Ranks


@pytest.mark.parametrize("method", [None, ts.Network(steepness=1e7, error_free=False), ts.NeuralSort(1e-6)], ids=repr)
@pytest.mark.parametrize("ties", [False, True])
def test_spearman_loss_is_scipys_correlation_in_the_hard_limit(method: ts.Method | None, ties: bool) -> None:
    scores = torch.randint(0, 4, (30, 6)).double() if ties else torch.rand(30, 6, dtype=torch.float64).round(decimals=2)
    truth = torch.randint(0, 4, (30, 6))
    scores[:, 0], scores[:, 1], truth[:, 0], truth[:, 1] = -1.5, 7.25, 5, 6
    for s, t in zip(scores, truth, strict=True):
        expected = torch.tensor(1 - scipy.stats.spearmanr(s, t).statistic)
        torch.testing.assert_close(losses.spearman_loss(s, t, method), expected, atol=1e-6, rtol=0)


def test_equal_scores_are_pulled_apart() -> None:
    value, gradient = value_and_gradient(losses.spearman_loss, torch.zeros(4), torch.tensor([2, 0, 1, 3]))
    assert value == 1
    assert gradient.isfinite().all()
    assert gradient[3] < 0 < gradient[1]
    pair, gradient = value_and_gradient(losses.spearman_loss, torch.tensor([0.0, 1, 1, 2]), torch.tensor([0, 3, 1, 2]))
    torch.testing.assert_close(
        pair, torch.tensor(1 - scipy.stats.spearmanr([0, 1, 1, 2], [0, 3, 1, 2]).statistic).float()
    )
    assert gradient[1] < gradient[2]


def test_equal_true_values_teach_no_rank() -> None:
    scores, truth = torch.randn(2, 4), torch.tensor([[1, 1, 1, 1], [0, 1, 2, 3]])
    value, gradient = value_and_gradient(losses.spearman_loss, scores, truth)
    torch.testing.assert_close(value, losses.spearman_loss(scores[1], truth[1]))
    assert (gradient[0] == 0).all()


# Positions


@pytest.mark.parametrize("k", [None, 1, 3, 5, 20])
@pytest.mark.parametrize("method", [None, ts.Network(steepness=1e7, error_free=False)], ids=repr)
def test_ndcg_loss_is_scikit_learns_in_the_hard_limit(k: int | None, method: ts.Method | None) -> None:
    scores, relevance = torch.randn(20, 5, dtype=torch.float64), torch.randint(0, 3, (20, 5)).double()
    relevance[:, 0] = 1
    expected = 1 - ndcg_score(relevance, scores, k=k, ignore_ties=True)
    torch.testing.assert_close(losses.ndcg_loss(scores, relevance, method, k=k), torch.tensor(expected).double())


def test_nothing_relevant_teaches_no_position() -> None:
    scores, relevance = torch.randn(2, 4), torch.tensor([[0, 0, 0, 0], [0, 1, 0, 3]])
    torch.testing.assert_close(losses.ndcg_loss(scores, relevance), losses.ndcg_loss(scores[1], relevance[1]))


# Top k


def test_topk_cross_entropy_is_the_surprise_at_the_right_items() -> None:
    selection = torch.rand(6, 5, 2, dtype=torch.float64) / 2
    index = torch.tensor([0, 1, 2, 3, 4, 0])
    chosen = selection.sum(-1)
    expected = -chosen[torch.arange(6), index].log().mean()
    torch.testing.assert_close(losses.topk_cross_entropy(selection, index), expected)
    several = torch.nn.functional.one_hot(index, 5).bool()
    torch.testing.assert_close(losses.topk_cross_entropy(selection, several), expected)
    several[:, 2:4] = True
    several[5] = False
    rows = [-chosen[r][several[r]].log().mean() for r in range(5)]
    torch.testing.assert_close(losses.topk_cross_entropy(selection, several), torch.stack(rows).mean())


def test_topk_cross_entropy_asks_for_a_place_among_the_k_and_no_more() -> None:
    method = ts.Network(steepness=1e6, error_free=False)
    scores = torch.tensor([5.0, 9, 7, 1])
    surprise = [losses.topk_cross_entropy(ts.topk(scores, 2, method)[1], torch.tensor(i)).item() for i in range(4)]
    assert surprise[1] == pytest.approx(0, abs=1e-5)
    assert surprise[2] == pytest.approx(0, abs=1e-5)
    assert min(surprise[0], surprise[3]) > 10


def test_a_class_far_from_the_top_still_gets_a_gradient() -> None:
    method = ts.Network(swap="logistic", steepness=124.0, error_free=False)
    _, gradient = value_and_gradient(
        lambda s: losses.topk_cross_entropy(ts.topk(s, 1, method)[1], torch.tensor(0)), torch.tensor([0.0, 9.0])
    )
    torch.testing.assert_close(gradient, torch.tensor([-124.0, 124.0]))


# Pairs


def test_pairwise_loss_is_ranknet_over_untied_pairs() -> None:
    scores, truth = torch.randn(8, 5, dtype=torch.float64), torch.randint(0, 3, (8, 5))
    truth[:, 0] = 5
    sums, numbers = torch.zeros(8, dtype=torch.float64), torch.zeros(8)
    for r, i, j in itertools.product(range(8), range(5), range(5)):
        if truth[r, i] < truth[r, j]:
            sums[r] += torch.log1p(torch.exp(scores[r, i] - scores[r, j]))
            numbers[r] += 1
    torch.testing.assert_close(losses.pairwise_logistic_loss(scores, truth), (sums / numbers).mean())
    torch.testing.assert_close(losses.pairwise_logistic_loss(scores, truth, reduction="sum"), sums.mean())
    assert losses.pairwise_logistic_loss(scores, torch.ones(8, 5)) == 0


# Bad input


X, P, PAYLOAD = torch.rand(2, 3), torch.rand(2, 3, 3), torch.rand(2, 3, 4)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: losses.permutation_loss(X, X), ValueError, r"P has shape \(2, 3\)"),
        (lambda: losses.permutation_loss(P.long(), X), TypeError, "P is a tensor of torch.int64"),
        (lambda: losses.permutation_loss(P, X[0]), ValueError, r"truth has shape \(3,\); P needs"),
        (lambda: losses.permutation_loss(P, [1, 2]), TypeError, r"truth is \[1, 2\]"),
        (lambda: losses.permutation_loss(P, X, reduction="none"), ValueError, "reduction is 'none'; choose one of"),
        (lambda: losses.permutation_loss(P, X, mask=X), TypeError, "mask is a tensor of torch.float32"),
        (lambda: losses.permutation_loss(P, X, mask=P > 0), ValueError, r"mask has shape \(2, 3, 3\)"),
        (lambda: losses.reorder_loss(X, PAYLOAD.long(), X), TypeError, "payload is a tensor of torch.int64"),
        (lambda: losses.reorder_loss(X, PAYLOAD[0], X), ValueError, r"payload has shape \(3, 4\)"),
        (lambda: losses.reorder_loss(X, PAYLOAD, X, split=1), ValueError, "split is 1"),
        (lambda: losses.reorder_loss(X, PAYLOAD, X, split=2.5), ValueError, "split is 2.5"),
        (lambda: losses.reorder_loss(X, PAYLOAD, X, "network"), TypeError, "method is 'network'"),
        (lambda: losses.spearman_loss(X.long(), X), TypeError, "scores is a tensor of torch.int64"),
        (lambda: losses.spearman_loss(X[0, 0], X[0, 0]), ValueError, r"scores has shape \(\)"),
        (lambda: losses.ndcg_loss(X, X[0]), ValueError, r"relevance has shape \(3,\)"),
        (lambda: losses.ndcg_loss(X, X, k=0), ValueError, "k is 0"),
        (lambda: losses.topk_cross_entropy(X[0], X), TypeError, "selection is"),
        (lambda: losses.topk_cross_entropy(P, X), TypeError, "truth is a tensor of torch.float32"),
        (lambda: losses.topk_cross_entropy(P, X.long()), ValueError, r"truth has shape \(2, 3\)"),
        (lambda: losses.pairwise_logistic_loss(X, X, reduction="max"), ValueError, "reduction is 'max'"),
    ],
)
def test_wrong_arguments_are_named(call, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()
