"""How fast training is: steps per second, and which part of a step is spent inside the scorer.

Times are medians over blocks of steps, so that what else the machine does now and then leaves them alone. The part
inside the scorer compares a whole step with the scorer's forward and backward pass alone, on the same items.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import torch

from truesort import data, models
from truesort.data import Dataset
from truesort.engine.config import Config, settled
from truesort.engine.graph import Replayed
from truesort.engine.learner import LOOK_AWAY, Learner, number_format, score
from truesort.engine.machine import circumstances
from truesort.engine.parallel import Team, choose_device
from truesort.engine.record import Facts, write_json


@dataclass(frozen=True)
class Bench:
    """What to time."""

    task: str = "digits4"
    """Dataset."""
    models: tuple[str, ...] = ("cnn",)
    """Scorers."""
    lengths: tuple[int, ...] = (3, 9)
    """Items of a sequence."""
    batch: int = 100
    """Sequences of a step."""
    steps: int = 50
    """Steps to time."""
    blocks: int = 10
    """Blocks the steps are cut into; the median block counts."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:<number>."""
    compile: bool = False
    """Compile scorer and loss."""
    data: Path | None = None
    """Folder of the dataset's files."""
    save: Path | None = None
    """Write the results as JSON here, anew after each row."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    task: str
    model: str
    length: int
    steps_per_second: float
    milliseconds: float
    inside: float


def rows(bench: Bench) -> Iterator[Row]:
    """Time every model at every length."""
    dataset = data.open(bench.task, bench.data, choose_device(bench.device))
    found: list[Row] = []
    for model in bench.models:
        for length in bench.lengths:
            config = settled(Config(bench.task, length, model, batch=bench.batch), dataset, dataset.device)
            found.append(_row(bench, config, dataset))
            if bench.save:
                write_json(bench.save, _facts(bench, found, dataset.device))
            yield found[-1]


def _facts(bench: Bench, found: list[Row], device: torch.device) -> Facts:
    """The rows with all that is needed to judge them."""
    settings = {"batch": bench.batch, "steps": bench.steps, "blocks": bench.blocks, "compiled": bench.compile}
    return {**circumstances(device), **settings, "results": [asdict(row) for row in found]}


def _row(bench: Bench, config: Config, dataset: Dataset) -> Row:
    with torch.random.fork_rng([dataset.device] if dataset.device.type == "cuda" else []):
        torch.manual_seed(0)
        scorer = models.build(config.model, dataset.family, dataset.item_shape)
        learner = Learner(config, dataset, scorer, Team(), bench.compile)
        whole = _seconds(partial(_advance, learner), bench, dataset.device)
        alone = _seconds(
            _scorer_alone(learner), replace(bench, steps=max(bench.blocks, bench.steps // 5)), dataset.device
        )
    assert config.length is not None
    return Row(bench.task, config.model, config.length, 1 / whole, 1000 * whole, alone / whole)


def _advance(learner: Learner) -> None:
    """A step as training takes it: now and then somebody looks at the losses."""
    learner.advance()
    if learner.unseen == LOOK_AWAY:
        learner.look()


def _scorer_alone(learner: Learner) -> Callable[[], None]:
    """The scorer's forward and backward pass on one batch of items, captured like a step on a GPU."""
    config, dataset = learner.config, learner.dataset
    assert config.length is not None
    batch = dataset.batch(config.batch, config.length, learner.draws)
    items = dataset.normalise(batch.items)

    def passes() -> None:
        learner.optimizer.zero_grad(set_to_none=True)
        score(learner.scorer, items, number_format(config.precision)).sum().backward()  # type: ignore[no-untyped-call]

    return Replayed(passes, learner.draws) if dataset.device.type == "cuda" else passes


def _seconds(step: Callable[[], None], bench: Bench, device: torch.device) -> float:
    """The median over blocks of the mean time of a step."""
    for _ in range(5):
        step()
    each = max(1, bench.steps // bench.blocks)
    return statistics.median(_block(step, each, device) / each for _ in range(bench.blocks))


def _block(step: Callable[[], None], times: int, device: torch.device) -> float:
    _finish(device)
    start = time.perf_counter()
    for _ in range(times):
        step()
    _finish(device)
    return time.perf_counter() - start


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
