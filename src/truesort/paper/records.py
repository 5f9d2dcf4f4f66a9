"""What a run left behind for good: one small JSON file, written once and never overwritten.

A folder of records may be old, from another version or cut off by a full disk. Reading it says which files are unfit
and why, before anything is run or rendered, because a table that silently left them out would be a wrong table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from truesort.engine import Config, RunError, from_facts, to_facts
from truesort.engine.record import Facts, read_json, write_json
from truesort.paper.recipes import Recipe
from truesort.paper.runs import Run, digest, settings

FORMAT = 1
Curve = dict[str, list[Any]]


@dataclass(frozen=True)
class Record:
    """A finished run: for which cell it was made, with which settings, and what came out."""

    table: str
    row: str
    column: str
    config: Config
    attention: str
    selection: str
    sources: dict[str, str]
    best_step: int
    validation: dict[str, float]
    test: dict[str, float]
    seconds: float
    hardware: str
    versions: dict[str, str]
    commit: str | None
    curve: Curve = field(repr=False)
    failed: str | None = None
    """Why there is no result, for a run that diverged."""
    at_once: int = 1
    """How many runs shared the device, and so its speed."""

    @property
    def steps_per_second(self) -> float:
        """Speed of the training, validations included."""
        return self.config.steps / self.seconds if self.seconds else 0.0

    def first_step_at(self, exact_match: float) -> int | None:
        """The first validation at which this share of sequences was right."""
        reached = zip(self.curve.get("step", []), self.curve.get("exact_match", []), strict=True)
        return next((step for step, found in reached if found >= exact_match), None)


def path(folder: Path, run: Run) -> Path:
    """Where the record of a run lies."""
    return folder / f"{run.name}.json"


def from_result(run: Run, result: Facts) -> Record:
    """The record of a run from what the engine returned."""
    known = {name: result[name] for name in ("best_step", "validation", "test", "seconds", "hardware", "versions")}
    return Record(
        run.table, run.row, run.column, run.config, run.recipe.attention, run.recipe.selection,
        dict(run.recipe.sources), **known, commit=result["commit"], curve=columns(result["curve"]),
        at_once=result.get("at_once", 1),
    )  # fmt: skip


def columns(curve: Sequence[Facts]) -> Curve:
    """A curve as one list a quantity, a fifth of the size of one object a step."""
    return {name: [line[name] for line in curve] for name in ("step", "loss", "exact_match", "element_wise")}


def write(folder: Path, run: Run, record: Record) -> Path:
    """Keep a record; what is already there stays."""
    file = path(folder, run)
    if file.exists():
        raise RunError(f"{file} is already there; it is not overwritten")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(file, _to_json(record))
    return file


def read_all(folder: Path) -> list[Record]:
    """All records of a folder; a RunError names every file that cannot be used, and why."""
    records, problems = [], []
    for file in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            records.append(read(file))
        except RunError as error:
            problems.append(f"  {error}")
    if problems:
        raise RunError(
            "these records cannot be used; nothing was changed. Move them away, or name another folder by --results:\n"
            + "\n".join(problems)
        )
    return records


def read(file: Path) -> Record:
    """One record."""
    facts = read_json(file)
    version = facts.pop("format", None)
    if version != FORMAT:
        raise RunError(f"{file} is of format {version}, and this version of truesort reads format {FORMAT}")
    try:
        found = Record(**facts | {"config": from_facts(facts["config"])})
    except (TypeError, KeyError, AttributeError, RunError) as error:
        raise RunError(f"{file} is not a whole record: {error}") from error
    recipe = Recipe(found.config, attention=found.attention, selection=found.selection)  # type: ignore[arg-type]
    if digest(settings(recipe)) != file.stem.rpartition("-")[2]:
        raise RunError(f"{file} is not the record its name says: name or settings were changed")
    return found


def _to_json(record: Record) -> Facts:
    return {"format": FORMAT, **vars(record), "config": to_facts(record.config)}
