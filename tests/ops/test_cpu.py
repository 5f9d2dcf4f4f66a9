"""The fused CPU backend against the reference, in float64: results and every gradient."""

import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import backends
from backends import MODES, Case, check_projection, compare, counts_of, keys_of, payload_of
from truesort.networks import LAYOUTS
from truesort.ops import Network, Permutahedron, cpu, reference
from truesort.relaxations import CURVES

pytest.importorskip("numba", reason="the fused CPU backend needs Numba")

check = partial(backends.check, cpu)


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


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("swap", CURVES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_pass_side_by_side_or_one_by_one(dtype: torch.dtype, swap: str, mode: str) -> None:
    net, keys, counts = Network(swap=swap, steepness=2.0, **MODES[mode]), keys_of(9, dtype=dtype), counts_of(9)
    check(net, keys.repeat(5, 1)[:21], counts.repeat(5)[:21])
    check(net, keys.repeat(5, 1)[:21], outputs=4)
    for row in range(5):
        check(net, keys[row : row + 1], counts[row : row + 1])


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
        expanded_ones = lambda result: torch.ones(()).to(result).expand(result.shape)  # noqa: E731
        compare(cpu, Case("reorder", keys, wide, None, net, n), expanded_ones)


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
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); from backends import *\n"
        "from truesort.ops import cpu\n"
        "for mode in MODES.values():\n"
        "    check(cpu, Network(**mode), keys_of(9), counts_of(9))\n"
        "    check(cpu, Network(**mode), keys_of(20), outputs=7)\n"
        "check_projection(cpu, Permutahedron(), keys_of(9), counts_of(9))\n"
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


@pytest.mark.parametrize("regularization", ["l2", "kl"])
@pytest.mark.parametrize("strength", [0.02, 1.0, 50.0])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 40, 100])
def test_projections(n: int, strength: float, regularization: str) -> None:
    method = Permutahedron(strength, regularization)
    check_projection(cpu, method, keys_of(n))
    check_projection(cpu, method, keys_of(n), counts_of(n))
    check_projection(cpu, method, keys_of(n, dtype=torch.float32))
    check_projection(cpu, method, keys_of(2 * n)[:, ::2])
