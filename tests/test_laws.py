"""The table of promises, law by law, over every method × layout × swap, with random dtypes, dims, ties and masks."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

import truesort as ts
from promises import laws, table
from variants import Problem, close, problems, short, variants

LAWS_TESTED_HERE = {
    "exact", "builds P", "columns", "rows", "weighs", "reorders",
    "follows", "shifts", "mirrors", "hardens", "pads", "smooth",
}  # fmt: skip
few = settings(max_examples=3, deadline=None, database=None)
PRECISE = [torch.float64, torch.float32]


def lanes(x: Tensor, dim: int) -> Tensor:
    return x.movedim(dim, -1)


def weights_for(result: Tensor) -> Tensor:
    """Fixed weights that turn a result into a number whose gradient can be compared."""
    return (
        torch.linspace(-1, 2, max(result.numel(), 1), dtype=torch.float64)[: result.numel()]
        .reshape(result.shape)
        .to(result)
    )


def gradient(result: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((result * weights_for(result)).sum(), inputs, retain_graph=True, materialize_grads=True)


def test_every_law_of_the_table_is_tested() -> None:
    assert set(laws()) == LAWS_TESTED_HERE
    assert len(table()) >= 7


@pytest.mark.parametrize("method", variants("exact"))
@few
@given(problem=problems())
def test_exact(method: Any, problem: Problem) -> None:
    x, dim, _ = problem
    order = x.sort(dim=dim, stable=True)
    values = ts.sort(x, method, **problem.options)
    if problem.mask is None:
        assert torch.equal(values, order.values)
        assert torch.equal(ts.rank(x, method, dim=dim).long(), order.indices.argsort(dim))
    matrix = ts.permutation(x, method, **problem.options)
    assert ((matrix == 0) | (matrix == 1)).all()
    moved = torch.einsum("...ij,...i->...j", matrix, lanes(x, dim))
    assert torch.equal(moved, lanes(values, dim))
    ranks = ts.rank(x, method, **problem.options)
    assert torch.equal(matrix.argmax(-1).to(x.dtype) if x.shape[dim] else lanes(ranks, dim), lanes(ranks, dim))


@pytest.mark.parametrize("method", variants("builds P"))
@few
@given(problem=problems())
def test_builds_p(method: Any, problem: Problem) -> None:
    n = problem.x.shape[problem.dim]
    matrix = ts.permutation(problem.x, method, **problem.options)
    assert matrix.shape == (*lanes(problem.x, problem.dim).shape, n)
    assert matrix.dtype == problem.x.dtype
    assert (matrix >= 0).all()
    values, selection = ts.topk(problem.x, n // 2, method, largest=False, **problem.options)
    close(selection, matrix[..., : n // 2])
    close(values, ts.sort(problem.x, method, **problem.options).narrow(problem.dim, 0, n // 2))


@pytest.mark.parametrize("method", [method for method, promise in table().items() if not promise["builds P"]])
def test_no_p_says_who_has_one(method: str) -> None:
    x = torch.randn(4)
    method = eval(method, vars(ts))
    for ask in (ts.permutation, lambda x, m: ts.topk(x, 2, m), lambda x, m: ts.reorder(x, x, m)):
        with pytest.raises(TypeError, match=r"Permutahedron.*Network, NeuralSort, SoftSort and Sinkhorn"):
            ask(x, method)


@pytest.mark.parametrize("method", variants("columns"))
@few
@given(problem=problems())
def test_columns(method: Any, problem: Problem) -> None:
    sums = ts.permutation(problem.x, method, **problem.options).sum(-2)
    close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("method", variants("rows"))
@few
@given(problem=problems())
def test_rows(method: Any, problem: Problem) -> None:
    sums = ts.permutation(problem.x, method, **problem.options).sum(-1)
    close(sums, torch.ones_like(sums), within=method.tolerance if isinstance(method, ts.Sinkhorn) else 0.0)


@pytest.mark.parametrize("method", variants("weighs"))
@few
@given(problem=problems())
def test_weighs(method: Any, problem: Problem) -> None:
    matrix = ts.permutation(problem.x, method, **problem.options)
    values = torch.einsum("...ij,...i->...j", matrix, lanes(problem.x, problem.dim))
    close(values, lanes(ts.sort(problem.x, method, **problem.options), problem.dim), scale=8)


@pytest.mark.parametrize("method", variants("reorders"))
@few
@given(problem=problems(dtypes=PRECISE))
def test_reorders(method: Any, problem: Problem) -> None:
    keys = problem.x.clone().requires_grad_()
    payload = torch.sin(torch.arange(keys.numel() * 2)).reshape(*keys.shape, 2).to(keys.dtype).requires_grad_()
    moved = ts.reorder(keys, payload, method, **problem.options)
    matrix = ts.permutation(keys, method, **problem.options)
    by_hand = torch.einsum("...ij,...ic->...jc", matrix, payload.movedim(problem.dim % keys.ndim, -2))
    by_hand = by_hand.movedim(-2, problem.dim % keys.ndim)
    close(moved, by_hand)
    for ours, theirs in zip(gradient(moved, keys, payload), gradient(by_hand, keys, payload), strict=True):
        close(ours, theirs, scale=50)


@pytest.mark.parametrize("method", variants("follows"))
@few
@given(problem=problems(dtypes=PRECISE, masked=False, distinct=True))
def test_follows(method: Any, problem: Problem) -> None:
    x, dim, _ = problem
    shuffle = torch.randperm(x.shape[dim], generator=torch.Generator().manual_seed(x.numel()))
    moved = x.index_select(dim, shuffle)
    close(ts.sort(moved, method, dim=dim), ts.sort(x, method, dim=dim), scale=10)
    close(ts.rank(moved, method, dim=dim), ts.rank(x, method, dim=dim).index_select(dim, shuffle), scale=10)
    if table_promises(method, "builds P"):
        close(ts.permutation(moved, method, dim=dim), ts.permutation(x, method, dim=dim)[..., shuffle, :], scale=10)


@pytest.mark.parametrize("method", variants("shifts"))
@few
@given(problem=problems(dtypes=PRECISE))
def test_shifts(method: Any, problem: Problem) -> None:
    x, options = problem.x, problem.options
    close(ts.sort(x + 2, method, **options), ts.sort(x, method, **options) + 2, scale=10)
    close(ts.rank(x + 2, method, **options), ts.rank(x, method, **options), scale=10)
    if table_promises(method, "builds P"):
        close(ts.permutation(x + 2, method, **options), ts.permutation(x, method, **options), scale=10)


@pytest.mark.parametrize("method", variants("mirrors"))
@few
@given(problem=problems())
def test_mirrors(method: Any, problem: Problem) -> None:
    x, options = problem.x, problem.options
    assert torch.equal(ts.sort(x, method, descending=True, **options), -ts.sort(-x, method, **options))
    assert torch.equal(ts.rank(x, method, descending=True, **options), ts.rank(-x, method, **options))
    if table_promises(method, "builds P"):
        down = ts.permutation(x, method, descending=True, **options)
        assert torch.equal(down, ts.permutation(-x, method, **options))


def sharpened(method: Any) -> Any:
    match method:
        case ts.Network():
            return replace(method, steepness=1e9)
        case ts.Permutahedron():
            return replace(method, strength=1e-3)
        case ts.Sinkhorn():
            return replace(method, temperature=2e-3)
        case _:
            return replace(method, temperature=1e-4)


@pytest.mark.parametrize("method", variants("hardens"))
@few
@given(problem=problems(dtypes=[torch.float64], distinct=True))
def test_hardens(method: Any, problem: Problem) -> None:
    x, options, sharp = problem.x, problem.options, sharpened(method)
    assert (ts.sort(x, sharp, **options) - ts.sort(x, **options)).abs().le(1e-4).all()
    assert (ts.rank(x, sharp, **options) - ts.rank(x, **options)).abs().le(1e-4).all()
    if table_promises(method, "builds P"):
        assert (ts.permutation(x, sharp, **options) - ts.permutation(x, **options)).abs().le(1e-4).all()


@pytest.mark.parametrize("method", variants("pads"))
@few
@given(problem=problems(dtypes=PRECISE, masked=True))
def test_pads(method: Any, problem: Problem) -> None:
    assert problem.mask is not None
    if problem.x.numel() == 0:
        return
    x = lanes(problem.x, problem.dim).reshape(-1, problem.x.shape[problem.dim]).clone()
    mask = lanes(problem.mask, problem.dim).reshape(x.shape)
    x[~mask & (x > 0)] = torch.nan  # what padding holds must not matter
    x.requires_grad_()
    for row in range(len(x)):
        _pads_one(method, x[row], mask[row])


def _pads_one(method: Any, x: Tensor, mask: Tensor) -> None:
    real, k = x[mask], int(mask.sum())
    pairs = [
        (ts.sort(x, method, mask=mask)[:k], ts.sort(real, method)),
        (ts.rank(x, method, mask=mask)[mask], ts.rank(real, method)),
    ]
    if table_promises(method, "builds P"):
        pairs.append((ts.permutation(x, method, mask=mask)[mask][:, :k], ts.permutation(real, method)))
    for padded, bare in pairs:
        close(padded, bare, scale=5)
        (ours,), (theirs,) = gradient(padded, x), gradient(bare, x)
        close(ours, theirs, scale=50)
        assert (ours[~mask] == 0).all()


@pytest.mark.parametrize("method", variants("smooth"))
def test_smooth(method: Any) -> None:
    x = torch.tensor([0.31, -1.2, 0.9, 0.05], dtype=torch.float64, requires_grad=True)
    with ts.backend("reference"):
        for ask in _questions(method):
            assert torch.autograd.gradcheck(lambda x, ask=ask: ask(x, method), x)
            assert torch.autograd.gradgradcheck(lambda x, ask=ask: ask(x, method), x)


def _questions(method: Any) -> list[Any]:
    questions = [ts.sort, ts.rank, lambda x, m: ts.quantile(x, 0.4, m)]
    if table_promises(method, "builds P"):
        questions += [ts.permutation, lambda x, m: ts.reorder(x, x * x, m), lambda x, m: ts.topk(x, 2, m)[1]]
    return questions


def table_promises(method: Any, law: str) -> bool:
    return any(short(variant.values[0]) == short(method) for variant in variants(law))


@pytest.mark.parametrize("method", [variant for law in ("exact", "smooth") for variant in variants(law)])
class TestEveryMethod:
    def test_nan_spoils_its_row_and_no_other(self, method: Any) -> None:
        x = torch.tensor([[1.0, torch.nan, 0.0], [2.0, 0.5, 1.0]], requires_grad=True)
        spoilt, clean = ts.sort(x, method)
        assert spoilt.isnan().all()
        close(clean, ts.sort(x[1], method))
        assert ts.rank(x, method)[0].isnan().all()
        (grad,) = torch.autograd.grad(ts.sort(x, method)[1].sum(), x)
        assert grad.isfinite().all()
        if table_promises(method, "builds P"):
            matrix = ts.permutation(x, method)
            assert matrix[0].isnan().all()
            close(matrix[1], ts.permutation(x[1], method))

    def test_infinities_go_to_the_ends(self, method: Any) -> None:
        x = torch.tensor([0.5, torch.inf, -1.0, -torch.inf, torch.inf, 2.0], dtype=torch.float64, requires_grad=True)
        values = ts.sort(x, method)
        assert values[0] == -torch.inf
        assert (values[-2:] == torch.inf).all()
        assert values[1:-2].isfinite().all()
        ranks = ts.rank(x, method)
        assert ranks[3] == 0
        (grad,) = torch.autograd.grad(values[1:-2].sum() + ranks[[0, 2, 5]].sum(), x)
        assert grad.isfinite().all()
        assert (grad[[1, 3, 4]] == 0).all()
        if table_promises(method, "builds P"):
            matrix = ts.permutation(x, method)
            close(matrix.sum(-2), torch.ones(6, dtype=torch.float64), scale=100)
            assert matrix[3, 0] == 1

    @pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (0, 3), (2, 1)])
    def test_empty_and_single(self, method: Any, shape: tuple[int, ...]) -> None:
        x = torch.randn(shape, requires_grad=True)
        values, ranks = ts.sort(x, method), ts.rank(x, method)
        assert values.shape == ranks.shape == x.shape
        if shape[-1] < 2:
            assert torch.equal(values, x)
            assert (ranks == 0).all()
        (grad,) = torch.autograd.grad(ranks.sum(), x)
        assert (grad == 0).all()
        values.sum().backward()

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_computes_in_single(self, method: Any, dtype: torch.dtype) -> None:
        x = torch.tensor([0.5, -1.25, 3.0, 0.75], dtype=dtype)
        assert torch.equal(ts.rank(x, method), ts.rank(x.float(), method).to(dtype))
        assert torch.equal(ts.sort(x, method), ts.sort(x.float(), method).to(dtype))
