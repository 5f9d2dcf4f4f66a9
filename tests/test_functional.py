"""Shapes, directions, bad arguments, and torch's own machinery around the public functions."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import truesort as ts
from variants import SOFT_NETWORKS, close

SOFT = ts.Network(error_free=False)
NETWORKS = [ts.Network(), ts.Network(backward="matrix"), SOFT, SOFT_NETWORKS[8], ts.Network("bitonic", "cauchy")]
some_networks = pytest.mark.parametrize("net", NETWORKS, ids=repr)


class TestQuantile:
    @given(q=st.floats(0, 1), seed=st.integers(0, 999), dim=st.integers(-2, 1))
    def test_hard_is_torch_quantile(self, q: float, seed: int, dim: int) -> None:
        x = torch.randn(4, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        close(ts.quantile(x, q, dim=dim), torch.quantile(x, q, dim=dim))

    def test_several_levels_come_first(self) -> None:
        x, q = torch.randn(2, 5, 3), torch.tensor([0.0, 0.3, 1.0])
        assert ts.quantile(x, q, dim=1).shape == (3, 2, 3)
        close(ts.quantile(x, q, dim=1), torch.quantile(x, q, dim=1))
        assert ts.quantile(x[0, :, 0], q).shape == (3,)

    def test_masks_leave_a_shorter_row(self) -> None:
        x = torch.tensor([[3.0, 9.0, 1.0, 2.0], [5.0, 1.0, 1.0, 1.0]])
        mask = torch.tensor([[True, False, True, True], [False, False, False, False]])
        assert ts.median(x, mask=mask)[0] == 2
        assert ts.median(x, mask=mask)[1].isnan()

    def test_infinities(self) -> None:
        x = torch.tensor([1.0, torch.inf, torch.inf, 0.0])
        assert ts.quantile(x, 1.0) == torch.inf
        assert ts.quantile(x, 0.9) == torch.inf
        assert ts.quantile(x, 0.0) == 0

    def test_gradient_reaches_the_neighbours(self) -> None:
        x = torch.tensor([0.2, 0.1, 0.4, 0.3], requires_grad=True)
        ts.median(x).backward()
        assert x.grad is not None
        assert (x.grad != 0).sum() >= 2


class TestTopk:
    @pytest.mark.parametrize("largest", [True, False])
    @pytest.mark.parametrize("k", [0, 1, 3, 6])
    def test_hard_is_torch_topk(self, k: int, largest: bool) -> None:
        x = torch.randn(3, 6, 2)
        values, selection = ts.topk(x, k, dim=1, largest=largest)
        expected = torch.topk(x, k, dim=1, largest=largest)
        assert torch.equal(values, expected.values)
        assert selection.shape == (3, 2, 6, k)
        assert torch.equal(selection.argmax(-2).movedim(-1, 1), expected.indices)

    def test_soft_is_the_head_of_p(self) -> None:
        x = torch.randn(3, 9, requires_grad=True)
        values, selection = ts.topk(x, 4, SOFT, largest=True)
        whole = ts.permutation(x, SOFT, descending=True)[..., :4]
        close(selection, whole)
        (a,), (b,) = (torch.autograd.grad(s.square().sum(), x, retain_graph=True) for s in (selection, whole))
        close(a, b, scale=10)
        close(values, ts.sort(x, SOFT, descending=True)[:, :4])


class TestReorder:
    def test_features_of_any_shape(self) -> None:
        keys, payload = torch.randn(2, 4, 3), torch.randn(2, 4, 3, 5, 6)
        moved = ts.reorder(keys, payload, dim=1)
        order = keys.argsort(1)[..., None, None].expand_as(payload)
        assert torch.equal(moved, payload.gather(1, order))

    def test_payload_keeps_its_type(self) -> None:
        keys = torch.randn(4)
        for dtype in (torch.float64, torch.float32, torch.float16):
            assert ts.reorder(keys, torch.arange(4).to(dtype)).dtype == dtype

    def test_error_free_payload_gradient_is_a_gather(self) -> None:
        keys, payload = torch.tensor([2.0, 0.0, 1.0]), torch.randn(3, 2, requires_grad=True)
        upstream = torch.randn(3, 2)
        (grad,) = torch.autograd.grad(ts.reorder(keys, payload), payload, upstream)
        assert torch.equal(grad, upstream[[2, 0, 1]])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ts.sort([1.0]), TypeError, r"x is \[1.0\] of type list"),
        (lambda x: ts.sort(x.long()), TypeError, r"x has dtype torch.int64.*x.float\(\)"),
        (lambda x: ts.sort(x[0, 0]), ValueError, "x has no dims"),
        (lambda x: ts.rank(x, dim=2), ValueError, "dim is 2; for x of 2 dims it must lie between -2 and 1"),
        (lambda x: ts.rank(x, dim=True), ValueError, "dim is True"),
        (lambda x: ts.sort(x, "optimal"), TypeError, r"method is 'optimal'; .*ts.Network\(\)"),
        (lambda x: ts.sort(x, mask=x), TypeError, "mask is a tensor of torch.float32"),
        (lambda x: ts.sort(x, mask=x[0] > 0), ValueError, r"mask has shape \(3,\); it must have that of x, \(2, 3\)"),
        (lambda x: ts.topk(x, 4), ValueError, "k is 4; it must be a whole number from 0 to 3"),
        (lambda x: ts.topk(x, -1), ValueError, "k is -1"),
        (lambda x: ts.topk(x, 1.5), ValueError, "k is 1.5"),
        (lambda x: ts.quantile(x, 1.2), ValueError, "q is 1.2; it must lie between 0 and 1"),
        (lambda x: ts.quantile(x, torch.tensor([0.1, -1])), ValueError, "every level must lie between 0 and 1"),
        (lambda x: ts.quantile(x, torch.zeros(1, 1)), ValueError, "1-dimensional"),
        (lambda x: ts.quantile(x[:, :0], 0.5), ValueError, "size 0"),
        (lambda x: ts.reorder(x, x[0]), ValueError, r"payload has shape \(3,\); it must begin with the shape of keys"),
        (lambda x: ts.reorder(x, x.long()), TypeError, "payload is a tensor of torch.int64"),
        (lambda x: ts.Network(layout="bubble"), ValueError, "layout is 'bubble'; choose one of 'odd_even'"),
        (lambda x: ts.Network(swap="hard"), ValueError, "swap is 'hard'; choose one of 'logistic'"),
        (lambda x: ts.Network(steepness=0), ValueError, "steepness is 0; it must be a positive finite number"),
        (lambda x: ts.Network(steepness=float("nan")), ValueError, "steepness is nan"),
        (lambda x: ts.Network(art=1.0), ValueError, "art is 1.0; it must be at least 0 and below 1"),
        (lambda x: ts.Network(error_free=1), ValueError, "error_free is 1"),
        (lambda x: ts.Network(backward="soft"), ValueError, "backward is 'soft'; choose one of 'swap', 'matrix'"),
        (lambda x: ts.NeuralSort(-1.0), ValueError, "temperature is -1.0"),
        (lambda x: ts.backend("tpu").__enter__(), ValueError, "backend is 'tpu'; choose one of 'auto'"),
        (lambda x: ts.sort(torch.zeros(1, 20_000), ts.Network()), ValueError, "layout='merge_exchange' sorts as many"),
    ],
)
def test_bad_arguments_are_named(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(torch.randn(2, 3))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_forcing_a_backend_that_cannot_serve_says_why() -> None:
    with (
        pytest.raises(RuntimeError, match=r"backend 'cuda' cannot serve here: .*; use ts\.backend"),
        ts.backend("cuda"),
    ):
        pass
    with ts.backend("reference"):
        assert ts.sort(torch.tensor([2.0, 1.0])).tolist() == [1, 2]


def test_methods_are_values() -> None:
    assert ts.Network() == ts.Network("odd_even", "optimal", 10.0, 0.25, True, "swap")
    assert ts.Network(steepness=3) != ts.Network()
    assert len({ts.Network(), ts.Network(), ts.SoftSort()}) == 2
    assert repr(ts.Network()).startswith("Network(layout='odd_even', swap='optimal'")


def everything(x: torch.Tensor, net: ts.Network) -> tuple[torch.Tensor, ...]:
    values, selection = ts.topk(x, 2, net)
    answers = (ts.sort(x, net), ts.rank(x, net), ts.permutation(x, net), ts.median(x, net))
    return (*answers, ts.reorder(x, x[..., None] ** 2, net), values, selection)


def loss(x: torch.Tensor, net: ts.Network) -> torch.Tensor:
    parts = everything(x, net)
    return torch.stack([(part.cos() * torch.arange(part.numel()).reshape(part.shape)).sum() for part in parts]).sum()


@some_networks
class TestTransforms:
    def test_vmap(self, net: ts.Network) -> None:
        x = torch.randn(3, 2, 5)
        for ours, theirs in zip(torch.func.vmap(lambda x: everything(x, net))(x), everything(x, net), strict=True):
            close(ours, theirs)

    def test_vmap_of_grad_and_payload_alone(self, net: ts.Network) -> None:
        x = torch.randn(3, 5)
        grads = torch.func.vmap(torch.func.grad(lambda x: loss(x, net)))(x)
        for row, grad in zip(x, grads, strict=True):
            row = row.clone().requires_grad_()
            close(grad, torch.autograd.grad(loss(row, net), row)[0], scale=20)
        payload = torch.randn(4, 5, 2)
        moved = torch.func.vmap(lambda p: ts.reorder(x[0], p, net))(payload)
        close(moved, ts.reorder(x[0].expand(4, 5), payload, net))

    def test_compile_and_export(self, net: ts.Network) -> None:
        x = torch.randn(3, 4, requires_grad=True)
        compiled = torch.compile(lambda x: loss(x, net), fullgraph=True, backend="aot_eager")
        close(compiled(x), loss(x, net), scale=20)
        (ours,), (theirs,) = (torch.autograd.grad(f(x), x) for f in (compiled, lambda x: loss(x, net)))
        close(ours, theirs, scale=20)

        class Module(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
                return everything(x, net)

        exported = torch.export.export(Module(), (x.detach(),)).module()
        for a, b in zip(exported(x.detach()), everything(x.detach(), net), strict=True):
            close(a, b)

    def test_autocast_stays_out_of_the_way(self, net: ts.Network) -> None:
        x = torch.randn(2, 6)
        with torch.autocast("cpu", torch.bfloat16):
            inside = everything(x, net)
        for ours, theirs in zip(inside, everything(x, net), strict=True):
            assert ours.dtype == torch.float32
            close(ours, theirs)

    def test_masks_compile(self, net: ts.Network) -> None:
        x, mask = torch.randn(3, 4), torch.rand(3, 4) > 0.4
        compiled = torch.compile(lambda x, m: ts.permutation(x, net, mask=m), fullgraph=True, backend="aot_eager")
        close(compiled(x, mask), ts.permutation(x, net, mask=mask))


def test_compile_with_the_real_compiler() -> None:
    x = torch.randn(3, 4)
    compiled = torch.compile(lambda x: ts.permutation(x * 2, SOFT).square(), fullgraph=True)
    close(compiled(x), ts.permutation(x * 2, SOFT).square())


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_second_derivatives(backend: str) -> None:
    x = torch.tensor([0.31, -1.2, 0.9, 0.05], dtype=torch.float64, requires_grad=True)
    net = ts.Network(swap="cauchy", error_free=False)
    with ts.backend(backend):
        assert torch.autograd.gradcheck(lambda x: everything(x, net), x)
        assert torch.autograd.gradgradcheck(lambda x: everything(x, net), x)
