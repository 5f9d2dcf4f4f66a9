"""How good the taught order is, said honestly: on orders held back, with intervals, beside what needs no learning.

A number without its interval and its baselines deceives the person who taught with fifty comparisons. Intervals come
from drawing the held-out lists again (bootstrap); Bradley–Terry only knows names, so beating it is what pictures and
columns add.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from truesort import metrics
from truesort.teaching.learning import Lists, gains, starts_of

SHORT = 10
"""Longest list of which one asks whether all of it is right."""
LONGEST_COMPARED = 128
"""Longest list whose pairs are looked at for contradictions and names."""
PIECE = 5
RESAMPLES = 1000
TOO_FEW = 30

Score = Callable[[Tensor], Tensor]
"""Scores (lists, n) of the items with the numbers (lists, n)."""


@dataclass(frozen=True)
class Figure:
    """A mean over lists and the interval that holds 95 % of its bootstrap."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} ({100 * self.low:.1f}–{100 * self.high:.1f})"


@dataclass(frozen=True)
class Report:
    """Figures by metric, for the model and each baseline; how many lists and comparisons they rest on; what to know."""

    lists: int
    comparisons: int
    figures: dict[str, dict[str, Figure]]
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, metric: str) -> Figure:
        """A figure of the model."""
        return self.figures["model"][metric]

    def __str__(self) -> str:
        wide = max(len(metric) for metric in self.figures["model"]) + 2
        lines = [f"{'in %':<{wide}}" + "".join(f"{who:>22}" for who in self.figures)]
        for metric in self.figures["model"]:
            lines.append(f"{metric:<{wide}}" + "".join(f"{rows[metric]!s:>22}" for rows in self.figures.values()))
        return "\n".join(lines)

    @classmethod
    def of(cls, facts: dict[str, Any]) -> "Report":
        """The report that `facts` wrote."""
        figures = {
            who: {name: Figure(**figure) for name, figure in rows.items()} for who, rows in facts["figures"].items()
        }
        return cls(int(facts["lists"]), int(facts["comparisons"]), figures, [str(note) for note in facts["notes"]])

    def facts(self) -> dict[str, Any]:
        """The report as JSON."""
        figures = {who: {name: vars(figure) for name, figure in rows.items()} for who, rows in self.figures.items()}
        return {"lists": self.lists, "comparisons": self.comparisons, "figures": figures, "notes": self.notes}


