"""`reproduce` and `report` as a shell user meets them; their real work is tested beside the modules that do it."""

from pathlib import Path

import pytest

from truesort import cli
from truesort.paper import published
from truesort.paper.tables import TABLES


def ask(command: str) -> int:
    """The exit code, also where the options are not understood."""
    try:
        return cli.main(command.split())
    except SystemExit as end:  # tyro's way
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("reproduce chess", "unknown table 'chess'; choices: mnist4, svhn, fragments, comparison, lambda, steepness-3"),
        ("reproduce svhn --columns 32", "unknown column '32' of svhn; choices: 3, 5, 7, 9, 15"),
        ("reproduce fragments --rows ours", "unknown row 'ours' of fragments; choices: logistic/cnn"),
        ("reproduce svhn --at-once 0", "at_once must be at least 1, got 0"),
        ("reproduce svhn --steps many", "--steps"),
        ("reproduce", "TABLE"),
        ("report fragments chess", "unknown table 'chess'"),
    ],
)
def test_what_is_not_understood(
    command: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ask(command) == 2
    shown = capsys.readouterr()
    assert message in " ".join(shown.err.split())
    assert not shown.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["reproduce", "report", "figures"])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(f"{command} --help") == 0
    assert f"truesort {command} " in capsys.readouterr().out


@pytest.mark.parametrize("form", ["", " --markdown"])
def test_a_report_of_nothing_is_the_paper_beside_dashes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ask(f"report{form}") == 0
    shown = capsys.readouterr().out
    for table in TABLES.values():
        assert table.title in shown
        assert all(label in shown for label in (*table.rows.values(), *table.columns.values()))
    ours = [line for line in shown.splitlines() if line.startswith("Ours, error-free · CNN")]
    assert all(set(line.removeprefix("Ours, error-free · CNN").split()) == {"–"} for line in ours)
    exact, element = published.numbers("svhn")["error_free/transformer_l"]["9"] or (None, None)
    assert f"{exact} ({element})" in shown
    assert not list(tmp_path.iterdir())


def test_a_report_of_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(f"report fragments --results {tmp_path}") == 0
    shown = capsys.readouterr().out
    assert "CIFAR-10 3×3" in shown
    assert "SVHN" not in shown
