"""Scorers: networks that give every item of a sequence a number to sort by."""

from truesort.models._convolutions import Convolutions
from truesort.models._count import Row, multiply_adds, parameters, rows
from truesort.models._registry import Config, build, configure, from_dict, names, to_dict
from truesort.models.cnn import CNN
from truesort.models.mlp import MLP
from truesort.models.transformer import Transformer

__all__ = [
    "CNN",
    "MLP",
    "Config",
    "Convolutions",
    "Row",
    "Transformer",
    "build",
    "configure",
    "from_dict",
    "multiply_adds",
    "names",
    "parameters",
    "rows",
    "to_dict",
]
