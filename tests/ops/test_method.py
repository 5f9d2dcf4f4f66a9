"""The laws of every method but the networks, at the interface that `functional` calls: rows of keys and a count."""

from dataclasses import FrozenInstanceError, fields, replace

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from truesort.ops import Method, NeuralSort, Permutahedron, Sinkhorn, SoftSort

MATRIX = [
    NeuralSort(0.4),
    SoftSort(0.4),
    SoftSort(0.5, power=2.0),
    SoftSort(0.5, power=0.6),
    Sinkhorn(0.3, tolerance=1e-12),
    Sinkhorn(3.0, gradient="unrolled", iterations=2000, tolerance=1e-12),
]
PROJECTIONS = [Permutahedron(0.7), Permutahedron(0.7, "kl"), Permutahedron(0.1, "kl")]
METHODS = [*MATRIX, *PROJECTIONS]
every_method = pytest.mark.parametrize("method", METHODS, ids=str)
every_matrix = pytest.mark.parametrize("method", MATRIX, ids=str)


def answers(method: Method, keys: Tensor, count: Tensor | None, payload: Tensor) -> dict[str, Tensor]:
    n = keys.shape[-1]
    found = {"sort": method.sort(keys, count, n), "rank": method.rank(keys, count)}
    if not isinstance(method, Permutahedron):
        found["permutation"] = method.permutation(keys, count, n)
        found["reorder"] = method.reorder(keys, payload, count)
    return found


@every_method
@pytest.mark.parametrize("junk", [0.3, torch.inf, -torch.inf, torch.nan])
def test_padding_is_not_felt(method: Method, junk: float) -> None:
    n, counts = 6, [6, 4, 1, 0]
    keys, payload = torch.randn(4, n, dtype=torch.float64), torch.randn(4, n, 2, dtype=torch.float64)
    real = torch.arange(n) < torch.tensor(counts).unsqueeze(-1)
    keys, payload = keys.where(real, junk), payload.where(real.unsqueeze(-1), junk)
    keys.requires_grad_()
    padded = answers(method, keys, torch.tensor(counts), payload)
    for row, k in enumerate(counts):
        alone = keys.detach()[row : row + 1, :k].clone().requires_grad_()
        for name, expected in answers(method, alone, None, payload[row : row + 1, :k]).items():
            got = padded[name][row]
            core = got[:k, :k] if name == "permutation" else got[:k]
            torch.testing.assert_close(core, expected[0], rtol=1e-9, atol=1e-10)
            weight = torch.randn_like(core)
            mine = torch.autograd.grad((core * weight).sum(), keys, retain_graph=True)[0][row]
            theirs = torch.autograd.grad((expected[0] * weight).sum(), alone, retain_graph=True)[0][0]
            torch.testing.assert_close(mine[:k], theirs, rtol=1e-7, atol=1e-9)
            assert not mine[k:].any()
        torch.testing.assert_close(padded["sort"][row, k:], keys[row, k:], equal_nan=True, rtol=0, atol=0)
        assert padded["rank"][row, k:].tolist() == list(range(k, n))
        if "permutation" in padded:
            square = padded["permutation"][row]
            assert torch.equal(square[k:, k:], torch.eye(n - k, dtype=torch.float64))
            assert not square[k:, :k].any()
            assert not square[:k, k:].any()
            torch.testing.assert_close(padded["reorder"][row, k:], payload[row, k:], equal_nan=True, rtol=0, atol=0)


@every_method
def test_derivatives(method: Method) -> None:
    keys = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    count = torch.tensor([4, 3])
    payload = torch.randn(2, 4, 1, dtype=torch.float64, requires_grad=True)
    functions = [lambda x: method.sort(x, count, 3), lambda x: method.rank(x, count)]
    if not isinstance(method, Permutahedron):
        functions.append(lambda x: method.permutation(x, count, 2))
        assert gradcheck(lambda x, y: method.reorder(x, y, count), (keys, payload))
    for function in functions:
        assert gradcheck(function, keys)
        assert gradgradcheck(function, keys, atol=1e-4)


