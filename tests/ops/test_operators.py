"""The operators keep what torch expects of registered ones, and all ways to them give the same numbers."""

from dataclasses import astuple
from typing import Any

import pytest
import torch
from torch import Tensor

import truesort as ts
from truesort.ops import missing_for

CPU = pytest.param("cpu", marks=pytest.mark.skipif(missing_for("cpu") is not None, reason=str(missing_for("cpu"))))
CUDA = pytest.param("cuda", marks=pytest.mark.gpu)
every_device = pytest.mark.parametrize("device", [CPU, CUDA])
QUESTIONS = [("sort", 5), ("sort", 2), ("rank", 5), ("permutation", 5), ("permutation", 2), ("reorder", 5)]
NETS = [ts.Network(), ts.Network(backward="matrix"), ts.Network("bitonic", "logistic_art", error_free=False)]


def inputs(what: str, device: str, masked: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    keys = torch.randn(3, 5, dtype=torch.float64, device=device, requires_grad=True)
    payload = torch.randn(3, 5, 2, dtype=torch.float64, device=device, requires_grad=True)
    count = torch.tensor([5, 2, 0], device=device)
    return keys, payload if what == "reorder" else None, count if masked else None


@every_device
@pytest.mark.parametrize(("what", "outputs"), QUESTIONS)
@pytest.mark.parametrize("net", NETS, ids=repr)
@pytest.mark.parametrize("masked", [False, True])
def test_opcheck(device: str, what: str, outputs: int, net: ts.Network, masked: bool) -> None:
    args = (*inputs(what, device, masked), what, *astuple(net), outputs)
    torch.library.opcheck(torch.ops.truesort.network, args)
    keys, payload, count = (None if tensor is None else tensor.detach() for tensor in args[:3])
    grad = torch.ones_like(torch.ops.truesort.network(keys, payload, count, *args[3:]))
    torch.library.opcheck(torch.ops.truesort.network_backward, (keys, payload, count, grad, *args[3:]))


@every_device
@pytest.mark.parametrize(("what", "outputs"), QUESTIONS)
@pytest.mark.parametrize("net", NETS, ids=repr)
def test_operator_shortcut_and_reference_agree(device: str, what: str, outputs: int, net: ts.Network) -> None:
    def ask(backend: str, registered: bool) -> list[Tensor]:
        torch.manual_seed(3)
        keys, payload, count = inputs(what, device, True)
        with ts.backend(backend):
            answer: Any
            if registered:
                answer = torch.ops.truesort.network(keys, payload, count, what, *astuple(net), outputs)
            else:
                answer = net._call(what, keys, payload, count, outputs)
            leaves = [leaf for leaf in (keys, payload) if leaf is not None]
            return [answer, *torch.autograd.grad(answer.sin().sum(), leaves)]

    plain = ask("reference", False)
    for other in (ask(device, False), ask(device, True)):
        for ours, theirs in zip(other, plain, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
