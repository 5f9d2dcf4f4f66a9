"""Data to learn sorting from: sequences of items with the values that order them."""

from truesort.data._base import SPLITS, Batch, Dataset, FixedSet, Split, stream
from truesort.data._files import DataError
from truesort.data._registry import names, open
from truesort.data.fragments import reassembled

__all__ = ["SPLITS", "Batch", "DataError", "Dataset", "FixedSet", "Split", "names", "open", "reassembled", "stream"]
