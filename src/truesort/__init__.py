"""Exact sorting with a gradient.

`import truesort as ts; ts.sort(x)` sorts as `torch.sort` does, bit by bit, and lets gradients through; `ts.rank`,
`ts.permutation`, `ts.reorder`, `ts.topk`, `ts.quantile` and `ts.median` answer the other questions one has of an order.
"""

from importlib import import_module, metadata
from typing import Any

from . import losses, metrics, nn
from .functional import median, permutation, quantile, rank, reorder, sort, topk
from .ops import Method, Network, NeuralSort, Permutahedron, Sinkhorn, SoftSort, backend

_LAZY = {"Recipe": "teaching", "load": "teaching", "teach": "teaching"}
"""What pulls in more than torch and numpy is imported when it is first asked for."""

__all__ = [
    "Method",
    "Network",
    "NeuralSort",
    "Permutahedron",
    "Sinkhorn",
    "SoftSort",
    "backend",
    "losses",
    "median",
    "metrics",
    "nn",
    "permutation",
    "quantile",
    "rank",
    "reorder",
    "sort",
    "topk",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    if name == "__version__":
        try:
            return metadata.version("truesort")
        except metadata.PackageNotFoundError:  # a source tree on the path, not installed
            return "0+source"
    raise AttributeError(f"module 'truesort' has no attribute {name!r}")
