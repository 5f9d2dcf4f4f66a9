"""A plan holds what was asked for, once, and says what can be asked for."""

import re

import pytest

from truesort.paper import runs
from truesort.paper.recipes import SEEDS
from truesort.paper.runs import Changes
from truesort.paper.tables import TABLES


def plan(table: str, rows: tuple[str, ...] = (), columns: tuple[str, ...] = (), **more: object) -> list[runs.Run]:
    asked = {"seeds": SEEDS, "steps": None, "changes": Changes(), "precision": "float32"} | more
    return runs.plan(table, rows, columns, **asked)


def test_everything_if_nothing_is_named() -> None:
    found = plan("fragments")
    table = TABLES["fragments"]
    assert len(found) == len(table.rows) * len(table.columns) * 5
    assert {(run.row, run.column) for run in found} == {(row, column) for row in table.rows for column in table.columns}


def test_first_seed_of_every_cell_first() -> None:
    found = plan("fragments", ("optimal/cnn", "error_free/cnn"), ("mnist_2x2",), seeds=(84, 42))
    assert [(run.config.seed, run.row) for run in found] == [
        (84, "optimal/cnn"), (84, "error_free/cnn"), (42, "optimal/cnn"), (42, "error_free/cnn"),
    ]  # fmt: skip


def test_nothing_twice() -> None:
    cell = {"rows": ("optimal/cnn",) * 2, "columns": ("mnist_2x2",)}
    assert len(plan("fragments", **cell, seeds=(42, 84, 42))) == 2
    same = plan("lambda", columns=("3",), seeds=(42,), changes=Changes(lambda_hard=0.5))
    assert len(same) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"table": "mnist5"}, "unknown table 'mnist5'; choices: mnist4, svhn, fragments"),
        ({"table": "svhn", "rows": ("ours",)}, "unknown row 'ours' of svhn; choices: logistic/cnn"),
        ({"table": "svhn", "columns": ("32",)}, "unknown column '32' of svhn; choices: 3, 5, 7, 9, 15"),
        ({"table": "svhn", "steps": 0}, "steps must be at least 1, got 0"),
        ({"table": "svhn", "seeds": (-1,)}, "seed must be at least 0, got -1"),
    ],
)
def test_what_there_is_not(asked: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        plan(**asked)  # type: ignore[arg-type]


def test_names_are_equal_exactly_where_settings_are() -> None:
    found: dict[str, str] = {}
    for table in TABLES:
        for run in plan(table, seeds=(42, 84)):
            facts = str(runs.settings(run.recipe))
            assert found.setdefault(run.name, facts) == facts
    assert len(set(found.values())) == len(found)


def test_tables_share_runs() -> None:
    names = {table: {run.name for run in plan(table)} for table in ("mnist4", "comparison", "lambda")}
    assert names["comparison"] <= names["mnist4"]
    assert names["lambda"] & names["mnist4"]


def test_changes_reach_what_they_concern_and_nothing_else() -> None:
    changes = Changes(learning_rate=0.5, steepness=7.0, lambda_hard=0.3)
    for run in plan("mnist4", columns=("3",), seeds=(42,), changes=changes):
        before = TABLES["mnist4"].recipe(run.row, "3").config
        config, name = run.config, run.row.partition("/")[0]
        assert config.learning_rate == 0.5
        sorts_softly = hasattr(before.method, "steepness")
        assert getattr(config.method, "steepness", None) == (7.0 if sorts_softly else None)
        weight = getattr(before.loss, "lambda_hard", None)
        assert getattr(config.loss, "lambda_hard", None) == (0.3 if name == "error_free" else weight)
        assert run.name not in {other.name for other in plan("mnist4", columns=("3",), seeds=(42,))}
