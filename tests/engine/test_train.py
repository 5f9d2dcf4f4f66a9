"""Training: what it writes, what it refuses, and that a run of several processes is the run of one."""

import json
import os
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import runs
from runs import TINY, StopAt, tensors
from truesort import data, engine
from truesort.engine import RunError, learner
from truesort.engine.parallel import Team, choose_device, team


class Memory:
    """Remembers what it is shown."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.accuracies: list[int] = []

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def steps(self, done: int, of: int, loss: float) -> None:
        self.done.append(done)

    def accuracy(self, step: int, exact_match: float, best: bool) -> None:
        self.accuracies.append(step)


def test_what_a_run_leaves(tmp_path: Path) -> None:
    memory = Memory()
    result = engine.train(TINY, tmp_path / "deep" / "run", show=memory)
    folder = tmp_path / "deep" / "run"
    names = {"config.json", "metrics.jsonl", "checkpoint", "model.safetensors", "result.json", "lock"}
    assert {file.name for file in folder.iterdir()} == names
    assert json.loads((folder / "result.json").read_text()) == result
    assert memory.done == list(range(1, 13))
    assert memory.accuracies == [line["step"] for line in result["curve"]] == [4, 8, 12]
    assert result["config"]["length"] == 3
    assert result["config"]["precision"] == "float32"
    assert result["versions"]["torch"] == torch.__version__


def test_the_best_validation_is_kept_and_the_test_set_is_seen_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    fixed = data.Dataset.fixed
    monkeypatch.setattr(
        data.Dataset, "fixed", lambda self, split, *rest: seen.append(split) or fixed(self, split, *rest)
    )
    result = engine.train(replace(TINY, steps=40, learning_rate=0.03), tmp_path)
    assert seen == ["validation", "test"]
    best = max(result["curve"], key=lambda line: (line["exact_match"], line["element_wise"]))
    assert result["best_step"] == best["step"]
    assert result["validation"]["exact_match"] == best["exact_match"]
    assert engine.evaluate_run(tmp_path) == result["test"]
    assert engine.evaluate_run(tmp_path, "validation") == result["validation"]


def test_it_learns(tmp_path: Path) -> None:
    easy = replace(TINY, steps=150, batch=20, learning_rate=3e-3, validate_every=150, test=200)
    assert engine.train(easy, tmp_path)["test"]["exact_match"] > 0.6  # guessing gives 1/6


def test_nan_stops_and_leaves_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = learner.Learner._measure

    def poisoned(self: learner.Learner, items: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return whole(self, items, values) * (float("nan") if self.step == 6 else 1)

    monkeypatch.setattr(learner.Learner, "_measure", poisoned)
    with pytest.raises(RunError, match=r"loss became nan at step 7.*Try a lower --learning-rate than 0\.001"):
        engine.train(TINY, tmp_path, checkpoint_seconds=0.0)
    kept = tensors(tmp_path / "checkpoint" / "state.safetensors")
    assert all(tensor.isfinite().all() for tensor in kept.values())
    monkeypatch.undo()
    engine.train(TINY, tmp_path / "whole")
    engine.train(TINY, tmp_path, resume=True)
    runs.assert_same_run(tmp_path / "whole", tmp_path)


def test_one_process_a_folder(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from truesort.engine.record import RunFolder\n"
    program += "with RunFolder(Path(sys.argv[1])).held(): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=rf"in use by another process \(number {other.pid}\)"):
            engine.train(TINY, tmp_path)
        other.kill()
    engine.train(TINY, tmp_path)


def test_a_folder_holds_one_run(tmp_path: Path) -> None:
    engine.train(TINY, tmp_path)
    with pytest.raises(RunError, match="already holds a run; go on with it by --resume"):
        engine.train(TINY, tmp_path)
    with pytest.raises(RunError, match="holds another run: batch is 6 there, 7 here; seed is 42 there, 1 here"):
        engine.train(replace(TINY, batch=7, seed=1), tmp_path, resume=True)


@pytest.mark.parametrize("name", ["checkpoint/state.safetensors", "config.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(engine.Interrupted):
        engine.train(TINY, tmp_path, show=StopAt(5))
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(RunError, match=str(file)):
        engine.train(TINY, tmp_path, resume=True)


PROGRAM = """
import sys
import torch
from runs import TINY
from dataclasses import replace
from truesort import engine, models

class Double(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = models.build("cnn", "small", (1, 8, 8)).double()
    def forward(self, items, mask=None):
        return self.inner(items.double(), mask)

torch.manual_seed(1)
engine.train(replace(TINY, clip=0.1), sys.argv[1], scorer=Double(), device="cpu")
"""


def with_torchrun(*program: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program in two processes."""
    here = os.environ | {"PYTHONPATH": str(Path(runs.__file__).parent), "OMP_NUM_THREADS": "1"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.run([*torchrun, *program], env=here, capture_output=True, text=True, timeout=120)


def test_two_processes_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, because in float32 Adam makes a whole step of a gradient that is zero but for rounding."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(sys, "argv", [str(program), str(tmp_path / "one")])
    runpy.run_path(str(program))
    run = with_torchrun(str(program), str(tmp_path / "two"))
    assert run.returncode == 0, run.stderr
    one, two = (tensors(tmp_path / run / "model.safetensors") for run in ("one", "two"))
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=0, atol=1e-9)


def test_two_processes_speak_with_one_voice(tmp_path: Path) -> None:
    engine.train(replace(TINY, validate_every=1), tmp_path / "one")
    options = "--length 3 --steps 12 --batch 6 --validate-every 1 --validation 20 --test 30 --warmup 3 --device cpu"
    train = ["-m", "truesort.cli", "train", "digits1", *options.split(), "--folder", str(tmp_path / "two")]
    run = with_torchrun(*train)
    assert run.stdout.count("best of step") == 1
    assert run.stderr.count("step 12") == 1
    first = [json.loads((tmp_path / run / "result.json").read_text())["curve"][0]["loss"] for run in ("one", "two")]
    assert first[0] == pytest.approx(first[1], abs=1e-5)
    again = with_torchrun(*train)
    assert again.returncode == 1
    assert "two already holds a run" in again.stderr
    assert "truesort/engine" not in again.stderr  # neither process shows a trace of ours


def test_a_batch_that_cannot_be_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with (
        pytest.raises(RunError, match="batch must be a multiple of the 4 processes, got 6"),
        team(torch.device("cpu"), 6),
    ):
        pass


def test_shares_cover_the_batch() -> None:
    batch = torch.arange(12)
    assert torch.equal(torch.cat([Team(rank, 3).share(batch) for rank in range(3)]), batch)


@pytest.mark.parametrize("name", ["gpu", "cuda:x"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(ValueError, match="device must be auto, cpu, cuda or cuda:<number>, got"):
        choose_device(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    assert choose_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="this torch sees no GPU; use --device cpu"):
        choose_device("cuda")


def test_own_data_and_scorer(tmp_path: Path) -> None:
    class Mean(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, items: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            return self.layer(items.flatten(2).mean(-1, keepdim=True)).squeeze(-1)

    engine.train(TINY, tmp_path, dataset=data.open("digits1"), scorer=Mean())
    with pytest.raises(RunError, match="holds a scorer of your own; give it, freshly built"):
        engine.load(tmp_path)
    items = torch.randint(256, (4, 1, 8, 8), dtype=torch.uint8)
    trained = engine.load(tmp_path, scorer=Mean())
    assert trained.score(items).shape == (4,)
    with pytest.raises(RunError, match="does not fit the scorer"):
        engine.load(tmp_path, scorer=torch.nn.Linear(2, 1))
