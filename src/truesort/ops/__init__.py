"""What computes: one file per method, the reference that is the oracle, and the fused backends."""

from ._backend import backend, missing_for
from ._method import Method, known_finite
from .network import Network
from .neural_sort import NeuralSort
from .permutahedron import Permutahedron
from .sinkhorn import ConvergenceWarning, Sinkhorn
from .soft_sort import SoftSort

__all__ = [
    "ConvergenceWarning",
    "Method",
    "Network",
    "NeuralSort",
    "Permutahedron",
    "Sinkhorn",
    "SoftSort",
    "backend",
    "known_finite",
    "missing_for",
]
