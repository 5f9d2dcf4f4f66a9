"""Disks that refuse: an error that says why and what to do, nothing damaged, and no step lost when there is room."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import runs
from runs import TINY, StopAt, assert_same_run
from truesort import data, engine, models
from truesort.engine import RunError
from truesort.engine.record import RunFolder

NOBODY = 65534
PRIVATE_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount"]

TRAIN = """
import sys
from runs import TINY
from truesort import engine
try:
    engine.train(TINY, sys.argv[1], resume=True, device="cpu", checkpoint_seconds=0.0)
except engine.RunError as error:
    print(error)
"""

# the first checkpoint fits beside its successor, but no longer when the best scorer is in it
REAL_DISK = """
mount -t tmpfs -o size=1600k none disk
"$@" disk/run
ls disk/run/checkpoint
mount -o remount,size=20m disk
"$@" disk/run
cp -r disk/run run
mount -o remount,ro disk
"$@" disk/run
"""


def can_mount() -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*PRIVATE_MOUNTS, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="this system does not let us mount a file system of our own")
def test_a_real_disk_that_fills_up_and_turns_read_only(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    here = os.environ | {"PYTHONPATH": str(Path(runs.__file__).parent), "OMP_NUM_THREADS": "1"}
    command = [*PRIVATE_MOUNTS, "sh", "-ec", REAL_DISK, "sh", sys.executable, "-c", TRAIN]
    run = subprocess.run(command, cwd=tmp_path, env=here, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    full, checkpoint, read_only = run.stdout.splitlines()
    assert full.startswith("cannot write disk/run/checkpoint/state.safetensors: the disk is full; free some space")
    assert checkpoint == "state.safetensors"  # and nothing half-written beside it
    assert read_only.startswith("cannot write disk/run: the file system is read-only; choose another place")
    engine.train(TINY, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk is full; free some space, then go on with --resume"),
        (errno.EROFS, "the file system is read-only; choose another place with --folder"),
    ],
)
def test_a_disk_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, message: str) -> None:
    with pytest.raises(engine.Interrupted):
        engine.train(TINY, tmp_path, show=StopAt(5))
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


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    dataset = data.open("digits1")
    scorer = models.build("cnn", dataset.family, dataset.item_shape)
    user = os.geteuid()
    if user == 0:  # root may write anywhere
        os.seteuid(NOBODY)
    try:
        with pytest.raises(RunError, match="permission denied; choose another place with --folder"):
            engine.train(TINY, tmp_path / "run", dataset=dataset, scorer=scorer)
    finally:
        os.seteuid(user)
