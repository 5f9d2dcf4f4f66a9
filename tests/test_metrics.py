"""Metrics agree with scipy and scikit-learn, or with the paper's formula written out, row by row and under masks."""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch
from sklearn.metrics import ndcg_score
from torch import Tensor

from truesort import metrics

SCORES_AND_TRUTH = [
    metrics.exact_match,
    metrics.element_wise,
    metrics.kendall_tau,
    metrics.spearman_rho,
    metrics.ndcg,
]


def permutation_matrix(values: Tensor) -> Tensor:
    order = values.argsort(dim=-1, stable=True)
    return torch.nn.functional.one_hot(order, values.shape[-1]).transpose(-1, -2).to(torch.float64)


def papers_matches(scores: Tensor, P: Tensor, P_gt: Tensor) -> Tensor:
    """The paper's 1([argsort(P_gtᵀs)]_j = [argsort(Pᵀs)]_j)."""
    first = (P_gt.mT @ scores.unsqueeze(-1)).squeeze(-1).argsort(dim=-1, stable=True)
    return first == (P.mT @ scores.unsqueeze(-1)).squeeze(-1).argsort(dim=-1, stable=True)


def examples(ties: bool, batch: int = 50, n: int = 6) -> tuple[Tensor, Tensor]:
    if ties:
        return torch.randint(0, 4, (batch, n)).double(), torch.randint(0, 4, (batch, n)).double()
    return torch.randn(batch, n, dtype=torch.float64), torch.randn(batch, n, dtype=torch.float64)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_accuracies_are_the_papers(n: int) -> None:
    scores, truth = examples(False, 200, n)
    truth[::3] = scores[::3] * 2 + 1
    matches = papers_matches(scores, permutation_matrix(scores), permutation_matrix(truth))
    for told in (truth, permutation_matrix(truth)):
        torch.testing.assert_close(metrics.exact_match(scores, told), matches.all(-1).double())
        torch.testing.assert_close(metrics.element_wise(scores, told), matches.double().mean(-1))


def test_accuracies_read_a_matrix_as_they_read_its_scores() -> None:
    scores, truth = examples(True)
    for tie_aware in (False, True):
        P = permutation_matrix(scores)
        for of_matrix, of_scores in (
            (metrics.permutation_exact_match, metrics.exact_match),
            (metrics.permutation_element_wise, metrics.element_wise),
        ):
            expected = of_scores(scores, truth, tie_aware=tie_aware)
            torch.testing.assert_close(of_matrix(P, truth, tie_aware=tie_aware), expected)


def test_a_soft_matrix_names_the_largest_weight_of_each_column() -> None:
    P = torch.tensor([[0.5, 0.1, 0.4], [0.3, 0.5, 0.2], [0.2, 0.4, 0.4]])
    assert metrics.permutation_exact_match(P, torch.tensor([0, 1, 2])) == 0  # column 2 names item 0 again
    torch.testing.assert_close(metrics.permutation_element_wise(P, torch.tensor([0, 1, 2])), torch.tensor(2 / 3))


def test_tie_aware_accuracies_allow_exactly_the_orders_that_sort_the_truth() -> None:
    truth = torch.tensor([2, 1, 2, 1, 3])
    for order in itertools.permutations(range(5)):
        scores = torch.tensor(order).argsort().float()
        is_sorted = bool((truth[list(order)].diff() >= 0).all())
        assert metrics.exact_match(scores, truth, tie_aware=True) == is_sorted
        right = (truth[list(order)] == truth.sort().values).float().mean()
        torch.testing.assert_close(metrics.element_wise(scores, truth, tie_aware=True), right)
        strict = order == (1, 3, 0, 2, 4)
        assert metrics.exact_match(scores, truth) == strict


def test_tied_scores_keep_their_input_order_so_a_constant_score_is_no_oracle() -> None:
    truth = torch.tensor([[0.0, 1, 2], [0, 2, 1]])
    torch.testing.assert_close(metrics.exact_match(torch.zeros(2, 3), truth), torch.tensor([1.0, 0]))
    torch.testing.assert_close(metrics.element_wise(torch.zeros(2, 3), truth), torch.tensor([1.0, 1 / 3]))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(metrics.kendall_tau, scipy.stats.kendalltau), (metrics.spearman_rho, scipy.stats.spearmanr)],
    ids=["kendall", "spearman"],
)
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_correlations_are_those_of_scipy(ours, theirs, ties: bool) -> None:
    scores, truth = examples(ties)
    scores[0], truth[1] = 1.0, 2.0
    expected = torch.tensor([theirs(a, b).statistic for a, b in zip(scores.numpy(), truth.numpy(), strict=True)])
    assert expected[:2].isnan().all()
    torch.testing.assert_close(ours(scores, truth), expected.double(), equal_nan=True)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("k", [None, 1, 3, 6, 10])
def test_ndcg_is_that_of_scikit_learn(ties: bool, k: int | None) -> None:
    scores, relevance = examples(ties)
    relevance = relevance.abs()
    relevance[0] = 0
    expected = [ndcg_score(r[None], s[None], k=k) for s, r in zip(scores.numpy(), relevance.numpy(), strict=True)]
    torch.testing.assert_close(metrics.ndcg(scores, relevance, k=k), torch.tensor(np.array(expected)))


