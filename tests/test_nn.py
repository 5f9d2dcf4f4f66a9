"""Modules say what they are, save nothing, travel well, and compute what the functions do."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import truesort as ts
from truesort import losses

METHOD = ts.Network(layout="bitonic", swap="cauchy", steepness=3.0)
MODULES = {
    "Sort": ts.nn.Sort(METHOD, dim=1, descending=True),
    "Rank": ts.nn.Rank(METHOD, dim=1, descending=True),
    "Permutation": ts.nn.Permutation(METHOD, dim=1, descending=True),
    "TopK": ts.nn.TopK(2, METHOD, dim=1, largest=False),
    "Quantile": ts.nn.Quantile(0.3, METHOD, dim=1),
    "Reorder": ts.nn.Reorder(METHOD, dim=1, descending=True),
    "SortingLoss": ts.nn.SortingLoss(0.5, 2, method=METHOD, reduction="sum"),
    "SpearmanLoss": ts.nn.SpearmanLoss(METHOD),
    "NDCGLoss": ts.nn.NDCGLoss(3, METHOD),
}
every_module = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)

X, PAYLOAD = torch.rand(2, 5, 3, generator=torch.manual_seed(0)), torch.rand(2, 5, 3, 2)
MASK = torch.rand(2, 5, 3) < 0.7
WRITTEN_OUT = {
    "Sort": lambda mask: ts.sort(X, METHOD, dim=1, descending=True, mask=mask),
    "Rank": lambda mask: ts.rank(X, METHOD, dim=1, descending=True, mask=mask),
    "Permutation": lambda mask: ts.permutation(X, METHOD, dim=1, descending=True, mask=mask),
    "TopK": lambda mask: ts.topk(X, 2, METHOD, dim=1, largest=False, mask=mask),
    "Quantile": lambda mask: ts.quantile(X, 0.3, METHOD, dim=1, mask=mask),
    "Reorder": lambda mask: ts.reorder(X, PAYLOAD, METHOD, dim=1, descending=True, mask=mask),
    "SpearmanLoss": lambda mask: losses.spearman_loss(X, X.sin(), METHOD, mask=mask),
    "NDCGLoss": lambda mask: losses.ndcg_loss(X, X.sin(), METHOD, k=3, mask=mask),
}


def inputs(name: str) -> tuple[Tensor, ...]:
    second = {"Reorder": PAYLOAD, "SpearmanLoss": X.sin(), "NDCGLoss": X.sin()}
    return (X, second[name]) if name in second else (X,)


@pytest.mark.parametrize("name", WRITTEN_OUT)
@pytest.mark.parametrize("mask", [None, MASK], ids=["", "masked"])
def test_a_module_computes_what_its_function_does(name: str, mask: Tensor | None) -> None:
    expected = WRITTEN_OUT[name](mask)
    for module in (MODULES[name], copy.deepcopy(MODULES[name]), pickle.loads(pickle.dumps(MODULES[name]))):
        torch.testing.assert_close(module(*inputs(name), mask=mask), expected, rtol=0, atol=0)


@every_module
def test_a_module_saves_nothing_and_can_be_built_from_what_it_shows(module: nn.Module) -> None:
    assert module.state_dict() == {}
    assert list(module.parameters()) == []
    again = eval(repr(module), {**vars(ts), **vars(ts.nn)})
    assert repr(again) == repr(module)
    assert again.method == module.method


def test_what_is_not_named_is_the_default_network() -> None:
    assert ts.nn.Sort().method == ts.Network()
    expected = "method=Network(layout='odd_even', swap='optimal', steepness=10.0, art=0.25, error_free=True"
    assert repr(ts.nn.Sort()).startswith(f"Sort(dim=-1, descending=False, {expected}")


def test_modules_stand_in_a_sequence_of_modules() -> None:
    model = nn.Sequential(nn.Linear(4, 6), ts.nn.Sort(), nn.Linear(6, 1))
    model(torch.randn(3, 4)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    assert set(model.state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"}


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("split", [None, 2])
@pytest.mark.parametrize("error_free", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_sorting_loss_adds_what_is_soft_and_what_is_error_free(
    reduction: str, split: int | None, error_free: bool, masked: bool
) -> None:
    config = ts.Network(swap="cauchy", steepness=3.0, error_free=error_free)
    soft, hard = replace(config, error_free=False), replace(config, error_free=True)
    scores, truth, payload = torch.randn(4, 5, requires_grad=True), torch.rand(4, 5), torch.randn(4, 5, 3)
    mask = torch.rand(4, 5) < 0.8 if masked else None
    P = ts.permutation(scores, soft, mask=mask)
    expected = losses.permutation_loss(P, truth, mask=mask, reduction=reduction)
    distance = losses.reorder_loss(scores, payload, truth, hard, split=split, mask=mask, reduction=reduction)
    for weight in (0, 0.3):
        loss = ts.nn.SortingLoss(weight, split, method=config, reduction=reduction)
        found, total = loss(scores, truth, payload, mask), expected + weight * distance
        torch.testing.assert_close(found, total)
        gradients = (torch.autograd.grad(value, scores, retain_graph=True)[0] for value in (found, total))
        torch.testing.assert_close(*gradients)


def test_without_lambda_no_payload_is_needed() -> None:
    scores, truth = torch.randn(4, 5), torch.rand(4, 5)
    assert ts.nn.SortingLoss(0.0)(scores, truth) > 0
    with pytest.raises(ValueError, match=r"payload is None; lambda_hard=0.1 needs"):
        ts.nn.SortingLoss(0.1)(scores, truth)


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda: ts.nn.Sort("network"), TypeError, "method is 'network'"),
        (lambda: ts.nn.SortingLoss(method=ts.NeuralSort()), TypeError, "SortingLoss needs a Network"),
        (lambda: ts.nn.SortingLoss(-0.1), ValueError, "lambda_hard is -0.1"),
        (lambda: ts.nn.SortingLoss(float("nan")), ValueError, "lambda_hard is nan"),
        (lambda: ts.nn.SortingLoss(split=1), ValueError, "split is 1"),
        (lambda: ts.nn.SortingLoss(reduction="none"), ValueError, "reduction is 'none'"),
    ],
)
def test_wrong_settings_are_named_at_once(build, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        build()
