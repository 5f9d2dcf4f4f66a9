"""Scorers by name, for each family of items.

The paper's tables give every kind of item its own convolutions; here they are data, so that a name like
`transformer-s` means the right thing for four-digit MNIST and for SVHN, and so that a stored config builds again.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from torch import nn

from truesort.models._convolutions import Convolutions
from truesort.models.cnn import CNN
from truesort.models.mlp import MLP
from truesort.models.transformer import Transformer

Config = CNN | Transformer | MLP
ItemShape = tuple[int, int, int]

KINDS: Mapping[str, type[Config]] = {"cnn": CNN, "transformer": Transformer, "mlp": MLP}

DIGITS = Convolutions((32, 64))
FRAGMENTS = Convolutions((32, 64), kernel=3, stride=2, pool=False)
FRAGMENTS_NARROW = Convolutions((32, 32), kernel=3, stride=2, pool=False)
SVHN = Convolutions((32, 64, 128, 256))
SVHN_NARROW = Convolutions((32, 64, 64, 128))
SMALL = Convolutions((32, 64, 64), kernel=3, stride=2, pool=False)

SCORERS: Mapping[str, Mapping[str, Callable[[ItemShape], Config]]] = {
    "digits": {
        "cnn": lambda shape: CNN(shape, DIGITS),
        "transformer-s": lambda shape: Transformer(shape, DIGITS, width=16, layers=6),
        "transformer-l": lambda shape: Transformer(shape, DIGITS, width=64, layers=8),
    },
    "svhn": {
        "cnn": lambda shape: CNN(shape, SVHN),
        "transformer-s": lambda shape: Transformer(shape, SVHN_NARROW, width=32, layers=6),
        "transformer-l": lambda shape: Transformer(shape, SVHN, width=64, layers=8),
    },
    "fragments": {
        "cnn": lambda shape: CNN(shape, FRAGMENTS),
        "transformer": lambda shape: Transformer(shape, FRAGMENTS_NARROW, width=16, layers=1),
    },
    "small": {
        "cnn": lambda shape: CNN(shape, SMALL),
        "transformer": lambda shape: Transformer(shape, SMALL, width=32, layers=2, heads=4, feedforward=128),
    },
}


def names(family: str) -> tuple[str, ...]:
    """The scorers there are for a family of items; the first is the default."""
    if family not in SCORERS:
        raise ValueError(f"unknown family {family!r}; choices: {', '.join(SCORERS)}")
    return tuple(SCORERS[family])


def configure(name: str, family: str, item_shape: ItemShape) -> Config:
    """The config of the scorer called `name` for items of a family and shape (C, H, W)."""
    if name not in names(family):
        raise ValueError(f"unknown model {name!r} for {family}; choices: {', '.join(names(family))}")
    return SCORERS[family][name](item_shape)


def build(name: str, family: str, item_shape: ItemShape) -> nn.Module:
    """A freshly initialised scorer: items (B, n, C, H, W) and an optional mask (B, n) to scores (B, n)."""
    return configure(name, family, item_shape).build()


def to_dict(config: Config) -> dict[str, Any]:
    """A config as plain JSON values."""
    kind = next(kind for kind, cls in KINDS.items() if type(config) is cls)
    return {"kind": kind, **asdict(config)}


def from_dict(stored: Mapping[str, Any]) -> Config:
    """The config that `to_dict` stored."""
    kind = str(stored.get("kind"))
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    values = {name: value for name, value in stored.items() if name != "kind"}
    known = {field.name for field in fields(KINDS[kind])}
    if unknown := sorted(set(values) - known):
        raise ValueError(f"a {kind} has no {', '.join(unknown)}; its fields are {', '.join(sorted(known))}")
    try:
        return KINDS[kind](**{name: _revive(name, value) for name, value in values.items()})
    except (TypeError, AttributeError) as error:
        raise ValueError(f"this is not a whole {kind}: {error}") from error


def _revive(name: str, value: Any) -> Any:
    if name == "convolutions":
        return Convolutions(**{key: _revive(key, inner) for key, inner in value.items()})
    return tuple(value) if isinstance(value, list) else value
