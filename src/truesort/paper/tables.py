"""The tables: their rows, columns and labels, the paper's numbers in them, and the recipe of each cell."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from truesort.paper import published, recipes
from truesort.paper.recipes import Recipe


@dataclass(frozen=True)
class Table:
    """One table; `paper` holds the paper's numbers by row and column, where it has any."""

    name: str
    title: str
    rows: Mapping[str, str]
    columns: Mapping[str, str]
    recipe: Callable[[str, str], Recipe]
    paper: published.Accuracies
    note: str = ""

    def published(self, row: str, column: str) -> tuple[float, float] | None:
        """The paper's exact match and element-wise accuracy, in percent."""
        found = self.paper.get(row, {}).get(column)
        return None if found is None else (found[0], found[1])


METHODS = {
    "neuralsort": "NeuralSort",
    "sinkhorn": "Sinkhorn Sort",
    "permutahedron": "Fast Sort & Rank",
    "logistic": "Diffsort, logistic",
    "logistic_art": "Diffsort, logistic with ART",
    "reciprocal": "Diffsort, reciprocal",
    "cauchy": "Diffsort, Cauchy",
    "optimal": "Diffsort, optimal",
    "error_free": "Ours, error-free",
    "pairwise": "Pairwise logistic (RankNet)",
}
MODELS = {
    "cnn": "CNN",
    "transformer": "Transformer",
    "transformer_s": "Transformer-S",
    "transformer_l": "Transformer-L",
}
SWAPS = ("logistic", "logistic_art", "reciprocal", "cauchy", "optimal")
LENGTHS = ("3", "5", "7", "9", "15", "32")


def _rows(*names: str) -> dict[str, str]:
    """Labels of rows like "error_free/cnn"."""
    labels = {}
    for name in names:
        method, model = name.split("/")
        labels[name] = f"{METHODS[method]} · {MODELS[model]}"
    return labels


def _all_models(method: str, *models: str) -> list[str]:
    return [f"{method}/{model}" for model in models]


def _lengths(*lengths: str) -> dict[str, str]:
    return {length: f"n = {length}" for length in lengths}


DIGIT_MODELS = ("cnn", "transformer_s", "transformer_l")
DIFFSORT_CNN = [f"{swap}/cnn" for swap in SWAPS]
FRAGMENTS = {
    "mnist_2x2": "MNIST 2×2",
    "mnist_3x3": "MNIST 3×3",
    "cifar10_2x2": "CIFAR-10 2×2",
    "cifar10_3x3": "CIFAR-10 3×3",
}
EFFECTS = {
    "baseline": "As in the tables: attention within the sequence, optimal swap, means, backward of swaps",
    "attention_over_batch": "Attention over the batch, as in the published code",
    "cauchy": "Cauchy swap, which the published code runs whatever it is asked for",
    "chosen_by_test": "Best step chosen on the test set",
    "sums": "Losses are sums, as in the paper's formulas, at the same λ",
    "backward_matrix": 'Gradient of the wire matrices (backward="matrix")',
}
_RANKNET = "The pairwise rows are not in the paper: they are what one tries first."

_TABLES = (
    Table(
        "mnist4",
        "Four-digit MNIST",
        _rows(
            *("neuralsort/cnn", "sinkhorn/cnn", "permutahedron/cnn"),
            *DIFFSORT_CNN,
            *_all_models("error_free", *DIGIT_MODELS),
            *_all_models("pairwise", *DIGIT_MODELS),
            *_all_models("optimal", "transformer_s", "transformer_l"),
        ),
        _lengths(*LENGTHS),
        recipes.mnist4,
        published.numbers("mnist4"),
        _RANKNET,
    ),
    Table(
        "svhn",
        "SVHN",
        _rows(*DIFFSORT_CNN, *_all_models("error_free", *DIGIT_MODELS), *_all_models("pairwise", *DIGIT_MODELS)),
        _lengths(*LENGTHS[:-1]),
        recipes.svhn,
        published.numbers("svhn"),
        f"Ours are trained without the 202,353 pictures of the part `extra`. {_RANKNET}",
    ),
    Table(
        "fragments",
        "Image fragments",
        _rows(
            *DIFFSORT_CNN,
            *_all_models("error_free", "cnn", "transformer"),
            *_all_models("pairwise", "cnn", "transformer"),
        ),
        FRAGMENTS,
        recipes.fragments,
        published.numbers("fragments"),
        _RANKNET,
    ),
    Table(
        "comparison",
        "Ours against Diffsort at equal scorers, four-digit MNIST",
        _rows(*(f"{method}/{model}" for model in DIGIT_MODELS for method in ("optimal", "error_free"))),
        _lengths(*LENGTHS),
        recipes.mnist4,
        published.numbers("mnist4"),
    ),
    Table(
        "lambda",
        "The balance λ of the two losses, four-digit MNIST, CNN",
        {weight: f"λ = {weight}" for weight in published.numbers("lambda")},
        _lengths(*LENGTHS),
        recipes.lambda_study,
        published.numbers("lambda"),
    ),
    *(
        Table(
            f"steepness-{length}",
            f"Steepness and learning rate, four-digit MNIST, CNN, n = {length}",
            {row: f"log₁₀ lr = {row}" for row in published.numbers(f"steepness-{length}")},
            {column: f"β = {column}" for column in published.numbers(f"steepness-{length}")["-3.0"]},
            partial(recipes.steepness_study, int(length)),
            published.numbers(f"steepness-{length}"),
            "The paper ran seed 42 only.",
        )
        for length in LENGTHS
    ),
    Table(
        "effects",
        "What one change at a time is worth (not in the paper)",
        EFFECTS,
        {"mnist_3x3": "MNIST 3×3", "cifar10_2x2": "CIFAR-10 2×2", "mnist4_5": "four-digit MNIST, n = 5"},
        recipes.effects,
        {},
    ),
)
TABLES: Mapping[str, Table] = {table.name: table for table in _TABLES}
