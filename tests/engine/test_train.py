"""Training: what it writes, what it refuses, and that a run of several processes is the run of one."""

import errno
import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import runs
from runs import TINY, tensors
from truesort import data, engine
from truesort.engine import RunError, learner
from truesort.engine.parallel import Team, choose_device, team
from truesort.engine.record import RunFolder


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


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full; free some space, then go on with --resume"),
        (errno.EROFS, "the file system is read-only; choose another place with --folder"),
    ],
)
def test_a_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str) -> None:
    with pytest.raises(engine.Interrupted):
        engine.train(TINY, tmp_path, show=_stop_at(5))
    before = (tmp_path / "checkpoint" / "state.safetensors").read_bytes()

    def refuse(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(RunError, match=rf"cannot write .*: {message}\. What was written before is intact"):
        engine.train(TINY, tmp_path, resume=True)
    monkeypatch.undo()
    assert (tmp_path / "checkpoint" / "state.safetensors").read_bytes() == before
    assert not list(tmp_path.rglob("*.partial"))
    engine.train(TINY, tmp_path, resume=True)


def _stop_at(step: int) -> object:
    from engine.test_resume import StopAt

    return StopAt(step)


def test_half_a_line_of_metrics_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    folder.append({"step": 1})
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, line: write(handle, line[:5]))
    with pytest.raises(RunError, match="the disk is full"):
        folder.append({"step": 2})
    assert folder.curve() == [{"step": 1}]
    assert folder.metrics.read_text() == '{"step": 1}\n'


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="a part of this path is a file, not a folder; choose another place"):
        engine.train(TINY, tmp_path / "file" / "run")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user who is not root")
def test_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="permission denied; choose another place with --folder"):
        engine.train(TINY, tmp_path / "run")


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
        engine.train(TINY, tmp_path, show=_stop_at(5))
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(RunError, match=str(file)):
        engine.train(TINY, tmp_path, resume=True)


PROGRAM = """
import sys
from runs import TINY
from dataclasses import replace
from truesort import engine
engine.train(replace(TINY, clip=0.1), sys.argv[1], device="cpu")
"""


def test_two_processes_are_one(tmp_path: Path) -> None:
    engine.train(replace(TINY, clip=0.1), tmp_path / "one")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    here = os.environ | meeting | {"PYTHONPATH": str(Path(runs.__file__).parent)}
    both = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "two")], env=here | {"RANK": str(rank)})
        for rank in range(2)
    ]
    assert [process.wait(60) for process in both] == [0, 0]
    one, two = (tensors(tmp_path / run / "model.safetensors") for run in ("one", "two"))
    # where a gradient is zero but for rounding, Adam's division by its own size makes a step of it
    apart = sum(int(((one[name] - two[name]).abs() > 1e-5).sum()) for name in one)
    assert apart <= sum(tensor.numel() for tensor in one.values()) / 1000
    curves = [json.loads((tmp_path / run / "result.json").read_text())["curve"] for run in ("one", "two")]
    for a, b in zip(*curves, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        assert a["exact_match"] == pytest.approx(b["exact_match"], abs=0.051)  # at most one near tie of 20


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
