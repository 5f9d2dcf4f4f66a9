"""`reproduce` does what is missing and only that, whatever stopped it before."""

import io
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from truesort import cli, engine
from truesort.engine.learner import Learner
from truesort.engine.record import RunFolder
from truesort.paper import estimate, records, runs
from truesort.paper.reproduce import Data, Where, clock, missing, work
from truesort.paper.runs import Changes, Run
from truesort.paper.tables import Table

pytestmark = pytest.mark.usefixtures("tiny_table")


@pytest.fixture
def where(tmp_path: Path) -> Where:
    return Where(tmp_path / "results", tmp_path / "runs", device="cpu")


def plan(row: str = "1e-3", seeds: Sequence[int] = (42,)) -> list[Run]:
    return runs.plan("tiny", [row] if row else [], [], seeds, None, Changes(), "float32")


def never(learner: Learner) -> None:
    pytest.fail("trained again")


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int, number: signal.Signals) -> None:
    """Have somebody end this process while it takes a step."""
    advance = Learner.advance

    def stopped(learner: Learner) -> None:
        advance(learner)
        if learner.step == step:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Learner, "advance", stopped)


def test_runs_what_is_missing_and_skips_what_is_done(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    assert work(plan(), where, out=out).done == 1
    assert "tiny 1e-3 3 seed 42: test exact match" in out.getvalue()
    (first,) = records.read_all(where.results)
    assert (first.config, first.failed, first.curve["step"]) == (plan()[0].config, None, [3, 6])
    tally = work(plan(seeds=(42, 84)), where, out=out)
    assert (tally.done, tally.problems) == (1, [])
    assert len(records.read_all(where.results)) == 2
    monkeypatch.setattr(Learner, "advance", never)
    assert work(plan(seeds=(42, 84)), where, out=out).done == 0
    assert not missing(plan(seeds=(42, 84)), where.results)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_goes_on_where_it_was_stopped(
    where: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    whole = replace(where, results=tmp_path / "whole", runs=tmp_path / "whole-runs")
    work(plan(), whole, out=io.StringIO())
    with monkeypatch.context() as patch:
        stop_at(patch, 4, number)
        with pytest.raises(engine.Interrupted, match="stopped at step 4 of 6"):
            work(plan(), where, out=io.StringIO())
    assert missing(plan(), where.results)
    taken: list[int] = []
    advance = Learner.advance
    monkeypatch.setattr(Learner, "advance", lambda learner: (advance(learner), taken.append(learner.step)))
    assert work(plan(), where, out=io.StringIO()).done == 1
    assert taken == [5, 6]
    (here,), (there,) = records.read_all(where.results), records.read_all(whole.results)
    assert replace(here, seconds=0) == replace(there, seconds=0)


def test_a_run_that_diverges_is_recorded_and_the_next_one_done(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    both = plan(row="")
    assert [run.row for run in both] == ["1e30", "1e-3"]
    out = io.StringIO()
    assert work(both, where, out=out).done == 2
    found = {record.row: record for record in records.read_all(where.results)}
    assert found["1e-3"].failed is None
    assert str(found["1e30"].failed).startswith("the loss became ")
    assert found["1e30"].test == {}
    assert "1e30 3 seed 42: the loss became" in out.getvalue()
    monkeypatch.setattr(Learner, "advance", never)
    work(both, where, out=io.StringIO())


def test_what_another_process_does_is_left_to_it(where: Where) -> None:
    held, free = plan(seeds=(42, 84))
    with RunFolder(where.runs / held.name).held():
        tally = work([held, free], where, out=io.StringIO())
    assert (tally.done, tally.elsewhere, tally.problems) == (1, 1, [])
    assert missing([held, free], where.results) == [held]


def test_a_result_without_its_record_is_not_run_again(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the disk was full at the end, or somebody cleared the records."""
    work(plan(), where, out=io.StringIO())
    (before,) = records.read_all(where.results)
    next(where.results.iterdir()).unlink()
    monkeypatch.setattr(Learner, "advance", never)
    work(plan(), where, out=io.StringIO())
    assert records.read_all(where.results) == [before]


def test_estimate_counts_every_step_and_each_kind_once(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    source, tried = Data(where), []
    monkeypatch.setattr(estimate, "_per_step", lambda run, _: tried.append(run.name) or 0.5)
    assert estimate.seconds(plan(row="", seeds=(42, 84, 126)), source) == 0.5 * 6 * 6
    assert len(tried) == 1


def test_estimate_takes_a_real_step(where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "TRIAL_SECONDS", 0.05)
    source = Data(where)
    one, five = (estimate.seconds(plan(seeds=seeds), source) for seeds in ((42,), range(5)))
    assert 0 < one < five


def test_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 3600, 90_061)] == ["0:00:00", "0:01:00", "1:00:00", "25:01:01"]


def command(where: Where, *more: str) -> list[str]:
    folders = ["--results", str(where.results), "--runs", str(where.runs), "--device", "cpu"]
    return ["reproduce", "tiny", *folders, *more]


def test_the_command(where: Where, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "TRIAL_SECONDS", 0.05)
    tame = ("--rows", "1e-3", "--seeds", "42", "84")
    assert cli.main(command(where, *tame, "--only-estimate")) == 0
    shown = capsys.readouterr()
    assert "2 runs, 0 of them done" in shown.err
    assert "for the rest on cpu" in shown.err
    assert not where.results.exists()
    assert cli.main(command(where, *tame, "--no-estimate")) == 0
    shown = capsys.readouterr()
    assert "about" not in shown.err.splitlines()[1]
    assert "truesort report tiny shows them" in shown.err
    assert len(list(where.results.iterdir())) == 2
    assert cli.main(command(where, *tame)) == 0
    assert "2 runs, 2 of them done" in capsys.readouterr().err
    assert cli.main(["report", "tiny", "--results", str(where.results)]) == 0
    assert "seeds 42, 84 only" in capsys.readouterr().out


def test_nothing_starts_beside_unfit_records(where: Where, capsys: pytest.CaptureFixture[str]) -> None:
    where.results.mkdir()
    half = where.results / "mnist_2x2-4-cnn-42-01234567.json"
    half.write_text('{"format": 1, "tab')
    assert cli.main(command(where, "--rows", "1e-3", "--seeds", "42", "--no-estimate")) == 1
    shown = capsys.readouterr().err
    assert "nothing was changed" in shown
    assert str(half) in shown
    assert list(where.results.iterdir()) == [half]
    assert not where.runs.exists()


@pytest.mark.data
def test_a_real_cell(data_folder: Path, where: Where, capsys: pytest.CaptureFixture[str], tiny_table: Table) -> None:
    cell = ["--rows", "error_free/transformer", "--columns", "mnist_2x2", "--seeds", "42", "--steps", "4"]
    asked = [*command(where, *cell, "--no-estimate", "--data", str(data_folder))]
    asked[1] = "fragments"
    assert cli.main(asked) == 0
    (record,) = records.read_all(where.results)
    assert (record.config.steps, record.config.test) == (4, 10_000)
    assert cli.main(["report", "fragments", "--results", str(where.results)]) == 0
    assert "[a] seed 42 only; 4 steps instead of 50,000" in capsys.readouterr().out
