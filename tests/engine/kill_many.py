"""Trains in children that are killed at random moments, looking at every file after each kill; run by test_resume.

A process of its own, because a fork is quick only where torch is already imported and has not yet computed.
"""

import json
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from sklearn.datasets import load_digits

from runs import TINY, assert_same_run
from truesort import engine

KILLS = 20
LONG = replace(TINY, steps=60, validate_every=7)


def train(folder: Path) -> None:
    torch.set_num_threads(1)
    engine.train(LONG, folder, resume=True, device="cpu", checkpoint_seconds=0.0)


def read_everything(folder: Path) -> None:
    """Raises if a reader of this moment would see half a file."""
    for file in folder.rglob("*"):
        if file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".jsonl":
            steps = [json.loads(line)["step"] for line in file.open()]
            assert steps == sorted(set(steps))
        elif file.suffix == ".safetensors":
            with safe_open(file, framework="pt") as opened:
                assert all(opened.get_tensor(name) is not None for name in opened.keys())  # noqa: SIM118


def in_child(folder: Path) -> int:
    child = os.fork()
    if child == 0:
        try:
            train(folder)
        finally:
            os._exit(0)
    return child


def main(folder: Path) -> None:
    load_digits()
    os.waitpid(in_child(folder / "whole"), 0)
    chance = random.Random(int(time.time()))
    kills, runs = 0, 0
    while kills < KILLS or not runs:
        run = folder / f"killed{runs}"
        child = in_child(run)
        time.sleep(chance.uniform(0.02, 0.4))
        os.kill(child, signal.SIGKILL)
        kills += os.waitpid(child, 0)[1] == signal.SIGKILL
        read_everything(run)
        if kills >= KILLS:
            os.waitpid(in_child(run), 0)
        if (run / "result.json").exists():
            assert_same_run(folder / "whole", run)
            runs += 1
    print(kills, runs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