@every_method
def test_items_carry_their_weights_along(method: Method) -> None:
    keys, payload = torch.randn(3, 7, dtype=torch.float64), torch.randn(3, 7, 2, dtype=torch.float64)
    order = torch.randperm(7)
    before, after = answers(method, keys, None, payload), answers(method, keys[:, order], None, payload[:, order])
    for name, expected in before.items():
        expected = expected[:, order] if name in ("rank", "permutation") else expected
        torch.testing.assert_close(after[name], expected, rtol=1e-9, atol=1e-9)


@every_method
def test_a_shift_changes_nothing(method: Method) -> None:
    keys, payload = torch.randn(3, 7, dtype=torch.float64), torch.randn(3, 7, 2, dtype=torch.float64)
    before, after = answers(method, keys, None, payload), answers(method, keys + 37, None, payload)
    for name, expected in before.items():
        torch.testing.assert_close(after[name], expected + 37 * (name == "sort"), rtol=1e-8, atol=1e-8)


@every_method
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_limit_is_hard(method: Method, dtype: torch.dtype) -> None:
    keys, payload = torch.randn(5, 8, dtype=dtype), torch.randn(5, 8, 2, dtype=dtype)
    keys = (keys.argsort(-1).argsort(-1) - 3.5 + 0.4 * torch.rand(5, 8)).to(dtype)  # gaps of at least 0.6
    hard = replace(method, **{fields(method)[0].name: 1e-2})
    order = keys.argsort(-1)
    found = answers(hard, keys, None, payload)
    exact = {"sort": keys.sort(-1).values, "rank": order.argsort(-1).to(dtype)}
    exact["permutation"] = torch.nn.functional.one_hot(order, 8).transpose(-1, -2).to(dtype)
    exact["reorder"] = payload.take_along_dim(order.unsqueeze(-1), 1)
    for name, value in found.items():
        assert value.dtype == dtype
        torch.testing.assert_close(value, exact[name], rtol=1e-5, atol=1e-5)


@every_method
def test_ties_share_and_have_finite_derivatives(method: Method) -> None:
    keys = torch.tensor([[1.0, 2.0, 1.0, 2.0, 2.0]], dtype=torch.float64, requires_grad=True)
    for name, value in answers(method, keys, None, torch.ones(1, 5, 1, dtype=torch.float64)).items():
        (slope,) = torch.autograd.grad(value.square().sum(), keys, create_graph=True, retain_graph=True)
        (bend,) = torch.autograd.grad(slope.square().sum(), keys, retain_graph=True)
        assert slope.isfinite().all()
        assert bend.isfinite().all()
        if name in ("rank", "permutation"):
            torch.testing.assert_close(value[:, 0], value[:, 2])
            torch.testing.assert_close(value[:, 1], value[:, 4])


@every_method
@pytest.mark.parametrize(("rows", "n"), [(0, 0), (0, 3), (2, 0), (2, 1)])
def test_small_sizes(method: Method, rows: int, n: int) -> None:
    keys, payload = torch.randn(rows, n), torch.randn(rows, n, 2)
    for count in (None, torch.full((rows,), n)):
        found = answers(method, keys, count, payload)
        assert torch.equal(found["sort"], keys)
        assert torch.equal(found["rank"], torch.zeros(rows, n))  # shape (0, 3) has no entries
        if "permutation" in found:
            assert torch.equal(found["permutation"], torch.ones(rows, n, n))
            assert torch.equal(found["reorder"], payload)


@every_method
def test_rows_do_not_feel_each_other(method: Method) -> None:
    keys = torch.randn(4, 6, dtype=torch.float64) * torch.tensor([[0.01], [0.2], [1.0], [2.0]])
    together = method.sort(keys, None, 6), method.rank(keys, None)
    for row in range(4):
        alone = method.sort(keys[row : row + 1], None, 6), method.rank(keys[row : row + 1], None)
        for one, many in zip(alone, together, strict=True):
            torch.testing.assert_close(one[0], many[row], rtol=1e-13, atol=1e-13)


