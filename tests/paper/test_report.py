"""A cell shows runs of one setting, says how they depart from the recipe, and shows a dash where nothing was run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from truesort import cli
from truesort.paper import cells, records, report
from truesort.paper.recipes import SEEDS
from truesort.paper.records import Record
from truesort.paper.report import DASH, Rendered, render
from truesort.paper.tables import TABLES

MakeRecord = Callable[..., Record]
CELL = ("fragments", "error_free/cnn", "mnist_2x2")


def shown(rendered: Rendered, row: str, column: str) -> tuple[str, str]:
    """Ours and the paper's in a cell."""
    line = rendered.lines[list(rendered.table.rows).index(row)]
    at = list(rendered.table.columns).index(column)
    return line[1][at], line[2][at]


@pytest.mark.parametrize("table", TABLES)
def test_nothing_run_is_dashes_beside_the_paper(table: str) -> None:
    rendered = render(TABLES[table], [])
    for (_, ours, paper), row in zip(rendered.lines, TABLES[table].rows, strict=True):
        assert set(ours) == {DASH}
        for cell, column in zip(paper, TABLES[table].columns, strict=True):
            found = TABLES[table].published(row, column)
            assert cell == (DASH if found is None else "{:.1f} ({:.1f})".format(*found))
    assert not rendered.notes.lines()
    assert not rendered.details


def test_five_seeds_of_the_recipe_need_no_note(make_record: MakeRecord) -> None:
    found = [make_record(*CELL, seed=seed, exact_match=0.9 + 0.01 * at) for at, seed in enumerate(SEEDS)]
    rendered = render(TABLES["fragments"], found)
    assert shown(rendered, *CELL[1:]) == ("92.0 ± 1.6 (75.0)", "98.4 (99.2)")
    assert not rendered.notes.lines()


@pytest.mark.parametrize(
    ("run", "note"),
    [
        ({}, "seed 42 only"),
        ({"steps": 25_000}, "seed 42 only; 25,000 steps instead of 50,000"),
        ({"steepness": 7.0}, "seed 42 only; method.steepness 7 instead of 10"),
        ({"learning_rate": 0.5}, "seed 42 only; learning_rate 0.5 instead of 0.000316228"),
        ({"failed": "the loss became nan at step 7"}, "seed 42 only; seed 42: the loss became nan at step 7"),
    ],
)
def test_departures_from_the_recipe_are_noted(make_record: MakeRecord, run: dict[str, float], note: str) -> None:
    rendered = render(TABLES["fragments"], [make_record(*CELL, **run)])
    assert rendered.notes.lines() == [("a", note)]
    assert shown(rendered, *CELL[1:])[0] == ("failed [a]" if "failed" in run else "50.0 (75.0) [a]")
    for text in (report.text([make_record(*CELL, **run)]), report.markdown([make_record(*CELL, **run)])):
        assert f"[a] {note}" in text


def test_settings_are_never_mixed(make_record: MakeRecord) -> None:
    """Only seeds of one setting make a mean; the recipe's setting is shown, others are listed by themselves."""
    found = [make_record(*CELL, seed=seed, exact_match=0.5) for seed in SEEDS[:2]]
    found += [make_record(*CELL, seed=seed, exact_match=0.9, steepness=7.0) for seed in SEEDS]
    found += [make_record(*CELL, seed=seed, exact_match=0.1, steps=100) for seed in SEEDS]
    groups = cells.groups(TABLES["fragments"], *CELL[1:], found)
    assert [(group.percent(), len(group.records)) for group in groups] == [
        ((50.0, 0.0), 2), ((10.0, 0.0), 5), ((90.0, 0.0), 5),
    ]  # fmt: skip
    rendered = render(TABLES["fragments"], found)
    assert shown(rendered, *CELL[1:])[0].startswith("50.0 ± 0.0")
    assert [line[4] for line in rendered.details] == ["50.0 ± 0.0", "10.0 ± 0.0", "90.0 ± 0.0"]


