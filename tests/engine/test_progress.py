"""What someone who waits sees: a live line in a terminal, plain lines in a log, a curve in TensorBoard."""

import io
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from truesort.engine import progress
from truesort.engine.events import Events
from truesort.engine.progress import Line, Lines, Quiet, Speed, show_on


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, as one cell to write into."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_gets_one_live_line(clock: list[float]) -> None:
    out = io.StringIO()
    with Line(Console(file=out, force_terminal=True, width=120), "digits1") as line:
        line.steps(1, 400, 0.7)
        clock[0] = 2.0
        line.steps(101, 400, 0.5)
        line.accuracy(101, 0.25, True)
        line.steps(102, 400, 0.4321)
    shown = out.getvalue()
    assert "102/400" in shown
    assert "loss 0.4321  exact match 25.0%  50.5 steps/s" in shown
    assert "left" in shown


def test_a_log_gets_a_line_now_and_then(clock: list[float]) -> None:
    out = io.StringIO()
    show = show_on(out, "digits1")
    assert isinstance(show, Lines)
    for second in range(0, 25, 2):
        clock[0] = float(second)
        show.steps(10 * second, 4000, 0.5)
    show.accuracy(240, 0.25, True)
    show.accuracy(250, 0.2, False)
    assert out.getvalue().splitlines() == [
        "digits1: step 120/4000  loss 0.5000  10.0 steps/s  0:06:28 left",
        "digits1: step 240/4000  loss 0.5000  10.0 steps/s  0:06:16 left",
        "digits1: step 240  loss 0.5000  exact match 25.0% (best)",
        "digits1: step 250  loss 0.5000  exact match 20.0%",
    ]


def test_speed_is_that_of_the_last_seconds(clock: list[float]) -> None:
    speed = Speed()
    assert speed(0) == "– steps/s"
    for second in range(1, 30):
        clock[0] = float(second)
        shown = speed(second if second < 15 else 15 + 1000 * (second - 15))
    assert shown == "1,000.0 steps/s"
    assert speed.left(3_700_000) == "1:01:40"


def test_a_curve_for_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            told.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            told.append((name, value, step))

        def close(self) -> None:
            told.append("closed")

    made = types.ModuleType("tensorboard")
    made.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", made)
    with Events(Quiet(), tmp_path) as events:
        events.steps(7, 10, 0.5)
        events.accuracy(7, 0.25, True)
    assert told == [(str(tmp_path), 7), ("loss", 0.5, 7), ("validation/exact_match", 0.25, 7), "closed"]
