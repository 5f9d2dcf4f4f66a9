"""The paper's numbers, transcribed: percent of sequences in exact order, and of items in the right place."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

Accuracies = Mapping[str, Mapping[str, tuple[float, float] | None]]


@cache
def _all() -> Mapping[str, Accuracies]:
    text = files("truesort.paper").joinpath("published.json").read_text(encoding="utf-8")
    return {name: table for name, table in json.loads(text).items() if name != "unit"}


def numbers(table: str) -> Accuracies:
    """What a table of the paper says, by row and column: exact match and element-wise, None where it has a dash."""
    return _all()[table]