@pytest.mark.parametrize("metric", SCORES_AND_TRUTH)
@pytest.mark.parametrize("ties", [False, True])
def test_padding_changes_nothing(metric, ties: bool) -> None:
    scores, truth = examples(ties, 40, 7)
    truth = truth.abs()
    mask = torch.rand(40, 7) < 0.6
    mask[:, :2] = True
    dirty_scores = torch.where(mask, scores, torch.nan)
    dirty_truth = torch.where(mask, truth, torch.nan)
    for row in range(40):
        alone = metric(scores[row][mask[row]], truth[row][mask[row]])
        torch.testing.assert_close(metric(dirty_scores, dirty_truth, mask=mask)[row], alone, equal_nan=True)


@pytest.mark.parametrize("of_matrix", [metrics.permutation_exact_match, metrics.permutation_element_wise])
def test_padding_changes_nothing_of_a_matrix(of_matrix) -> None:
    P = torch.tensor([[0.0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]])
    mask = torch.tensor([True, False, True, True])
    assert of_matrix(P, torch.tensor([5.0, 1, 2, 9]), mask=mask) == 1
    truth = torch.tensor([2.0, 1, 5, 9])
    expected = 0 if of_matrix is metrics.permutation_exact_match else 1 / 3
    torch.testing.assert_close(of_matrix(P, truth, mask=mask), torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize("metric", SCORES_AND_TRUTH)
def test_any_batch_shape_and_dtype(metric) -> None:
    scores, truth = torch.randn(2, 3, 5), torch.randint(0, 3, (2, 3, 5))
    flat = metric(scores.reshape(6, 5), truth.reshape(6, 5))
    torch.testing.assert_close(metric(scores, truth).reshape(6), flat, equal_nan=True)
    assert flat.dtype == torch.float32
    assert metric(scores.double(), truth).dtype == torch.float64
    assert metric(scores.half(), truth).dtype == torch.float32
    assert metric(scores.long(), truth).dtype == torch.float32
    assert metric(scores[0, 0], truth[0, 0]).shape == ()


def test_empty_sequences() -> None:
    nothing = torch.empty(2, 0)
    for metric, value in zip(SCORES_AND_TRUTH, (1.0, 1.0, torch.nan, torch.nan, 0.0), strict=True):
        torch.testing.assert_close(metric(nothing, nothing), torch.full((2,), value), equal_nan=True)
        hidden = metric(torch.ones(2, 3), torch.ones(2, 3), mask=torch.zeros(2, 3, dtype=torch.bool))
        torch.testing.assert_close(hidden, torch.full((2,), value), equal_nan=True)
    assert metrics.permutation_exact_match(torch.empty(2, 0, 0), nothing).tolist() == [1, 1]


def test_a_nan_score_is_never_right_and_spoils_only_its_own_row() -> None:
    scores = torch.tensor([[0.0, 1, torch.nan], [0, 1, 2]])
    truth = torch.tensor([[0.0, 1, 2], [0, 1, 2]])
    assert metrics.exact_match(scores, truth).tolist() == [0, 1]
    torch.testing.assert_close(metrics.element_wise(scores, truth), torch.tensor([2 / 3, 1]))
    for metric in (metrics.kendall_tau, metrics.spearman_rho, metrics.ndcg):
        assert metric(scores, truth).isnan().tolist() == [True, False]
    P = torch.eye(3).repeat(2, 1, 1)
    P[0] = torch.nan
    assert metrics.permutation_element_wise(P, truth).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda s: metrics.exact_match(s, s[0]), ValueError, r"truth has shape \(3,\); scores needs"),
        (lambda s: metrics.exact_match(s.tolist(), s), TypeError, "scores is"),
        (lambda s: metrics.exact_match(s, s.tolist()), TypeError, "truth is"),
        (lambda s: metrics.exact_match(s[0, 0], s[0, 0]), ValueError, r"scores has shape \(\)"),
        (lambda s: metrics.kendall_tau(s, s, mask=s), TypeError, "mask is a tensor of torch.float32"),
        (lambda s: metrics.spearman_rho(s, s, mask=s[0] > 0), ValueError, r"mask has shape \(3,\)"),
        (lambda s: metrics.ndcg(s, s[0]), ValueError, r"relevance has shape \(3,\)"),
        (lambda s: metrics.ndcg(s, s - 10), ValueError, "relevance has entries below 0"),
        (lambda s: metrics.ndcg(s, s, k=0), ValueError, "k is 0"),
        (lambda s: metrics.ndcg(s, s, k=1.5), ValueError, "k is 1.5"),
        (lambda s: metrics.permutation_exact_match(s, s), ValueError, r"P is \(2, 3\)"),
        (lambda s: metrics.permutation_element_wise(torch.eye(3), s), ValueError, "P needs true values of shape"),
    ],
)
def test_wrong_arguments_are_named(call, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call(torch.rand(2, 3))
