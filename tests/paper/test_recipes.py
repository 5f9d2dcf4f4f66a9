"""Every cell of every table is the experiment that the paper's text describes."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from truesort import models
from truesort.engine import Halving, Pairwise, Permutation, Ranks, from_facts, to_facts
from truesort.ops import Network, NeuralSort, Permutahedron, Sinkhorn
from truesort.paper import published, recipes
from truesort.paper.cells import flat
from truesort.paper.recipes import Recipe
from truesort.paper.runs import settings
from truesort.paper.tables import LENGTHS, SWAPS, TABLES, Table

SHAPES = {
    "mnist4": ("digits", (1, 28, 112)),
    "svhn": ("svhn", (3, 54, 54)),
    "mnist_2x2": ("fragments", (1, 14, 14)),
    "mnist_3x3": ("fragments", (1, 9, 9)),
    "cifar10_2x2": ("fragments", (3, 16, 16)),
    "cifar10_3x3": ("fragments", (3, 10, 10)),
}
STEPS = {"mnist4": 200_000, "svhn": 300_000, "mnist_2x2": 50_000, "cifar10_2x2": 50_000}
METHODS = {"neuralsort": NeuralSort, "sinkhorn": Sinkhorn, "permutahedron": Permutahedron}


def cells(*names: str) -> Iterator[tuple[Table, str, str, Recipe]]:
    for table in TABLES.values() if not names else map(TABLES.__getitem__, names):
        for row in table.rows:
            for column in table.columns:
                yield table, row, column, table.recipe(row, column)


@pytest.mark.parametrize("table", TABLES)
def test_what_the_text_fixes_for_all(table: str) -> None:
    for _, row, column, recipe in cells(table):
        config = recipe.config
        where = f"{table} {row} {column}"
        fragments = SHAPES[config.task][0] == "fragments"
        assert config.batch == 100, where
        assert config.steps == STEPS.get(config.task, 100_000), where
        assert config.schedule == Halving(20_000 if fragments else 50_000), where
        assert config.test == 10_000, where
        assert not isinstance(config.method, Network) or config.method.layout == "odd_even", where
        models.configure(config.model, *SHAPES[config.task])
        assert from_facts(to_facts(config)) == config, where
    assert recipes.SEEDS == (42, 84, 126, 168, 210)


def test_task_and_length_of_a_column() -> None:
    for table, _, column, recipe in cells():
        task = recipe.config.task
        if column in SHAPES:
            assert (task, recipe.config.length) == (column, 4 if column.endswith("2x2") else 9)
        elif table.name in ("mnist4", "comparison", "lambda", "svhn"):
            assert (task, recipe.config.length) == ("svhn" if table.name == "svhn" else "mnist4", int(column))


def test_method_and_loss_of_a_row() -> None:
    for _, row, _, recipe in cells("mnist4", "svhn", "fragments", "comparison"):
        name, model = row.split("/")
        config = recipe.config
        assert config.model == model.replace("_", "-")
        if name in SWAPS:
            assert (config.method.swap, config.method.error_free) == (name, False)
            assert config.loss == Permutation(lambda_hard=0.0)
        elif name == "error_free":
            assert (config.method.swap, config.method.error_free, config.method.backward) == ("optimal", True, "swap")
            assert config.loss.lambda_hard in (1.0, 0.1, 0.01, 0.001)
            assert config.loss.reduction == "mean"
        elif name == "pairwise":
            assert config.loss == Pairwise()
        else:
            assert type(config.method) is METHODS[name]
            assert config.loss == (Ranks() if name == "permutahedron" else Permutation(lambda_hard=0.0))


def test_learning_rates() -> None:
    for table, row, _, recipe in cells("mnist4", "svhn", "fragments"):
        usual = 10**-3.5 if row.endswith("cnn") else 1e-4
        from_the_study = (table.name, row) == ("mnist4", "error_free/cnn")
        assert recipe.config.learning_rate == pytest.approx(1e-3 if from_the_study else usual)


def test_studies() -> None:
    steepness = {"3": 2, "5": 14, "7": 23, "9": 38, "15": 25, "32": 124}
    for _, row, column, recipe in cells("lambda"):
        config = recipe.config
        assert (config.loss.lambda_hard, config.method.steepness) == (float(row), steepness[column])
        assert (config.model, config.learning_rate) == ("cnn", 1e-3)
    for length, weight in zip(LENGTHS, (1.0, 1.0, 0.1, 0.1, 0.1, 0.1), strict=True):
        for _, row, column, recipe in cells(f"steepness-{length}"):
            config = recipe.config
            assert (config.loss.lambda_hard, config.method.steepness) == (weight, float(column))
            assert (config.model, config.learning_rate) == ("cnn", pytest.approx(10 ** float(row)))


def test_ours_with_the_cnn_is_the_best_of_the_study() -> None:
    """Two tables of the paper say the same numbers; so the first is the second's best λ."""
    for length in LENGTHS:
        best = f"{recipes.best_lambda(int(length)):.3f}"
        assert TABLES["lambda"].published(best, length) == TABLES["mnist4"].published("error_free/cnn", length)
        study = TABLES["lambda"].recipe(best, length)
        assert settings(TABLES["mnist4"].recipe("error_free/cnn", length)) == settings(study)


