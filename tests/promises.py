"""Reads the table of docs/promises.md, so that what the docs promise and what the tests check cannot part."""

from functools import cache
from pathlib import Path
from typing import Any

import truesort as ts

PAGE = Path(__file__).parent.parent / "docs" / "promises.md"


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


@cache
def table() -> dict[str, dict[str, bool]]:
    """`{method: {law: promised}}`, the method as it is written in Python."""
    head, _, *rows = (line for line in PAGE.read_text(encoding="utf-8").split("\n\n")[2].splitlines())
    laws = _cells(head)[1:]
    return {
        name: {law: {"yes": True, "no": False}[cell] for law, cell in zip(laws, cells, strict=True)}
        for name, *cells in map(_cells, rows)
    }


def laws() -> list[str]:
    """The names of all laws."""
    return list(next(iter(table().values())))


def promising(law: str) -> list[Any]:
    """The methods that promise `law`, for `pytest.mark.parametrize("method", promising("rows"), ids=repr)`."""
    return [eval(name, vars(ts)) for name, promises in table().items() if promises[law]]