def by_length(lists: Lists) -> Iterator[tuple[Tensor, Tensor]]:
    """`(items, grades)`, each (lists, n), for every length n there is, at most some million entries at once."""
    sizes = np.diff(lists.starts)
    for size in np.unique(sizes):
        chosen = (sizes == size).nonzero()[0]
        for part in np.array_split(chosen, max(1, len(chosen) * size * size // 2**24)):
            places = lists.starts[part][:, None] + np.arange(size)
            yield torch.from_numpy(lists.items[places]), torch.from_numpy(lists.grades[places])


def measure(lists: Lists, graded: bool, models: dict[str, Score]) -> Report:
    """How well each of the models orders the lists; the first must be called `model`."""
    figures: dict[str, dict[str, Figure]] = {}
    for who, score in models.items():
        parts = [_per_list(score(items), grades, graded) for items, grades in by_length(lists)]
        names = list(dict.fromkeys(name for part in parts for name in part))
        figures[who] = {name: _figure([part[name] for part in parts if name in part]) for name in names}
    comparisons = sum(int((grades[:, :, None] < grades[:, None]).sum()) for _, grades in by_length(lists))
    return Report(len(lists), comparisons, figures, _warnings(lists, figures))


def _warnings(lists: Lists, figures: dict[str, dict[str, Figure]]) -> list[str]:
    notes = []
    pairs = figures["model"]["pairwise accuracy"]
    if len(lists) < TOO_FEW or pairs.high - pairs.low > 0.2:
        notes.append(f"{len(lists)} lists are too few to say how good the model is; collect more orders")
    elif pairs.low <= 0.5:
        notes.append("no better than chance, as far as these orders can tell; more orders or other columns may help")
    return notes


Weighed = tuple[Tensor, Tensor]
"""A number for each list, and its weight in the mean."""


def _per_list(scores: Tensor, grades: Tensor, graded: bool) -> dict[str, Weighed]:
    truth = (grades[:, :, None] < grades[:, None]).double()
    ahead = torch.sign(scores[:, None] - scores[:, :, None]).double()
    total = truth.sum((1, 2))
    right = (truth * (ahead + 1) / 2).sum((1, 2)) / total
    one = torch.ones_like(total)
    found = {"pairwise accuracy": (right, total), "Kendall τ": (metrics.kendall_tau(scores, grades).nan_to_num(0), one)}
    if not graded and grades.shape[1] <= SHORT:
        found["exact match"] = (metrics.exact_match(scores, grades, tie_aware=True), one)
    if graded:
        found["NDCG@10"] = (metrics.ndcg(scores, exponential(grades), k=10), one)
    return found


def exponential(grades: Tensor) -> Tensor:
    """Gains as search engines count them, 2^grade − 1, where grades are small."""
    linear = gains(grades, torch.ones_like(grades, dtype=torch.bool))
    return torch.exp2(linear) - 1 if linear.max() <= 16 else linear


def _figure(parts: list[Weighed]) -> Figure:
    values, weights = (torch.cat([part[i].double() for part in parts]).numpy() for i in range(2))
    sums, draw = values * weights, np.random.default_rng(0)
    means = np.empty(RESAMPLES)
    for number in range(RESAMPLES):
        again = draw.integers(len(sums), size=len(sums))
        means[number] = sums[again].sum() / weights[again].sum()
    low, high = np.quantile(means, [0.025, 0.975])
    return Figure(float(sums.sum() / weights.sum()), float(low), float(high))


def held_out(lists: Lists, share: float, by: str, draw: np.random.Generator) -> tuple[Lists, Lists]:
    """`(to learn from, to measure on)`: whole lists held back, or items, of which then no list to learn from knows."""
    if by == "list":
        order = draw.permutation(len(lists))
        number = round(share * len(lists))
        return lists[np.sort(order[number:])], lists[np.sort(order[:number])]
    items = np.unique(lists.items)
    held = np.isin(lists.items, draw.choice(items, round(share * len(items)), replace=False))
    return lists.only(~held), lists.only(held)


def pieces(lists: Lists, draw: np.random.Generator) -> Lists:
    """Long lists cut at random into lists of five, so that one long list gives an interval too."""
    entries, sizes = [], []
    for start, end in zip(lists.starts[:-1], lists.starts[1:], strict=True):
        size, whole = int(end - start), end - start <= 4 * PIECE
        entries.append(np.arange(start, end) if whole else start + draw.permutation(size))
        sizes += [size] if whole else [PIECE] * (size // PIECE) + [size % PIECE] * (size % PIECE > 0)
    chosen = np.concatenate(entries)
    cut = Lists(lists.items[chosen], lists.grades[chosen], starts_of(np.asarray(sizes)))
    return cut[cut.comparable().nonzero()[0]]


def comparisons(lists: Lists) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`(lower, higher)` of every comparison in the lists, the longest left out."""
    lower, higher = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for items, grades in by_length(lists[(np.diff(lists.starts) <= LONGEST_COMPARED).nonzero()[0]]):
        row, low, high = (grades[:, :, None] < grades[:, None]).nonzero(as_tuple=True)
        lower.append(items[row, low].numpy())
        higher.append(items[row, high].numpy())
    return np.concatenate(lower), np.concatenate(higher)


def contradictions(lists: Lists) -> tuple[int, int]:
    """How many pairs of items are compared both ways, and how many pairs are compared at all."""
    lower, higher = comparisons(lists)
    number = int(lists.items.max(initial=0)) + 1
    pairs = np.unique(lower * number + higher)
    backwards = np.isin(pairs % number * number + pairs // number, pairs)
    return int(backwards.sum()) // 2, len(pairs) - int(backwards.sum()) // 2


def bradley_terry(lists: Lists, items: int) -> Score:
    """The strengths of the names alone, 0 where a name is new: maximum likelihood with a weak prior."""
    lower, higher = map(torch.from_numpy, comparisons(lists))
    strength = torch.zeros(items, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([strength], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = softplus(strength[lower] - strength[higher]).sum() + 0.05 * strength.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    if len(lower):
        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return lambda numbers: strength.detach()[numbers]


def chance(numbers: Tensor) -> Tensor:
    """Random scores."""
    return torch.rand(numbers.shape, generator=torch.Generator().manual_seed(0))
