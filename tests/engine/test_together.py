"""Runs by turns are the runs alone, whatever is trained beside them."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from runs import TINY, tensors
from truesort import engine
from truesort.engine import Interrupted, RunError, Training, together

CPU = torch.device("cpu")
CONFIGS = {name: replace(TINY, model="transformer", seed=seed) for seed, name in enumerate("abc")}  # with dropout
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def runs_in(folder: Path, device: str, configs: dict[str, engine.Config] = CONFIGS) -> Iterator[tuple[str, Training]]:
    for name, config in configs.items():
        yield name, engine.training(config, folder / name, device=device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_each_is_the_run_alone(at_once: int, device: str, tmp_path: Path) -> None:
    found = dict(together(runs_in(tmp_path, device), at_once, torch.device(device)))
    assert set(found) == set(CONFIGS)
    for name, config in CONFIGS.items():
        torch.manual_seed(at_once)  # what came before changes nothing
        alone = engine.train(config, tmp_path / "alone" / name, device=device)
        assert found[name]["test"] == alone["test"]
        ours, theirs = (
            tensors(folder / "model.safetensors") for folder in (tmp_path / name, tmp_path / "alone" / name)
        )
        if device == "cpu":
            assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_the_random_numbers_of_the_process_stay_as_they_were(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    list(together(runs_in(tmp_path, "cpu"), 2, CPU))
    assert torch.equal(torch.get_rng_state(), before)


def test_an_error_ends_one_run_and_no_other(tmp_path: Path) -> None:
    engine.train(CONFIGS["b"], tmp_path / "b")
    found = dict(together(runs_in(tmp_path, "cpu"), 3, CPU))
    assert isinstance(found["b"], RunError)
    assert "already holds a run" in str(found["b"])
    assert found["a"]["best_step"] > 0
    assert found["c"]["best_step"] > 0


def test_asked_to_stop_all_leave_a_checkpoint(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    trainings = ((name, engine.training(config, tmp_path / name, stop=stop)) for name, config in CONFIGS.items())
    found = dict(together(trainings, 2, CPU))
    assert all(isinstance(outcome, Interrupted) for outcome in found.values())
    assert all((tmp_path / name / "checkpoint" / "state.safetensors").exists() for name in CONFIGS)
