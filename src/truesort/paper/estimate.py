"""How long a plan takes, found out by taking some of its steps.

Nobody should start a reproduction of three weeks by accident. Every kind of run in the plan is run for about a second
on the machine it is for, validation included; seeds, λ and swaps do not change the speed, so they share one trial.
"""

import time
from collections.abc import Iterable

import torch

from truesort import models
from truesort.engine import Config, evaluate
from truesort.engine.config import settled
from truesort.engine.learner import LOOK_AWAY, Learner
from truesort.engine.parallel import Team
from truesort.paper import departures
from truesort.paper.reproduce import Data
from truesort.paper.runs import Run

WARM_UP, TRIAL_SECONDS, TRIED = 10, 1.0, 100
Kind = tuple[object, ...]


def seconds(plan: Iterable[Run], source: Data) -> float:
    """The time to do the runs one after the other."""
    found: dict[Kind, float] = {}
    total = 0.0
    for run in plan:
        if (kind := _kind(run)) not in found:
            found[kind] = _per_step(run, source)
        total += found[kind] * run.config.steps
    return total


def _kind(run: Run) -> Kind:
    config = run.config
    hard = getattr(config.method, "error_free", None), getattr(config.method, "backward", None)
    weighed = getattr(config.loss, "lambda_hard", 0.0) > 0
    return (config.task, config.length, config.model, type(config.method), hard, type(config.loss), weighed)


def _per_step(run: Run, source: Data) -> float:
    """Seconds of a step, with its share of validations."""
    dataset = source.open(run.config.task)
    config = settled(run.config, dataset, dataset.device)
    with torch.random.fork_rng([dataset.device] if dataset.device.type == "cuda" else []):
        scorer = departures.scorer(run.recipe, dataset)
        scorer = scorer or models.build(config.model, dataset.family, dataset.item_shape)
        learner = Learner(config, dataset, scorer, Team())
        step = _time_steps(learner)
        return step + _time_validation(learner, config) / config.validate_every


def _time_steps(learner: Learner) -> float:
    for _ in range(WARM_UP):
        _advance(learner)
    taken, start = 0, _now(learner.device)
    while (spent := _now(learner.device) - start) < TRIAL_SECONDS:
        for _ in range(10 if learner.device.type == "cuda" else 1):
            _advance(learner)
            taken += 1
    return spent / taken


def _advance(learner: Learner) -> None:
    learner.advance()
    if learner.unseen == LOOK_AWAY:
        learner.look()


def _time_validation(learner: Learner, config: Config) -> float:
    assert config.length is not None, "the config is settled"
    fixed = learner.dataset.fixed("validation", TRIED, config.length)
    start = _now(learner.device)
    evaluate(learner.scorer, fixed, config.precision)
    return (_now(learner.device) - start) * config.validation / TRIED


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
