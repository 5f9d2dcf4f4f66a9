"""A run as a value: everything that decides its result, and nothing that does not.

The command line, config.json and the docs are made from these classes, and a test changes every field and sees the
trained scorer, its validation curve or its test result change: a setting that reaches nothing cannot stay unnoticed.
Where a run happens (device, folder, data folder) is no part of it.
"""

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, get_args

import torch

from truesort.data import Dataset
from truesort.engine.record import Facts, RunError
from truesort.ops import Network, NeuralSort, Permutahedron, Sinkhorn, SoftSort

Method = Network | NeuralSort | SoftSort | Sinkhorn | Permutahedron
Precision = Literal["auto", "float32", "bfloat16"]
USUAL_LENGTH = 5


def _require(name: str, value: object, holds: bool, allowed: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


@dataclass(frozen=True)
class Constant:
    """The learning rate stays as it is."""

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by."""
        return 1.0


@dataclass(frozen=True)
class Halving:
    """The learning rate is halved every so many steps, as in the paper."""

    every: int = 50_000
    """Steps between two halvings."""

    def __post_init__(self) -> None:
        _require("every", self.every, self.every >= 1, "at least 1")

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by."""
        return 0.5 ** (step // self.every)


@dataclass(frozen=True)
class Cosine:
    """The learning rate rises in a straight line, then falls to zero along half a cosine."""

    warmup: int = 200
    """Steps of rising."""

    def __post_init__(self) -> None:
        _require("warmup", self.warmup, self.warmup >= 0, "at least 0")

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by."""
        if step < self.warmup:
            return (step + 1) / self.warmup
        return 0.5 + 0.5 * math.cos(math.pi * (step - self.warmup) / max(1, steps - self.warmup))


@dataclass(frozen=True)
class Permutation:
    """The paper's loss: cross-entropy on the soft permutation, plus the items in the order of the hard one."""

    lambda_hard: float = 0.1
    """Weight of the second part; 0 leaves it out, as Diffsort does."""
    split: int | None = None
    """Items of a block, if the second part cuts a sequence into blocks that are sorted on their own."""
    reduction: Literal["mean", "sum"] = "mean"
    """Over the entries of both parts; the paper's formula has sums, its published code and its λ means."""

    def __post_init__(self) -> None:
        _require("lambda_hard", self.lambda_hard, self.lambda_hard >= 0, "at least 0")
        _require("split", self.split, self.split is None or self.split >= 2, "at least 2, or None")
        _require("reduction", self.reduction, self.reduction in ("mean", "sum"), "mean or sum")


@dataclass(frozen=True)
class Ranks:
    """Squared distance of soft ranks from the true ones: for the Permutahedron, which has no permutation matrix."""


@dataclass(frozen=True)
class Pairwise:
    """Logistic loss on every pair of scores (RankNet), with no sorting at all: what one tries first."""


Loss = Permutation | Ranks | Pairwise
Schedule = Constant | Halving | Cosine


@dataclass(frozen=True)
class Config:
    """What decides the result of a run."""

    task: str
    """Dataset to learn to sort: digits<d>, mnist<d>, svhn, svhn_extra, mnist_<k>x<k> or cifar10_<k>x<k>."""
    length: int | None = None
    """Items of a sequence; if not given, the length the task fixes, or 5."""
    model: str = "cnn"
    """Scorer: cnn, transformer-s or transformer-l; cnn or transformer for fragments and digits<d>."""
    method: Method = Network(steepness=10.0)
    """How to sort with a gradient."""
    loss: Loss = Permutation()
    """What is made small."""
    steps: int = 20_000
    """Updates of the scorer."""
    batch: int = 100
    """Sequences of one update, over all processes."""
    learning_rate: float = 1e-3
    """Highest learning rate of AdamW."""
    schedule: Schedule = Cosine()
    """How the learning rate goes over the steps."""
    weight_decay: float = 0.01
    """AdamW's weight decay."""
    clip: float | None = None
    """Longest gradient; longer ones are shortened to it."""
    precision: Precision = "auto"
    """Numbers inside the scorer; if not given, bfloat16 on a GPU and float32 elsewhere."""
    validate_every: int = 1000
    """Steps between two validations."""
    validation: int = 1000
    """Sequences of the validation set, on which the best model is chosen."""
    test: int = 10_000
    """Sequences of the test set, looked at once."""
    seed: int = 42
    """Seed of the scorer's first weights and of the stream of batches."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "validate_every", "validation", "test"):
            _require(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        _require("length", self.length, self.length is None or self.length >= 2, "at least 2")
        _require("learning_rate", self.learning_rate, 0 < self.learning_rate < math.inf, "above 0 and finite")
        _require("weight_decay", self.weight_decay, 0 <= self.weight_decay < math.inf, "at least 0 and finite")
        _require("clip", self.clip, self.clip is None or self.clip > 0, "above 0")
        _require("seed", self.seed, self.seed >= 0, "at least 0")
        _require("precision", self.precision, self.precision in get_args(Precision), "auto, float32 or bfloat16")
        if isinstance(self.method, Permutahedron) and isinstance(self.loss, Permutation):
            raise ValueError("loss must be Ranks or Pairwise for the Permutahedron, which has no permutation matrix")


def settled(config: Config, dataset: Dataset, device: torch.device) -> Config:
    """The config with what was left open filled in, as it goes into the record."""
    length = config.length or dataset.length or USUAL_LENGTH
    automatic: Precision = "bfloat16" if device.type == "cuda" else "float32"
    return replace(config, length=length, precision=automatic if config.precision == "auto" else config.precision)


def name(config: Config) -> str:
    """A name for a run of this config, as mnist4-9-transformer-s-42."""
    parts = (config.task, config.length, config.model, config.seed)
    return "-".join(str(part) for part in parts if part is not None)


VALUES: dict[str, type] = {kind.__name__: kind for kind in (*get_args(Method), *get_args(Loss), *get_args(Schedule))}


def to_facts(value: Any) -> Facts:
    """A config, or a value in it, as JSON: a value that has alternatives says its kind."""
    kind = {"kind": type(value).__name__} if type(value).__name__ in VALUES else {}
    inner = {field.name: getattr(value, field.name) for field in fields(value)}
    return kind | {name: to_facts(part) if is_dataclass(part) else part for name, part in inner.items()}


def from_facts(facts: Facts) -> Config:
    """The config that `to_facts` wrote; a RunError says what this version does not know."""
    config: Config = _revive(Config, {name: _value(name, part) for name, part in facts.items()})
    return config


def _value(name: str, part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    kind = part.get("kind")
    if kind not in VALUES:
        raise RunError(f"{name} of a stored config has kind {kind!r}; this version knows {', '.join(VALUES)}")
    return _revive(VALUES[kind], {key: value for key, value in part.items() if key != "kind"})


def _revive(kind: type, values: Facts) -> Any:
    known = {field.name for field in fields(kind)}
    if unknown := sorted(set(values) - known):
        raise RunError(f"a stored {kind.__name__} has {', '.join(unknown)}, which this version does not know")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise RunError(f"a stored {kind.__name__} is not valid: {error}") from error
