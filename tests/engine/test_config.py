"""A config is a value: it survives JSON, refuses nonsense, and every field of it reaches the run."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from runs import TINY, tensors, timeless
from truesort import engine
from truesort.engine import Config, RunError
from truesort.engine.config import from_facts, settled, to_facts
from truesort.ops import Network, NeuralSort, Permutahedron, Sinkhorn, SoftSort

SOFT = replace(TINY, loss=engine.Permutation(lambda_hard=1.0), batch=4, test=8, validation=8, steps=4, validate_every=2)
# where a field acts only beside another value of a second one, that value
BESIDE = {
    "method.layout": replace(SOFT, length=4),
    "method.iterations": replace(SOFT, method=Sinkhorn(temperature=0.01, iterations=1)),
    "method.tolerance": replace(SOFT, method=Sinkhorn(temperature=1.0)),
    "method.art": replace(SOFT, method=Network(swap="logistic_art")),
    "clip": replace(SOFT, clip=1e-3),
    "loss.split": replace(SOFT, loss=engine.Permutation(lambda_hard=1.0, split=2), length=4),
}
OTHER = {
    "task": "digits2",
    "length": 4,
    "model": "transformer",
    "method": NeuralSort(),
    "loss": engine.Pairwise(),
    "schedule": engine.Constant(),
    "precision": "bfloat16",
    "clip": 2e-3,
    "method.layout": "bitonic",
    "method.swap": "cauchy",
    "method.art": 0.75,
    "method.backward": "matrix",
    "method.gradient": "unrolled",
    "method.tolerance": 5.0,
    "method.regularization": "kl",
    "loss.split": 3,
    "loss.reduction": "sum",
}


def paths(config: Config) -> list[str]:
    inner = [f"{field.name}.{part.name}" for field in fields(config)
             if is_dataclass(value := getattr(config, field.name)) for part in fields(value)]  # fmt: skip
    return [field.name for field in fields(config)] + inner


def changed(config: Config, path: str) -> Config:
    """The config with another value of one field."""
    name, _, part = path.partition(".")
    value = getattr(config, name)
    if part:
        return replace(config, **{name: replace(value, **{part: other(path, getattr(value, part))})})
    return replace(config, **{name: other(path, value)})


def other(path: str, value: Any) -> Any:
    if path in OTHER:
        return OTHER[path]
    if isinstance(value, bool):
        return not value
    return value * 2 if value else 1


def outcome(config: Config, folder: Path) -> Any:
    """Everything a run leaves behind but its config."""
    result = timeless(engine.train(config, folder))
    return {key: value for key, value in result.items() if key != "config"}, tensors(folder / "model.safetensors")


def same(a: Any, b: Any) -> bool:
    return a[0] == b[0] and a[1].keys() == b[1].keys() and all(torch.equal(a[1][k], b[1][k]) for k in a[1])


WALKED = {
    "": SOFT,
    "sinkhorn": replace(SOFT, method=Sinkhorn(iterations=2)),
    "soft-sort": replace(SOFT, method=SoftSort()),
    "permutahedron": replace(SOFT, method=Permutahedron(strength=0.1), loss=engine.Ranks()),
    "halving": replace(SOFT, schedule=engine.Halving(every=1)),
}


def walk() -> Iterator[Any]:
    for kind, config in WALKED.items():
        for path in paths(config):
            if not kind or ((part := path.partition(".")[2]) and part not in {f.name for f in fields(Network)}):
                yield pytest.param(BESIDE.get(path, config), path, id=f"{kind or 'network'}:{path}")


@pytest.mark.parametrize(("config", "path"), list(walk()))
def test_every_field_changes_the_run(config: Config, path: str, tmp_path: Path) -> None:
    other_config = changed(config, path)
    assert other_config != config
    assert not same(outcome(config, tmp_path / "a"), outcome(other_config, tmp_path / "b"))


@pytest.mark.parametrize("config", [*WALKED.values(), *BESIDE.values()])
def test_json_and_back(config: Config) -> None:
    assert from_facts(to_facts(config)) == config


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"task": "digits1", "colour": 1}, "has colour, which this version does not know"),
        ({"task": "digits1", "method": {"kind": "Bogosort"}}, "kind 'Bogosort'; this version knows .*Network"),
        ({"task": "digits1", "method": {"kind": "Network", "depth": 1}}, "stored Network has depth"),
        ({"task": "digits1", "steps": 0}, "stored Config is not valid: steps must be at least 1, got 0"),
        ({}, "stored Config is not valid"),
    ],
)
def test_facts_of_another_version_are_refused(facts: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        from_facts(facts)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"length": 1}, "length must be at least 2, got 1"),
        ({"learning_rate": float("nan")}, "learning_rate must be above 0 and finite, got nan"),
        ({"clip": 0.0}, "clip must be above 0, got 0.0"),
        ({"precision": "float16"}, "precision must be auto, float32 or bfloat16, got 'float16'"),
        ({"method": Permutahedron()}, "loss must be Ranks or Pairwise for the Permutahedron"),
    ],
)
def test_nonsense_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TINY, **values)


def test_schedules() -> None:
    cosine, halving = engine.Cosine(warmup=10), engine.Halving(every=50)
    assert [cosine.factor(step, 110) for step in (0, 9, 10, 60)] == pytest.approx([0.1, 1.0, 1.0, 0.5])
    assert 0 < cosine.factor(109, 110) < 1e-3
    assert [halving.factor(step, 500) for step in (0, 49, 50, 149)] == [1, 1, 0.5, 0.25]
    assert engine.Constant().factor(7, 8) == 1


def test_what_is_left_open_is_settled_by_task_and_device() -> None:
    from truesort import data

    config = settled(Config("digits1"), data.open("digits1"), torch.device("cpu"))
    assert (config.length, config.precision) == (5, "float32")
    assert settled(Config("digits1"), data.open("digits1"), torch.device("cuda")).precision == "bfloat16"
