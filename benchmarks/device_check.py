"""The CUDA backend on a GPU: checked against the oracle in float64, then timed, in one short run.

    python benchmarks/device_check.py [check] [time] [tune] [large] [peer]
    PART=0/8 python benchmarks/device_check.py check    # one eighth of the checks

Times are medians of 50, of replayed CUDA graphs and of eager calls; sizes follow the targets of the backend's issue.
"""

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from truesort.ops import cuda, reference
from truesort.ops.cuda import _registers as registers
from truesort.ops.network import Network

DEVICE = torch.device("cuda", 0)
CALLS = ("sort", "rank", "permutation", "reorder")
SIZES = [(5, 100), (15, 100), (32, 100), (64, 100), (128, 100), (32, 10_000), (128, 1000)]
NETS = [Network(error_free=False), Network(), Network(backward="matrix")]


def case(
    what: str, n: int, rows: int, outputs: int, dtype: torch.dtype, special: str = "", masked: bool = False
) -> Any:
    """(keys, payload, count, gradient), drawn anew."""
    keys = torch.randn(rows, n, dtype=dtype, device=DEVICE)
    if special == "ties":
        keys = keys.round()
    if special == "inf" and n > 2:
        keys[0, 1], keys[1, 0], keys[1, 2] = torch.inf, -torch.inf, torch.inf
    if special == "nan":
        keys[0, n // 2] = torch.nan
    count = torch.randint(0, n + 1, (rows,), device=DEVICE) if masked else None
    payload = torch.randn(rows, n, 3, dtype=dtype, device=DEVICE) if what == "reorder" else None
    shapes = {"sort": (rows, outputs), "permutation": (rows, n, outputs), "rank": (rows, n), "reorder": (rows, n, 3)}
    return keys, payload, count, torch.randn(shapes[what], dtype=dtype, device=DEVICE)


def forward(source: Any, what: str, inputs: Any, net: Network, outputs: int) -> Tensor:
    """What a public function gives."""
    keys, payload, count, _ = inputs
    if what == "reorder":
        return source.reorder(keys, payload, count, net)
    if what == "rank":
        return source.rank(keys, count, net)
    return getattr(source, what)(keys, count, net, outputs)


def backward(what: str, inputs: Any, net: Network) -> tuple[Tensor, ...]:
    """Its gradients."""
    keys, payload, count, grad = inputs
    if what == "reorder":
        return cuda.reorder_backward(keys, payload, count, grad, net)
    return (getattr(cuda, f"{what}_backward")(keys, count, grad, net),)


def oracle(what: str, inputs: Any, net: Network, outputs: int) -> tuple[Tensor, list[Tensor]]:
    """What the reference gives in float64, and its gradients."""
    keys, payload, count, grad = inputs
    leaves = [tensor.double().requires_grad_() for tensor in (keys, payload) if tensor is not None]
    truth = forward(reference, what, (leaves[0], leaves[-1], count, None), net, outputs)
    if not truth.requires_grad:
        return truth, [torch.zeros_like(leaf) for leaf in leaves]
    return truth.detach(), list(torch.autograd.grad(truth, leaves, grad.double(), materialize_grads=True))


def worst(mine: Tensor, truth: Tensor) -> float:
    """The largest difference over the largest finite entry; inf where shapes, nan or inf disagree."""
    good = truth.isfinite()
    if mine.shape != truth.shape or not torch.equal(mine.isfinite(), good):
        return float("inf")
    if not good.any():
        return 0.0
    return ((mine.double() - truth)[good].abs().max() / truth[good].abs().max().clamp_min(1e-3)).item()


def check() -> list[dict[str, Any]]:
    """Every function, layout and kind of input once; prints what disagrees."""
    torch.manual_seed(0)
    done = failed = 0
    part, parts = map(int, os.environ.get("PART", "0/1").split("/"))
    for what, layout, net, n in itertools.product(CALLS, ("odd_even", "bitonic"), NETS, (1, 2, 5, 15, 33, 128)):
        if done % parts != part:
            done += 1
            continue
        special, masked = [("", False), ("ties", True), ("inf", True), ("nan", False)][done % 4]
        dtype = torch.float64 if done % 5 == 4 else torch.float32
        outputs = n if done % 3 else (n + 1) // 2
        swap = ("optimal", "logistic", "cauchy", "gaussian", "reciprocal", "logistic_art")[done % 6]
        net = Network(layout, swap, 5.0, 0.25, net.error_free, net.backward)
        inputs = case(what, n, 5, outputs, dtype, special, masked)
        truth, gradients = oracle(what, inputs, net, outputs)
        errors = [worst(forward(cuda, what, inputs, net, outputs), truth)]
        errors += [worst(a, b) for a, b in zip(backward(what, inputs, net), gradients, strict=True)]
        done += 1
        if max(errors) > (1e-9 if dtype == torch.float64 else 1e-3):
            failed += 1
            print("FAIL", what, net, n, special, masked, dtype, outputs, [f"{e:.1e}" for e in errors], flush=True)
    print(f"checked {done}, failed {failed}", flush=True)
    return [{"what": "check", "part": part, "cases": done, "failed": failed}]


def replayed(function: Callable[[], Any]) -> float:
    """Milliseconds of one replay of the captured function."""
    function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return timed(graph.replay)


def timed(function: Callable[[], Any], repeats: int = 50) -> float:
    """Milliseconds of one call, the median of many."""
    times = []
    for _ in range(repeats + 3):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[3:])