def test_who_chose_names_fields_that_are_there() -> None:
    for table, row, column, recipe in cells():
        there = {*flat(to_facts(recipe.config)), "loss"}
        assert set(recipe.sources) <= there, f"{table.name} {row} {column}"
        assert set(recipe.sources.values()) <= {recipes.OURS, recipes.CODE, recipes.STUDY}


@pytest.mark.parametrize("column", TABLES["effects"].columns)
def test_an_effect_is_one_change(column: str) -> None:
    table = TABLES["effects"]
    base = flat(settings(table.recipe("baseline", column)))
    changed = {}
    for row in table.rows:
        here = flat(settings(table.recipe(row, column)))
        changed[row] = {name for name in here if here[name] != base[name]}
    assert changed == {
        "baseline": set(),
        "attention_over_batch": {"attention"},
        "cauchy": {"method.swap"},
        "chosen_by_test": {"selection", "validation"},
        "sums": {"loss.reduction"},
        "backward_matrix": {"method.backward"},
    }


def test_shorter_keeps_the_shape_of_the_whole() -> None:
    whole = TABLES["mnist4"].recipe("error_free/cnn", "3")
    short = whole.shortened(20_000)
    assert short.config == replace(whole.config, steps=20_000, schedule=Halving(5_000), validate_every=100)
    tiny = whole.shortened(1)
    assert (tiny.config.steps, tiny.config.schedule) == (1, Halving(1))


@pytest.mark.parametrize("table", [table for table in TABLES.values() if table.paper], ids=lambda table: table.name)
def test_published_numbers_fit_their_table(table: Table) -> None:
    if table.name != "comparison":  # which shows some rows of the first table
        assert set(table.paper) <= set(table.rows)
    missing = set()
    for row in table.rows:
        for column in table.columns:
            found = table.published(row, column)
            if found is None:
                missing.add((row.partition("/")[0], column))
            else:
                assert 0 <= found[0] <= found[1] <= 100
    assert {cell for cell in missing if cell[0] != "pairwise"} <= {("permutahedron", "32")}


def test_published_counts() -> None:
    """As many numbers as the paper's tables have cells, dashes included; both settings of equal scorers among them."""
    names = ("mnist4", "svhn", "fragments", "lambda", *(f"steepness-{length}" for length in LENGTHS))
    counts = {name: sum(map(len, published.numbers(name).values())) for name in names}
    assert counts == {"mnist4": 78, "svhn": 40, "fragments": 28, "lambda": 30} | dict.fromkeys(names[4:], 28)
