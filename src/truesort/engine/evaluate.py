"""How well a scorer sorts a fixed set: the paper's two accuracies, and what they miss where items are equal.

Two items of equal value, or two blank corners of a picture, can stand in either order and no one could tell; the
paper's metrics count one of the two orders as wrong.
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from truesort import data, metrics
from truesort.data import Batch, FixedSet, Split
from truesort.engine.config import USUAL_LENGTH, from_facts
from truesort.engine.inference import load
from truesort.engine.learner import number_format, score
from truesort.engine.parallel import Team, choose_device

SEQUENCES_AT_ONCE = 250
METRICS = ("exact_match", "element_wise", "exact_match_ties", "element_wise_ties", "same_picture")
"""Also the order of the numbers below: exact and by element; the same, any order of equal values allowed; and whether
what is seen in order is right, whichever of two identical items stands where."""

Accuracy = dict[str, float]


def evaluate_run(
    run: str | Path,
    split: Split = "test",
    length: int | None = None,
    sequences: int | None = None,
    data_folder: str | Path | None = None,
    device: str = "auto",
) -> Accuracy:
    """Measure the best scorer of a run again, by default as its training did."""
    trained = load(run)
    config = from_facts(trained.facts["config"])
    dataset = data.open(config.task, data_folder, choose_device(device))
    wanted = sequences or (config.test if split == "test" else config.validation)
    fixed = dataset.fixed(split, wanted, length or config.length or USUAL_LENGTH)
    return evaluate(trained.network.to(dataset.device), fixed, config.precision)


@torch.no_grad()
def evaluate(scorer: nn.Module, fixed: FixedSet, precision: str, team: Team | None = None) -> Accuracy:
    """The mean of every metric over a fixed set, as fractions."""
    team = team or Team()
    learning = scorer.training
    scorer.eval()
    total = torch.zeros(len(METRICS), dtype=torch.float64, device=fixed.dataset.device)
    for batch in fixed.shard(team.rank, team.size).batches(SEQUENCES_AT_ONCE):
        items = fixed.dataset.normalise(batch.items)
        total += _sums(score(scorer, items, number_format(precision)), batch)
    scorer.train(learning)
    means = (team.total(total) / len(fixed)).tolist()
    return {name: round(mean, 6) for name, mean in zip(METRICS, means, strict=True)}


def _sums(scores: Tensor, batch: Batch) -> Tensor:
    values = batch.values
    found = [
        metrics.exact_match(scores, values),
        metrics.element_wise(scores, values),
        metrics.exact_match(scores, values, tie_aware=True),
        metrics.element_wise(scores, values, tie_aware=True),
        _same_picture(scores, batch),
    ]
    return torch.stack([metric.double().sum() for metric in found])


def _same_picture(scores: Tensor, batch: Batch) -> Tensor:
    items = batch.items.flatten(2)
    found, right = (_in_order(items, keys) for keys in (scores, batch.values))
    return (found == right).flatten(1).all(1)


def _in_order(items: Tensor, keys: Tensor) -> Tensor:
    order = keys.argsort(dim=1, stable=True)
    return items.take_along_dim(order.unsqueeze(-1), dim=1)
