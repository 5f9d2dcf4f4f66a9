"""Runs small enough for tests, and what two equal runs must have in common."""

import json
import os
from pathlib import Path
from typing import Any

import torch

from truesort import engine
from truesort.engine.checkpoint import read_tensors
from truesort.engine.progress import Quiet

TINY = engine.Config(
    "digits1", length=3, steps=12, batch=6, validate_every=4, validation=20, test=30, schedule=engine.Cosine(warmup=3)
)


class StopAt(Quiet):
    """Presses Ctrl-C after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def steps(self, done: int, of: int, loss: float) -> None:
        if done == self.step:
            os.kill(os.getpid(), 2)


TIMES = ("seconds", "processes", "commit")


def tensors(file: Path) -> dict[str, torch.Tensor]:
    return read_tensors(file)[0]


def same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def timeless(facts: Any) -> Any:
    """The same without what a clock or a commit made meanwhile says."""
    if isinstance(facts, dict):
        return {key: timeless(value) for key, value in facts.items() if key not in TIMES}
    return [timeless(part) for part in facts] if isinstance(facts, list) else facts


def assert_same_run(a: Path, b: Path) -> None:
    """Every file of two run folders holds the same, apart from times."""
    for name in ("model.safetensors", "checkpoint/state.safetensors"):
        assert same_bits(tensors(a / name), tensors(b / name)), name
    assert timeless(json.loads((a / "result.json").read_text())) == timeless(
        json.loads((b / "result.json").read_text())
    )
    lines = [[timeless(json.loads(line)) for line in (run / "metrics.jsonl").open()] for run in (a, b)]
    assert lines[0] == lines[1]
