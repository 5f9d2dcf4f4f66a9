"""Error-free means bitwise forward, and backward exactly the paper's equations.

The oracle here is written a second time and differently from ops/reference.py: swap by swap as in the paper, with the
stop-gradient written out, on Python lists of scalars.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

import truesort as ts
from truesort.networks import LAYOUTS, network
from truesort.relaxations import sigma
from variants import ERROR_FREE, short

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
BITS = {torch.float64: torch.int64, torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}
TIES = [0.7, -0.2, 0.7, 0.1, -0.2, 0.35]
PLAIN = [0.31, -1.2, 0.9, 0.05, 0.52, -0.4, 2.2]


def stop(x: Tensor) -> Tensor:
    return x.detach()


def paper(x: Tensor, net: ts.Network) -> tuple[Tensor, Tensor]:
    """Values and P of one row by equations 8 to 12, both readings; ties go by the original place."""
    n = len(x)
    values = [x[i] for i in range(n)]
    rows = list(torch.eye(n, dtype=x.dtype))  # what the wires carry: rows of Pᵀ
    rank = x.detach().argsort(stable=True).argsort().tolist()
    for low, high, _ in network(net.layout, n).layers():
        for i, j in zip(low.tolist(), high.tolist(), strict=True):
            stay = sigma(net.swap, values[j] - values[i], net.steepness, net.art)
            leave = sigma(net.swap, values[i] - values[j], net.steepness, net.art)
            hard = torch.tensor(1.0 if rank[i] < rank[j] else 0.0, dtype=x.dtype)
            exchange = _on_values if net.backward == "swap" else _as_matrix
            values[i], values[j] = exchange(values[i], values[j], stay, leave, hard)
            rows[i], rows[j] = exchange(rows[i], rows[j], stay, leave, hard)
            if not hard:
                rank[i], rank[j] = rank[j], rank[i]
    return torch.stack(values), torch.stack(rows).T


def _on_values(a: Tensor, b: Tensor, stay: Tensor, leave: Tensor, hard: Tensor) -> tuple[Tensor, Tensor]:
    softmin, softmax = a * stay + b * leave, a * leave + b * stay
    least, most = a * hard + b * (1 - hard), a * (1 - hard) + b * hard
    return stop(least - softmin) + softmin, stop(most - softmax) + softmax


def _as_matrix(a: Tensor, b: Tensor, stay: Tensor, leave: Tensor, hard: Tensor) -> tuple[Tensor, Tensor]:
    same, other = stop(hard - stay) + stay, stop((1 - hard) - leave) + leave
    return a * same + b * other, a * other + b * same


@pytest.mark.parametrize("net", [pytest.param(net, id=short(net)) for net in ERROR_FREE])
@pytest.mark.parametrize("row", [PLAIN, TIES], ids=["plain", "ties"])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_gradients_are_the_papers(net: ts.Network, row: list[float], backend: str) -> None:
    x = torch.tensor(row, dtype=torch.float64, requires_grad=True)
    values, matrix = paper(x, net)
    positions = torch.arange(len(x), dtype=x.dtype)
    weights = torch.cos(torch.arange(matrix.numel(), dtype=x.dtype)).reshape(matrix.shape)
    with ts.backend(backend):
        pairs: list[tuple[Any, Any, Tensor]] = [
            (ts.sort(x, net), values, weights[0]),
            (ts.permutation(x, net), matrix, weights),
            (ts.rank(x, net), matrix @ positions, weights[0]),
            (ts.reorder(x, weights, net), matrix.T @ weights, weights.T.contiguous()),
        ]
        for ours, theirs, upstream in pairs:
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
            (a,) = torch.autograd.grad(ours, x, upstream, retain_graph=True)
            (b,) = torch.autograd.grad(theirs, x, upstream, retain_graph=True)
            assert (a - b).abs().max() < 1e-10


def bits(x: Tensor) -> Tensor:
    return x.view(BITS[x.dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_bitwise_up_to_64(layout: str, dtype: torch.dtype, backend: str) -> None:
    net = ts.Network(layout)
    for n in [1, 2, 3, 7, 16, 33, 64]:
        x = (torch.randn(5, n) * 2).round(decimals=1).to(dtype)
        x[:, ::5] = -0.0
        x[:, 3::7] = 0.0
        x[:2, 4::9] = torch.inf
        mask = torch.rand(5, n) > 0.25
        mask[0] = True
        with ts.backend(backend):
            _check_bitwise(x, mask, net)


def _check_bitwise(x: Tensor, mask: Tensor, net: ts.Network) -> None:
    for descending in (False, True):
        order = x.sort(dim=-1, stable=True, descending=descending)
        assert torch.equal(bits(ts.sort(x, net, descending=descending)), bits(order.values))
        assert torch.equal(ts.permutation(x, net, descending=descending).argmax(-2), order.indices)
        assert torch.equal(ts.rank(x, net, descending=descending).long(), order.indices.argsort(-1))
    values, matrix = ts.sort(x, net, mask=mask), ts.permutation(x, net, mask=mask)
    for row, real, out, P in zip(x, mask, values, matrix, strict=True):
        expected = torch.cat([row[real].sort(stable=True).values, row[~real]])
        assert torch.equal(bits(out), bits(expected))
        assert torch.equal(bits(row[P.argmax(0)]), bits(expected))
        assert ((P == 0) | (P == 1)).all()
        assert (P.sum(0) == 1).all()


@pytest.mark.parametrize("net", [pytest.param(net, id=short(net)) for net in ERROR_FREE if net.swap == "optimal"])
def test_even_a_tie_of_all_has_a_gradient(net: ts.Network) -> None:
    x = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(ts.permutation(x, net)[0, 1], x)
    assert grad.isfinite().all()
    assert grad[0] != 0
