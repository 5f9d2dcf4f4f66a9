"""Data to learn sorting from: sequences of items with the values that order them."""

from truesort.data._base import SPLITS, Batch, Dataset, FixedSet, Split, stream
from truesort.data._registry import names, open

__all__ = ["SPLITS", "Batch", "Dataset", "FixedSet", "Split", "names", "open", "stream"]