def measured(what: str, n: int, rows: int, net: Network, note: str = "") -> dict[str, Any]:
    """One line of the table."""
    inputs = case(what, n, rows, n, torch.float32)

    def both() -> None:
        forward(cuda, what, inputs, net, n)
        backward(what, inputs, net)

    begun = time.time()
    both()
    torch.cuda.synchronize()
    first = time.time() - begun
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    both()
    torch.cuda.synchronize()
    result = {
        "what": what, "n": n, "rows": rows, "net": str(net), "note": note,
        "forward_graph_ms": replayed(lambda: forward(cuda, what, inputs, net, n)),
        "backward_graph_ms": replayed(lambda: backward(what, inputs, net)),
        "eager_ms": timed(both), "first_call_s": first,
        "peak_bytes": torch.cuda.max_memory_allocated() - before,
    }  # fmt: skip
    kind = f"hard {net.backward}" if net.error_free else "soft"
    print(
        f"{what:11} n={n:<6} B={rows:<6} {kind:11} {net.layout:14} forward {result['forward_graph_ms']:.4f} backward "
        f"{result['backward_graph_ms']:.4f} eager both {result['eager_ms']:.4f} ms, first {first:.1f} s, "
        f"peak/P {result['peak_bytes'] / (4 * rows * n * n):.1f} {note}", flush=True,
    )  # fmt: skip
    return result


def table() -> list[dict[str, Any]]:
    """The sizes of the targets."""
    return [measured("permutation", n, rows, net) for (n, rows), net in itertools.product(SIZES, NETS)]


def tune() -> list[dict[str, Any]]:
    """Other shapes of the register kernels."""
    results = []
    for columns, pairs, programs in [(8, 2, 12), (8, 1, 16), (4, 4, 12)]:
        registers.COLUMNS_A_LANE, registers.PAIRS, registers.PROGRAMS_A_PROCESSOR = columns, pairs, programs
        registers._shape.cache_clear()
        for n, rows in ((32, 10_000), (128, 1000), (32, 100), (128, 100)):
            results.append(
                measured("permutation", n, rows, NETS[0], f"columns {columns} pairs {pairs} a SM {programs}")
            )
    return results


def large() -> list[dict[str, Any]]:
    """Values of one long row."""
    nets = (Network(layout, error_free=hard) for layout in ("merge_exchange", "bitonic") for hard in (False, True))
    return [measured("sort", 100_000, 1, net) for net in nets]


def peer() -> list[dict[str, Any]]:
    """diffsort, eager and captured, forward and backward of P."""
    from diffsort import DiffSortNet

    results = []
    for n, rows in SIZES[:5]:
        sorter = DiffSortNet("odd_even", n, device=DEVICE, steepness=10.0, distribution="optimal")
        keys = torch.randn(rows, n, device=DEVICE, requires_grad=True)
        grad = torch.randn(rows, n, n, device=DEVICE)

        def both(sorter: Any = sorter, keys: Tensor = keys, grad: Tensor = grad) -> None:
            torch.autograd.grad(sorter(keys)[1], keys, grad)

        own = keys.detach().requires_grad_()
        net = Network(error_free=False)

        def ours(own: Tensor = own, net: Network = net, grad: Tensor = grad, n: int = n) -> None:
            torch.autograd.grad(net.permutation(own, None, n), own, grad)

        ours()
        torch.cuda.synchronize()
        line = {"what": "peer", "n": n, "rows": rows, "diffsort_ms": timed(both, 15), "ours_ms": timed(ours)}
        line["ours_graph_ms"] = replayed(ours)
        try:
            line["diffsort_graph_ms"] = replayed(both)
        except RuntimeError as error:
            print("diffsort cannot be captured:", str(error)[:80])
        print(line, flush=True)
        results.append(line)
    return results


if __name__ == "__main__":
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    parts = {"check": check, "time": table, "tune": tune, "large": large, "peer": peer}
    results: list[dict[str, Any]] = []
    for name in sys.argv[1:] or ["check", "time"]:
        results += parts[name]()
    with open(os.path.join(os.environ.get("OUT", "."), "device_check.json"), "w") as file:
        json.dump(results, file, indent=1)