@every_method
def test_fewer_outputs_are_the_first_ones(method: Method) -> None:
    keys, count = torch.randn(3, 6, dtype=torch.float64), torch.tensor([6, 4, 1])
    for outputs in (0, 1, 3):
        torch.testing.assert_close(method.sort(keys, count, outputs), method.sort(keys, count, 6)[:, :outputs])
        if not isinstance(method, Permutahedron):
            full = method.permutation(keys, count, 6)
            torch.testing.assert_close(method.permutation(keys, count, outputs), full[..., :outputs])


@pytest.mark.gpu
@every_method
def test_a_gpu_gives_the_same(method: Method) -> None:
    keys, payload = (
        torch.randn(3, 7, dtype=torch.float64, requires_grad=True),
        torch.randn(3, 7, 2, dtype=torch.float64),
    )
    count = torch.tensor([7, 4, 0])
    there = answers(method, keys.cuda(), count.cuda(), payload.cuda())
    for name, here in answers(method, keys, count, payload).items():
        torch.testing.assert_close(there[name].cpu(), here, rtol=1e-9, atol=1e-10)
        weight = torch.randn_like(here)
        slopes = [
            torch.autograd.grad((x * weight.to(x)).sum(), keys, retain_graph=True)[0] for x in (here, there[name])
        ]
        torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-7, atol=1e-9)


@every_matrix
def test_every_position_is_a_mixture_of_items(method: Method) -> None:
    weights = method.permutation(torch.randn(4, 9, dtype=torch.float64), torch.tensor([9, 5, 1, 0]), 9)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-2), torch.ones(4, 9, dtype=torch.float64))
    if isinstance(method, Sinkhorn):
        torch.testing.assert_close(weights.sum(-1), torch.ones(4, 9, dtype=torch.float64))


@pytest.mark.parametrize("method", [NeuralSort(0.7), SoftSort(0.7), Sinkhorn(0.7)], ids=str)
def test_a_pair_stays_with_the_same_weight_in_all(method: Method) -> None:
    gap = torch.tensor([-2.0, -0.1, 0.0, 0.4, 3.0], dtype=torch.float64)
    weights = method.permutation(torch.stack([torch.zeros(5, dtype=torch.float64), gap], -1), None, 2)
    torch.testing.assert_close(weights[:, 0, 0], torch.sigmoid(gap / 0.7), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [NeuralSort, SoftSort, Sinkhorn, Permutahedron])
def test_a_method_is_a_value(kind: type[Method]) -> None:
    first = fields(kind)[0].name
    assert kind() == kind()
    assert len({kind(), kind(**{first: 0.7}), kind()}) == 2
    assert f"{first}=0.7" in repr(kind(**{first: 0.7}))
    with pytest.raises(FrozenInstanceError):
        setattr(kind(), first, 2.0)


@pytest.mark.parametrize("value", [0, -1.0, torch.inf, torch.nan, "1", None, True])
@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (NeuralSort, "temperature"),
        (SoftSort, "temperature"),
        (SoftSort, "power"),
        (Sinkhorn, "temperature"),
        (Sinkhorn, "tolerance"),
        (Permutahedron, "strength"),
    ],
)
def test_numbers_must_be_positive(kind: type[Method], field: str, value: object) -> None:
    with pytest.raises(
        ValueError, match=rf"{kind.__name__}'s {field} is {value!r}; it must be a positive finite number"
    ):
        kind(**{field: value})


@pytest.mark.parametrize("value", [0, -3, 2.0, True, None])
def test_iterations_must_be_whole(value: object) -> None:
    with pytest.raises(ValueError, match=rf"Sinkhorn's iterations is {value!r}; it must be a whole number from 1 up"):
        Sinkhorn(iterations=value)  # type: ignore[arg-type]


def test_names_must_be_known() -> None:
    with pytest.raises(ValueError, match=r"Sinkhorn's gradient is 'exact'; choose one of 'implicit', 'unrolled'"):
        Sinkhorn(gradient="exact")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Permutahedron's regularization is 'L2'; choose one of 'l2', 'kl'"):
        Permutahedron(regularization="L2")  # type: ignore[arg-type]
