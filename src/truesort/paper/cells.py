"""Which records belong into which cell, kept apart by settings.

A cell shows one group of runs that differ in nothing but their seed. If there are several groups, the one nearest to
the recipe is shown and the others are listed by themselves: no mean is ever taken over two settings.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from truesort.engine import to_facts
from truesort.engine.record import Facts
from truesort.paper.recipes import Recipe
from truesort.paper.records import Record
from truesort.paper.runs import settings
from truesort.paper.tables import Table

FREE = ("seed", "steps", "schedule.every", "validate_every", "precision")
"""What may differ from a recipe without making it another experiment; that it does is said all the same."""


@dataclass(frozen=True)
class Group:
    """Runs of one cell with the same settings and different seeds, and how their settings differ from the recipe's."""

    records: tuple[Record, ...]
    differences: tuple[str, ...]

    @property
    def finished(self) -> list[Record]:
        """The runs that came to an end."""
        return [record for record in self.records if record.failed is None]

    @property
    def steps(self) -> int:
        """Steps of each run."""
        return self.records[0].config.steps

    def percent(self, metric: str = "exact_match", split: str = "test") -> tuple[float, float | None] | None:
        """Mean and standard deviation over the seeds, in percent; no deviation of a single seed."""
        found = [100 * getattr(record, split)[metric] for record in self.finished]
        if not found:
            return None
        return statistics.fmean(found), statistics.stdev(found) if len(found) > 1 else None


def groups(table: Table, row: str, column: str, records: Iterable[Record]) -> list[Group]:
    """The groups of a cell, the nearest to its recipe first, then the longest."""
    recipe = table.recipe(row, column)
    found: dict[str, list[Record]] = {}
    for record in records:
        if _belongs(record, table, row, column, recipe):
            found.setdefault(_key(record), []).append(record)
    cells = [_group(members, recipe) for members in found.values()]
    return sorted(cells, key=lambda cell: (len(cell.differences), -cell.steps, -len(cell.records)))


def _belongs(record: Record, table: Table, row: str, column: str, recipe: Recipe) -> bool:
    """Made for this cell, or for one of another table that asks for the same."""
    asked = (record.table, record.row, record.column) == (table.name, row, column)
    return asked or not _different(record, recipe)


def _group(members: list[Record], recipe: Recipe) -> Group:
    ordered = tuple(sorted(members, key=lambda record: record.config.seed))
    return Group(ordered, tuple(_different(ordered[0], recipe)))


def _key(record: Record) -> str:
    """What must be equal for two records to be averaged."""
    sameness = Recipe(replace(record.config, seed=0), attention=record.attention, selection=record.selection)  # type: ignore[arg-type]
    return str(settings(sameness))


def _different(record: Record, recipe: Recipe) -> list[str]:
    here = flat({"config": to_facts(record.config), "attention": record.attention, "selection": record.selection})
    there = flat(settings(recipe))
    names = [name for name in {**there, **here} if name not in FREE and here.get(name) != there.get(name)]
    return [f"{name} {_say(here.get(name))} instead of {_say(there.get(name))}" for name in names]


def flat(facts: Mapping[str, object], prefix: str = "") -> Facts:
    """Nested facts as one level, `method.steepness` and the like."""
    found: Facts = {}
    for name, value in facts.items():
        if isinstance(value, Mapping):
            found |= flat(value, prefix if name == "config" else f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _say(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
