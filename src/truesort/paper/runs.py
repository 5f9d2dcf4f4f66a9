"""The runs a command asks for: which cells, which seeds, and what was changed from the recipe.

A run's name ends in a digest of everything that decides its result, so two settings can never share a folder or a
record, and cells of different tables with the same settings share one run.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from truesort.engine import Config, Permutation, name, to_facts
from truesort.engine.config import Precision
from truesort.engine.record import Facts
from truesort.ops import Network
from truesort.paper.recipes import Recipe
from truesort.paper.tables import TABLES, Table


@dataclass(frozen=True)
class Changes:
    """What to change in every recipe; None keeps what the recipe says."""

    learning_rate: float | None = None
    """Another learning rate."""
    steepness: float | None = None
    """Another steepness, where there is a sorting network."""
    lambda_hard: float | None = None
    """Another weight of the hard loss, where there is one."""

    def applied(self, config: Config) -> Config:
        """The config with the changes that concern it."""
        method, loss = config.method, config.loss
        if self.steepness is not None and isinstance(method, Network):
            method = replace(method, steepness=self.steepness)
        if self.lambda_hard is not None and isinstance(loss, Permutation) and getattr(method, "error_free", False):
            loss = replace(loss, lambda_hard=self.lambda_hard)
        rate = config.learning_rate if self.learning_rate is None else self.learning_rate
        return replace(config, method=method, loss=loss, learning_rate=rate)


@dataclass(frozen=True)
class Run:
    """One run for one cell of a table; its config is whole, seed and precision included."""

    table: str
    row: str
    column: str
    recipe: Recipe

    @property
    def config(self) -> Config:
        """The engine's config."""
        return self.recipe.config

    @property
    def name(self) -> str:
        """A name for folder and record that no other settings have."""
        return f"{name(self.config)}-{digest(settings(self.recipe))}"


def settings(recipe: Recipe) -> Facts:
    """Everything that decides the result of a recipe, as JSON."""
    return {"config": to_facts(recipe.config), "attention": recipe.attention, "selection": recipe.selection}


def digest(facts: Facts) -> str:
    """Eight letters that differ where the facts do."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


def plan(
    table: str,
    rows: Sequence[str],
    columns: Sequence[str],
    seeds: Sequence[int],
    steps: int | None,
    changes: Changes,
    precision: Precision,
) -> list[Run]:
    """The runs of a table, all cells with the first seed first; empty `rows` or `columns` are all of them."""
    chosen = find_table(table)
    cells = [
        (row, column)
        for column in pick("column", columns, chosen.columns, table)
        for row in pick("row", rows, chosen.rows, table)
    ]
    if steps is not None and steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    runs = [
        Run(table, row, column, _settled(chosen.recipe(row, column), seed, steps, changes, precision))
        for seed in seeds
        for row, column in cells
    ]
    return list({run.name: run for run in runs}.values())


def find_table(name: str) -> Table:
    """The table called `name`."""
    if name not in TABLES:
        raise ValueError(f"unknown table {name!r}; choices: {', '.join(TABLES)}")
    return TABLES[name]


def pick(what: str, wanted: Sequence[str], known: Mapping[str, str], table: str) -> Iterable[str]:
    """The wanted rows or columns, which must be known; all if none is named."""
    for one in wanted:
        if one not in known:
            raise ValueError(f"unknown {what} {one!r} of {table}; choices: {', '.join(known)}")
    return wanted or tuple(known)


def _settled(recipe: Recipe, seed: int, steps: int | None, changes: Changes, precision: Precision) -> Recipe:
    recipe = recipe if steps is None or steps == recipe.config.steps else recipe.shortened(steps)
    config = replace(changes.applied(recipe.config), seed=seed, precision=precision)
    return replace(recipe, config=config)
