"""How each cell of each table is run, as a config of the engine, and where every value of it comes from.

The paper's text leaves the steepness, λ and some learning rates to its code, and the code to its command line. So a
recipe says of each value that is not in the paper's text who chose it: a report that hid this would compare settings
nobody ever ran.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from truesort.engine import Config, Halving, Pairwise, Permutation, Ranks
from truesort.ops import Network, NeuralSort, Permutahedron, Sinkhorn
from truesort.paper import published

SEEDS = (42, 84, 126, 168, 210)
CNN_RATE, TRANSFORMER_RATE, STUDY_RATE = 10**-3.5, 1e-4, 1e-3
STUDY_STEEPNESS = {3: 2.0, 5: 14.0, 7: 23.0, 9: 38.0, 15: 25.0, 32: 124.0}
GRID_LAMBDA = {3: 1.0, 5: 1.0, 7: 0.1, 9: 0.1, 15: 0.1, 32: 0.1}
FRAGMENT_STEEPNESS = 10.0
LAMBDA = 0.1
SPLIT = 4

OURS, CODE, STUDY = "ours", "the published code", "the paper's λ study"

Method = Network | NeuralSort | Sinkhorn | Permutahedron
Loss = Permutation | Ranks | Pairwise


@dataclass(frozen=True)
class Recipe:
    """A config, who chose what the paper's text leaves open in it, and the two departures that only show an effect.

    `attention="batch"` lets a Transformer's items see the same place of every other sequence, as the published code
    does; `selection="test"` chooses the best scorer on the test set itself.
    """

    config: Config
    sources: Mapping[str, str] = field(default_factory=dict)
    attention: Literal["sequence", "batch"] = "sequence"
    selection: Literal["validation", "test"] = "validation"

    def shortened(self, steps: int) -> "Recipe":
        """The same over fewer or more steps: the halvings and validations keep their place in the whole."""
        config = self.config
        assert isinstance(config.schedule, Halving), "the paper halves its learning rates"
        every = max(1, round(config.schedule.every * steps / config.steps))
        validate = max(1, round(config.validate_every * steps / config.steps))
        return replace(
            self, config=replace(config, steps=steps, schedule=Halving(every), validate_every=max(validate, 100))
        )

    def ours(self) -> list[str]:
        """The fields whose values we chose."""
        return [name for name, source in self.sources.items() if source == OURS]


def numbers(task: str, row: str, length: int, *, steps: int, halve: int = 50_000) -> Recipe:
    """Multi-digit numbers: a row like "error_free/transformer_s" at a length."""
    method, model = row.split("/")
    chosen = {"method.steepness": OURS, "loss.lambda_hard": OURS, "loss.split": CODE}
    rate, weight = _rate(model), LAMBDA
    if (task, row) == ("mnist4", "error_free/cnn"):
        rate, weight = STUDY_RATE, best_lambda(length)
        chosen |= dict.fromkeys(("method.steepness", "loss.lambda_hard", "learning_rate"), STUDY)
    return _recipe(task, length, method, model, STUDY_STEEPNESS[length], weight, rate, steps, halve, chosen)


def mnist4(row: str, column: str) -> Recipe:
    """The four-digit MNIST table; the comparison of ours with Diffsort takes rows of it."""
    return numbers("mnist4", row, int(column), steps=200_000)


def svhn(row: str, column: str) -> Recipe:
    """The SVHN table, without the `extra` part."""
    return numbers("svhn", row, int(column), steps=300_000)


def fragments(row: str, column: str) -> Recipe:
    """The table of image fragments."""
    method, model = row.split("/")
    length, steps = (4, 50_000) if column.endswith("2x2") else (9, 100_000)
    chosen = {"method.steepness": CODE, "loss.lambda_hard": OURS, "loss.split": CODE}
    return _recipe(
        column, length, method, model, FRAGMENT_STEEPNESS, LAMBDA, _rate(model), steps, 20_000, chosen
    )  # fmt: skip


def lambda_study(row: str, column: str) -> Recipe:
    """The study on λ: rows are λ, columns lengths."""
    length = int(column)
    chosen = {"loss.split": CODE}
    return _recipe(
        "mnist4", length, "error_free", "cnn", STUDY_STEEPNESS[length], float(row), STUDY_RATE, 200_000, 50_000, chosen
    )


def steepness_study(length: int, row: str, column: str) -> Recipe:
    """A study on steepness and learning rate: rows are log10 of the learning rate, columns steepness."""
    chosen = {"loss.split": CODE}
    return _recipe(
        "mnist4", length, "error_free", "cnn", float(column), GRID_LAMBDA[length], 10 ** float(row),
        200_000, 50_000, chosen,
    )  # fmt: skip


def effects(row: str, column: str) -> Recipe:
    """One change at a time against the error-free Transformer, to see what each is worth."""
    base = mnist4("error_free/transformer_s", column.removeprefix("mnist4_")) if column.startswith("mnist4_") else None
    base = base or fragments("error_free/transformer", column)
    return EFFECTS[row](base)


def _changed(base: Recipe, **changes: Any) -> Recipe:
    return replace(base, config=replace(base.config, **changes))


def _swap(base: Recipe, **changes: Any) -> Recipe:
    assert isinstance(base.config.method, Network)
    return _changed(base, method=replace(base.config.method, **changes))


def _sums(base: Recipe) -> Recipe:
    assert isinstance(base.config.loss, Permutation)
    return _changed(base, loss=replace(base.config.loss, reduction="sum"))


EFFECTS: Mapping[str, Callable[[Recipe], Recipe]] = {
    "baseline": lambda base: base,
    "attention_over_batch": lambda base: replace(base, attention="batch"),
    "cauchy": lambda base: _swap(base, swap="cauchy"),
    "chosen_by_test": lambda base: replace(_changed(base, validation=base.config.test), selection="test"),
    "sums": _sums,
    "backward_matrix": lambda base: _swap(base, backward="matrix"),
}


def best_lambda(length: int) -> float:
    """The λ with the best exact match in the paper's study: the row "ours, CNN" of its main table is that."""
    column = {weight: row[str(length)] for weight, row in published.numbers("lambda").items()}
    return float(max(column, key=lambda weight: column[weight] or (0.0, 0.0)))


