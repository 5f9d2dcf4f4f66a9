"""A run that is stopped, however rudely, and resumed is the run that was never stopped."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import runs
from runs import TINY, StopAt, assert_same_run
from truesort import engine
from truesort.engine import learner


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_killed_again_and_again(tmp_path: Path) -> None:
    program = Path(__file__).parent / "kill_many.py"
    environment = os.environ | {"PYTHONPATH": str(Path(runs.__file__).parent)}
    command = [sys.executable, str(program), str(tmp_path)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    kills, finished = map(int, run.stdout.split())
    assert kills >= 20
    assert finished >= 1


@pytest.mark.parametrize("model", ["cnn", "transformer"])
@pytest.mark.parametrize("step", [1, 4, 11])
def test_interrupted_and_resumed(tmp_path: Path, step: int, model: str) -> None:
    config = replace(TINY, model=model)
    engine.train(config, tmp_path / "whole")
    with pytest.raises(engine.Interrupted, match=f"step {step} of 12; go on with --resume"):
        engine.train(config, tmp_path / "stopped", show=StopAt(step))
    torch.manual_seed(1)  # resuming depends on no state outside the folder
    engine.train(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_finished_run_returns_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = engine.train(TINY, tmp_path)
    monkeypatch.setattr(learner.Learner, "advance", lambda self: pytest.fail("trained again"))
    assert engine.train(TINY, tmp_path, resume=True) == first


def test_training_leaves_random_numbers_alone(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    engine.train(TINY, tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
