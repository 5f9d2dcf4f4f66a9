"""Right orders of named things, as people write them down: lists, pairs, graded groups, and LETOR's `qid:` lines.

Every format becomes the same thing: lists of named entries with grades, a higher grade standing later and equal grades
standing together. What is wrong in a file is gathered and reported with its lines, since a person mends a file once.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truesort.data._files import DataError
from truesort.data._text import lines_of, rows_of

LETOR_LINE = re.compile(r"^\s*[-+.\deE]+\s+qid:\S+")
SHOWN = 5
"""How many problems a message shows."""


@dataclass(frozen=True, eq=False)
class Orders:
    """Lists of names and grades; `lines` says where each entry stands in `source`, `graded` that grades were given."""

    source: str
    names: list[list[str]]
    grades: list[list[float]]
    lines: list[list[int]]
    graded: bool = False
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """The number of lists."""
        return len(self.names)


def read_orders(path: str | Path) -> Orders:
    """The orders in a file: JSON lines if it is called .jsonl, else LETOR if it looks like it, else CSV.

    CSV: one list a line, lowest first (a pair is a list of two); or, with the header `group,item,grade`, one item a
    line. JSON lines: a list of names, lowest first, in which a list stands for equals; or an object with `lower` and
    `higher`, or with `group`, `item` and `grade`.
    """
    path = Path(path)
    gather = _Gather(str(path))
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        gather.json_lines(enumerate(lines_of(path), 1))
    elif is_letor(path):
        gather.letor(enumerate(lines_of(path), 1))
    else:
        gather.rows(rows_of(path))
    return gather.orders()


def given_orders(lists: Iterable[Any], source: str = "orders") -> Orders:
    """Orders from Python values of the forms that JSON lines have; names may be row numbers."""
    gather = _Gather(source)
    for number, value in enumerate(lists, 1):
        gather.value(number, value)
    return gather.orders()


def is_letor(path: Path) -> bool:
    """Does the first line with something on it look like `grade qid:group feature:value ...`?"""
    first = next((line for line in lines_of(path) if line.strip() and not line.startswith("#")), "")
    return LETOR_LINE.match(first) is not None


class _Gather:
    """Collects entries line by line, and what is wrong with them."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lists: list[list[tuple[str, float, int]]] = []
        self._groups: dict[str, list[tuple[str, float, int]]] = {}
        self._wrong: list[str] = []
        self._useless: list[int] = []

    def rows(self, rows: Iterator[tuple[int, list[str]]]) -> None:
        """CSV, with or without a header."""
        columns: dict[str, int] | None = None
        for number, (line, cells) in enumerate(rows):
            cells = [cell.strip() for cell in cells]
            named = {cell.lower(): place for place, cell in enumerate(cells)}
            if number == 0 and {"group", "item", "grade"} <= set(named):
                columns = named
            elif columns is not None:
                self._row(line, cells, columns)
            elif number or list(named) != ["lower", "higher"]:
                self._list(line, [[cell] for cell in cells])

    def _row(self, line: int, cells: list[str], columns: dict[str, int]) -> None:
        if len(cells) != len(columns):
            self._complain(line, f"{len(cells)} cells under {len(columns)} columns")
        else:
            self._grade(line, *(cells[columns[name]] for name in ("group", "item", "grade")))

    def json_lines(self, lines: Iterator[tuple[int, str]]) -> None:
        """One JSON value a line."""
        for line, text in lines:
            if text.strip():
                try:
                    value = json.loads(text)
                except (ValueError, RecursionError) as error:
                    self._complain(line, f"not JSON ({error})")
                else:
                    self.value(line, value)

    def value(self, line: int, value: Any) -> None:
        """A list, a pair or a graded item."""
        if isinstance(value, dict) and {"lower", "higher"} <= set(value):
            self._list(line, [[value["lower"]], [value["higher"]]])
        elif isinstance(value, dict) and {"group", "item", "grade"} <= set(value):
            self._grade(line, value["group"], value["item"], value["grade"])
        elif isinstance(value, Iterable) and not isinstance(value, dict | str | bytes):
            self._list(line, [list(tier) if isinstance(tier, list | tuple) else [tier] for tier in value])
        else:
            self._complain(line, "neither a list of names nor an object with lower, higher or group, item, grade")

    def letor(self, lines: Iterator[tuple[int, str]]) -> None:
        """`grade qid:group features`; the item's name is its line number."""
        for line, text in lines:
            if text.strip() and not text.startswith("#"):
                parts = text.split(None, 2)
                if len(parts) < 2 or not parts[1].startswith("qid:"):
                    self._complain(line, "not of the form `grade qid:group feature:value ...`")
                else:
                    self._grade(line, parts[1][4:], str(line), parts[0])

    def _list(self, line: int, tiers: list[list[Any]]) -> None:
        names = [str(name) for tier in tiers for name in tier]
        if "" in names:
            self._complain(line, "an empty name; is a comma too much?")
        elif len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            self._complain(line, f"{twice} stands twice in one list; an item cannot be before itself")
        elif sum(map(bool, tiers)) < 2:
            self._useless.append(line)
        else:
            places = ((str(name), float(place), line) for place, tier in enumerate(tiers) for name in tier)
            self._lists.append(list(places))

    def _grade(self, line: int, group: Any, item: Any, grade: Any) -> None:
        try:
            number = float(grade)
        except (TypeError, ValueError):
            number = float("nan")
        if not abs(number) < 1e9:
            self._complain(line, f"the grade {grade!r} is not a number")
        else:
            self._groups.setdefault(str(group), []).append((str(item), number, line))

    def _complain(self, line: int, problem: str) -> None:
        self._wrong.append(f"{self.source}:{line}: {problem}")

    def orders(self) -> Orders:
        """What was gathered, or an error that says what to mend."""
        for group, entries in self._groups.items():
            seen: set[str] = set()
            for name, _, line in entries:
                if name in seen:
                    self._complain(line, f"{name} is graded twice in group {group}")
                seen.add(name)
            if len({grade for _, grade, _ in entries}) < 2:
                self._useless.append(entries[0][2])
            else:
                self._lists.append(entries)
        if self._wrong:
            raise DataError(some(self._wrong, "\n") + "\nMend or delete these lines.")
        if not self._lists:
            raise DataError(
                f"{self.source} holds no order: it needs lists of two items or more, or groups of unequal grades"
            )
        names, grades, lines = (
            [[entry[0] for entry in entries] for entries in self._lists],
            [[entry[1] for entry in entries] for entries in self._lists],
            [[entry[2] for entry in entries] for entries in self._lists],
        )
        return Orders(self.source, names, grades, lines, bool(self._groups), self._notes())

    def _notes(self) -> list[str]:
        if not self._useless:
            return []
        places = some([f"{self.source}:{line}" for line in self._useless], ", ")
        return [f"nothing to compare (fewer than two items, or all of one grade), left out: {places}"]


def some(texts: Sequence[str], between: str) -> str:
    """The first few of many, and how many there are more."""
    more = len(texts) - SHOWN
    return between.join(texts[:SHOWN]) + (f"{between}and {more} more" if more > 0 else "")