def _rate(model: str) -> float:
    return CNN_RATE if model == "cnn" else TRANSFORMER_RATE


def _recipe(
    task: str, length: int, method: str, model: str, steepness: float, weight: float,
    rate: float, steps: int, halve: int, chosen: Mapping[str, str],
) -> Recipe:  # fmt: skip
    sorter, loss, relevant = _sorter(method, steepness, weight)
    config = Config(
        task, length, model.replace("_", "-"), sorter, loss, steps,
        learning_rate=rate, schedule=Halving(halve), validate_every=1000, validation=2000,
    )  # fmt: skip
    sources = {name: source for name, source in chosen.items() if name in relevant or name == "learning_rate"}
    return Recipe(config, sources | {name: OURS for name in relevant if name not in chosen and name in ALWAYS_OURS})


ALWAYS_OURS = ("method.temperature", "method.strength", "loss", "learning_rate")


def _sorter(name: str, steepness: float, weight: float) -> tuple[Method, Loss, tuple[str, ...]]:
    """The method and loss of a row, and the fields of them that somebody had to choose."""
    match name:
        case "neuralsort":
            return NeuralSort(), Permutation(lambda_hard=0.0), ("method.temperature",)
        case "sinkhorn":
            return Sinkhorn(), Permutation(lambda_hard=0.0), ("method.temperature",)
        case "permutahedron":
            return Permutahedron(), Ranks(), ("method.strength", "loss")
        case "pairwise":
            return Network(), Pairwise(), ("learning_rate",)
        case "error_free":
            hard = Permutation(lambda_hard=weight, split=SPLIT)
            return Network(steepness=steepness), hard, ("method.steepness", "loss.lambda_hard", "loss.split")
        case _:
            soft = Network(swap=name, steepness=steepness, error_free=False)
            return soft, Permutation(lambda_hard=0.0), ("method.steepness",)
