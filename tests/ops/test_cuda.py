"""The CUDA backend against the reference: on a GPU as it is, elsewhere in Triton's interpreter, which runs all kernels.

The interpreter is thousands of times slower, so it is asked about few and small sizes; `make test-gpu` asks the rest.
"""

from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import Tensor

import backends
from backends import MODES, Case, check_projection, compare, payload_of
from truesort.networks import LAYOUTS
from truesort.ops import Network, Permutahedron
from truesort.relaxations import CURVES

pytest.importorskip("triton", reason="the CUDA backend needs Triton")

from truesort.ops import cuda

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
pytestmark = [pytest.mark.gpu] if GPU else []

check = partial(backends.check, cuda)


def keys_of(n: int, rows: int = 5, dtype: torch.dtype = torch.float64) -> Tensor:
    return backends.keys_of(n, rows, dtype).to(DEVICE)


def counts_of(n: int) -> Tensor:
    return backends.counts_of(n).to(DEVICE)


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """Fresh memory holds nan and the largest integers, so that what is not written shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


def test_it_serves_where_there_is_a_gpu() -> None:
    assert (cuda.available() is None) == GPU


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 8, 17, 33, 64, 100, 128, 129, 200] if GPU else [0, 1, 2, 6])
def test_sizes_and_layouts(n: int, layout: str, mode: str) -> None:
    net = Network(layout, steepness=3.0, **MODES[mode])
    check(net, keys_of(n), counts_of(n), outputs=n // 2)
    if GPU or n < 2:
        check(net, keys_of(n))


@pytest.mark.parametrize("mode", MODES if GPU else ["soft"])
@pytest.mark.parametrize("swap", CURVES)
@pytest.mark.parametrize("steepness", [1e-3, 1.0, 1e4] if GPU else [1.0])
def test_curves(swap: str, steepness: float, mode: str) -> None:
    n, what = (5, backends.WHAT) if GPU else (3, ("permutation",))
    check(Network("odd_even", swap, steepness, **MODES[mode]), keys_of(n), counts_of(n), what=what)
    if GPU:
        check(Network("bitonic", swap, steepness, **MODES[mode]), keys_of(n), counts_of(n))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("layout", "what"), [("odd_even", "permutation"), ("merge_exchange", "reorder")])
def test_a_row_of_several_programs(layout: str, what: str, mode: str) -> None:
    n = 70 if GPU else 18 if what == "permutation" else 4
    check(Network(layout, steepness=2.0, **MODES[mode]), keys_of(n, rows=2), columns=19, what=(what,))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["odd_even", "merge_exchange"])
def test_float32(layout: str, mode: str) -> None:
    for n in (17, 40, 128, 300) if GPU else (3,):
        what = backends.WHAT if GPU else ("sort", "permutation")
        check(Network(layout, steepness=2.0, **MODES[mode]), keys_of(n, dtype=torch.float32), counts_of(n), what=what)


@pytest.mark.parametrize("mode", MODES)
def test_the_paths_of_many_rows(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many programs the register kernels split into a trace of the keys and what follows it."""
    monkeypatch.setattr(cuda.registers, "FEW", 1)
    n, rows = (9, 2000) if GPU else (5, 5)
    check(Network(steepness=2.0, **MODES[mode]), keys_of(n, rows), what=("sort", "permutation"))


@pytest.mark.gpu
def test_a_row_of_hundred_thousand() -> None:
    """Many programs share the row."""
    keys = torch.randn(1, 100_000, dtype=torch.float64, device=DEVICE)
    for mode in MODES.values():
        check(Network("merge_exchange", **mode), keys, what=("sort",))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["odd_even", "merge_exchange"])
def test_strides(layout: str, mode: str) -> None:
    net, n = Network(layout, **MODES[mode]), 4
    what = ("sort", "permutation", "reorder")
    crooked = [keys_of(2 * n, rows=2)[:, ::2]]
    if GPU:
        crooked += [keys_of(n).t().contiguous().t(), keys_of(n, rows=1).expand(4, n)]
    for keys in crooked:
        check(net, keys, what=what)
        wide = payload_of(keys, 4).transpose(1, 2).contiguous().transpose(1, 2)
        ones = lambda result: torch.ones(()).to(result).expand(result.shape)  # noqa: E731
        compare(cuda, Case("reorder", keys, wide, None, net, n), ones)
        compare(cuda, Case("permutation", keys, wide, None, net, n), ones)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("rows", "n"), [(0, 0), (0, 4), (3, 0), (3, 1)])
def test_nothing_to_sort(rows: int, n: int, mode: str) -> None:
    check(Network(**MODES[mode]), torch.zeros(rows, n, dtype=torch.float64, device=DEVICE))


@pytest.mark.parametrize("regularization", ["l2", "kl"])
@pytest.mark.parametrize("strength", [0.02, 1.0, 50.0] if GPU else [0.3])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 40, 1500] if GPU else [0, 1, 9, 40])
def test_projections(n: int, strength: float, regularization: str) -> None:
    method = Permutahedron(strength, regularization)
    check_projection(cuda, method, keys_of(n), counts_of(n))
    if GPU or n < 10:
        check_projection(cuda, method, keys_of(n))
        check_projection(cuda, method, keys_of(2 * n, dtype=torch.float32)[:, ::2])