def test_a_failed_seed_is_not_forgotten(make_record: MakeRecord) -> None:
    found = [make_record(*CELL, seed=seed) for seed in SEEDS[:4]]
    found.append(make_record(*CELL, seed=SEEDS[4], failed="the loss became inf at step 3"))
    rendered = render(TABLES["fragments"], found)
    assert shown(rendered, *CELL[1:])[0] == "50.0 ± 0.0 (75.0) [a]"
    assert rendered.notes.lines() == [("a", "seed 210: the loss became inf at step 3")]


def test_a_run_appears_wherever_its_settings_are_asked_for(make_record: MakeRecord) -> None:
    found = [make_record("lambda", "0.001", "3")]
    assert shown(render(TABLES["mnist4"], found), "error_free/cnn", "3")[0] == "50.0 (75.0) [a]"
    assert shown(render(TABLES["mnist4"], found), "error_free/cnn", "5")[0] == DASH
    changed = [make_record("lambda", "0.001", "3", steepness=9.0)]  # a study of the cell it was made for alone
    assert shown(render(TABLES["mnist4"], changed), "error_free/cnn", "3")[0] == DASH
    assert shown(render(TABLES["lambda"], changed), "0.001", "3")[0] == "50.0 (75.0) [a]"


def test_steps_to_the_papers_accuracy(make_record: MakeRecord) -> None:
    """The curve reaches 25 % at step 1000 and 100 % at step 2000."""
    (line,) = render(TABLES["fragments"], [make_record(*CELL)]).details
    assert line[report.DETAILS.index("steps to the paper's")] == "2,000"
    hard = ("fragments", "error_free/cnn", "cifar10_3x3")
    (line,) = render(TABLES["fragments"], [make_record(*hard)]).details
    assert line[report.DETAILS.index("steps to the paper's")] == "1,000"


def test_precisions_are_told_apart(make_record: MakeRecord) -> None:
    """They differ between machines, and so do not make another experiment, but no mean mixes them."""
    one = make_record(*CELL)
    other = replace(one, config=replace(one.config, precision="bfloat16"))
    rendered = render(TABLES["fragments"], [one, other])
    assert {line[-1] for line in rendered.details} == {"a machine, float32", "a machine, bfloat16"}
    assert [line[2] for line in rendered.details] == ["1", "1"]


def test_more_notes_than_letters() -> None:
    notes = report.Notes()
    letters = [notes.letter(str(number)) for number in range(60)]
    assert letters[:2] + letters[25:28] + letters[-1:] == ["a", "b", "z", "aa", "ab", "bh"]
    assert len(set(letters)) == 60
    assert notes.letter("0") == "a"


def test_markdown_grids_are_square(make_record: MakeRecord) -> None:
    lines = report.markdown([make_record(*CELL)]).splitlines()
    blocks: list[set[int]] = [set()]
    for line in lines:
        if line.startswith("|"):
            blocks[-1].add(line.count("|"))
        elif blocks[-1]:
            blocks.append(set())
    assert all(len(block) == 1 for block in blocks if block)


def test_a_page_keeps_what_is_around_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make_run: Callable[..., object], make_record: MakeRecord
) -> None:
    records.write(tmp_path / "results", make_run(*CELL), make_record(*CELL))  # type: ignore[arg-type]
    page, command = tmp_path / "page.md", ["report", "fragments", "--results", str(tmp_path / "results"), "--page"]
    page.write_text("# Title\n\n<!-- report: begin -->\nold\n<!-- report: end -->\n\nEnd.\n")
    assert cli.main([*command, str(page)]) == 0
    first = page.read_text()
    assert first.startswith("# Title\n\n<!-- report: begin -->\n")
    assert first.endswith("<!-- report: end -->\n\nEnd.\n")
    assert "**50.0 (75.0) [a]**<br>*98.4 (99.2)*" in first
    assert "old" not in first
    assert cli.main([*command, str(page)]) == 0
    assert page.read_text() == first
    assert not capsys.readouterr().out
    page.write_text("no marks")
    assert cli.main([*command, str(page)]) == 1
    assert "lacks the marks" in capsys.readouterr().err
    assert page.read_text() == "no marks"
    assert cli.main([*command, str(tmp_path / "nowhere.md")]) == 1
    assert "cannot be read" in capsys.readouterr().err
