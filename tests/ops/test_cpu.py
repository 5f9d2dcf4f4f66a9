"""The fused CPU backend against the reference, in float64: results and every gradient."""

import math
import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from truesort.networks import LAYOUTS
from truesort.ops import Network, cpu, reference
from truesort.relaxations import CURVES

pytest.importorskip("numba", reason="the fused CPU backend needs Numba")

WHAT = ("sort", "rank", "permutation", "reorder")
TOLERANCE = {torch.float64: {"rtol": 1e-8, "atol": 1e-10}, torch.float32: {"rtol": 2e-4, "atol": 2e-5}}
MODES = {
    "soft": {"error_free": False},
    "swap": {"error_free": True, "backward": "swap"},
    "matrix": {"error_free": True, "backward": "matrix"},
}


def keys_of(n: int, rows: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    """Rows with nothing special, with ties, with infinities and with a nan."""
    keys = torch.randn(rows, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64).to(dtype)
    if n > 1 and rows > 3:
        keys[1] = keys[1].round()
        keys[2, 0], keys[2, n // 2], keys[2, -1] = math.inf, -math.inf, math.inf
        keys[3, n // 2] = math.nan
    return keys


def counts_of(n: int) -> Tensor:
    return torch.tensor([n, n // 2, max(n - 1, 0), n, min(n, 2)])


def call(source, what: str, keys: Tensor, payload: Tensor, count: Tensor | None, net: Network, outputs: int) -> Tensor:
    match what:
        case "rank":
            return source.rank(keys, count, net)
        case "reorder":
            return source.reorder(keys, payload, count, net)
        case _:
            return getattr(source, what)(keys, count, net, outputs)


def truth(what, keys, payload, count, net, outputs, grad: Callable[[Tensor], Tensor]):
    """Result and gradients of keys and payload, by autograd of the reference in float64."""
    keys, payload = (tensor.detach().double().clone().requires_grad_() for tensor in (keys, payload))
    result = call(reference, what, keys, payload, count, net, outputs)
    if not result.requires_grad:
        return result, torch.zeros_like(keys), torch.zeros_like(payload)
    above = grad(result).double()
    return result.detach(), *torch.autograd.grad(result, (keys, payload), above, materialize_grads=True)


def fused(what, keys, payload, count, net, outputs, grad: Callable[[Tensor], Tensor]):
    result = call(cpu, what, keys, payload, count, net, outputs)
    above = grad(result)
    if what == "reorder":
        return result, *cpu.reorder_backward(keys, payload, count, above, net)
    return result, getattr(cpu, f"{what}_backward")(keys, count, above, net), torch.zeros_like(payload)


def grad_like(result: Tensor) -> Tensor:
    numbers = torch.randn(result.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return numbers.to(result.dtype)


def payload_of(keys: Tensor, columns: int = 3) -> Tensor:
    shape = (*keys.shape, columns)
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(keys.dtype)


def check(net: Network, keys: Tensor, count: Tensor | None = None, columns: int = 3, what=WHAT, outputs=None) -> None:
    payload = payload_of(keys, columns)
    before = keys.clone(), payload.clone()
    for name in what:
        wanted = keys.shape[1] if outputs is None or name in ("rank", "reorder") else outputs
        expected = truth(name, keys, payload, count, net, wanted, grad_like)
        got = fused(name, keys, payload, count, net, wanted, grad_like)
        for part, ours, theirs in zip(("result", "gradient of keys", "of payload"), got, expected, strict=True):
            message = f"{name}, {part}: {net}, n = {keys.shape[1]}, outputs = {wanted}"
            tolerance = TOLERANCE[keys.dtype] if part != "result" or not net.error_free else {"rtol": 0, "atol": 0}
            torch.testing.assert_close(
                ours.double(), theirs.double(), equal_nan=True, **tolerance, msg=lambda m, say=message: f"{say}\n{m}"
            )
    assert torch.equal(keys.nan_to_num(), before[0].nan_to_num()), "the keys were changed"
    assert torch.equal(payload, before[1]), "the payload was changed"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 17, 33])
def test_sizes_and_layouts(n: int, layout: str, mode: str) -> None:
    net = Network(layout=layout, steepness=3.0, **MODES[mode])
    check(net, keys_of(n))
    check(net, keys_of(n), counts_of(n))
    check(net, keys_of(n), outputs=n // 2)


@pytest.mark.parametrize("mode", MODES)
def test_a_large_matrix_takes_several_blocks_of_columns(mode: str) -> None:
    check(Network(**MODES[mode]), keys_of(64), columns=19)
    check(Network(**MODES[mode]), keys_of(64), counts_of(64), outputs=40)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("swap", CURVES)
@pytest.mark.parametrize("steepness", [1e-3, 1.0, 1e4])
def test_curves(swap: str, steepness: float, mode: str) -> None:
    net = Network(swap=swap, steepness=steepness, **MODES[mode])
    check(net, keys_of(8))
    check(net, keys_of(8), counts_of(8))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("swap", CURVES)
def test_float32(swap: str, mode: str) -> None:
    for n in (5, 17, 40):
        check(Network(swap=swap, steepness=2.0, **MODES[mode]), keys_of(n, dtype=torch.float32), counts_of(n))


def test_small_sides_keep_their_digits_in_float32() -> None:
    keys = torch.tensor([[0.0, 30.0]])
    for swap in CURVES:
        net = Network(swap=swap, steepness=1.0, error_free=False)
        expected = reference.permutation(keys.double(), None, net, 2)
        torch.testing.assert_close(cpu.permutation(keys, None, net, 2).double(), expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("mode", MODES)
def test_strides(mode: str) -> None:
    net, n = Network(**MODES[mode]), 6
    crooked = keys_of(n).t().contiguous().t()
    expanded = keys_of(n, rows=1).expand(4, n)
    for keys in (crooked, expanded, keys_of(2 * n)[:, ::2]):
        check(net, keys)
        wide = payload_of(keys, 4).transpose(1, 2).contiguous().transpose(1, 2)
        got = fused("reorder", keys, wide, None, net, n, lambda r: torch.ones(()).to(r).expand(r.shape))
        expected = truth("reorder", keys, wide, None, net, n, torch.ones_like)
        for ours, theirs in zip(got, expected, strict=True):
            torch.testing.assert_close(ours, theirs, equal_nan=True, **TOLERANCE[torch.float64])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "n"), [(0, 0), (0, 4), (3, 0), (3, 1)])
def test_nothing_to_sort(rows: int, n: int, mode: str) -> None:
    check(Network(**MODES[mode]), torch.zeros(rows, n, dtype=torch.float64))


@pytest.mark.parametrize("mode", MODES)
def test_threads_share_the_rows(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truesort.ops.cpu._threads.GRAIN", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        check(Network(**MODES[mode]), keys_of(7, rows=50))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("mode", MODES)
def test_threads_share_one_long_row(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truesort.ops.cpu._long.WORTH", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    keys = keys_of(200, rows=5)[1:3]
    keys[0, 3] = math.nan
    net = Network(layout="merge_exchange", **MODES[mode])
    try:
        check(net, keys, what=("sort", "rank"))
        check(net, keys[1:], torch.tensor([150]), what=("sort", "rank"), outputs=70)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("mode", MODES)
def test_a_row_of_twenty_thousand(mode: str) -> None:
    keys = torch.randn(1, 20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    check(Network(layout="merge_exchange", **MODES[mode]), keys, what=("sort",))


def test_infinite_payload_stays_on_its_own_row_in_exact_swaps() -> None:
    net = Network(error_free=False)
    keys = torch.tensor([[math.inf, 0.0, 1.0]])
    payload = torch.tensor([[[math.inf], [1.0], [2.0]]])
    result = cpu.reorder(keys, payload, None, net)
    assert result[0, :2].isfinite().all()
    assert result[0, 2] == math.inf


def test_scratch_memory_is_written_before_it_is_read() -> None:
    """All fresh memory of this process holds the byte 0x5a, and results must not show it."""
    script = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); from test_cpu import *\n"
        "for mode in MODES.values():\n"
        "    check(Network(**mode), keys_of(9), counts_of(9))\n"
        "    check(Network(**mode), keys_of(20), outputs=7)\n"
    )
    environment = {**os.environ, "MALLOC_PERTURB_": str(0x5A ^ 0xFF)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_importing_the_package_does_not_import_numba() -> None:
    script = "import sys, truesort; assert 'numba' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu.available() is None
    monkeypatch.setattr("truesort.ops.cpu.find_spec", lambda name: None)
    cpu.available.cache_clear()
    try:
        assert "pip install numba" in cpu.available()
    finally:
        monkeypatch.undo()
        cpu.available.cache_clear()
