"""Which loss ranks best: ours beside LightGBM's lambdarank, on a made set of queries with grades 0 to 2.

    python benchmarks/ranking.py [--seeds 0 1 2] [--steps 1500] [--threads 2]

1,000 queries of 5 to 120 items with 46 features, three fifths to learn from, one fifth for LightGBM to stop early on
(ours learns from it too, since it stops by the clock), one fifth to measure on. What makes an item relevant is partly
linear, partly a product, partly a step, plus noise; features are skewed, scaled within the query, or useless.
LightGBM is compared with if it is installed. NDCG@10 has gains 2^grade − 1.
"""

import argparse
import itertools
import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from truesort.engine import machine
from truesort.teaching import Recipe, measuring, teach
from truesort.teaching.learning import CHOICES, Lists, starts_of

QUERIES, FEATURES, K = 1000, 46, 10


@dataclass(frozen=True, eq=False)
class Queries:
    """Items of all queries, one after the other: features, grades, and where each query starts."""

    features: NDArray[np.float32]
    grades: NDArray[np.float32]
    starts: NDArray[np.int64]

    def lists(self, first: int, last: int) -> Lists:
        """Some of the queries."""
        items = np.arange(self.starts[first], self.starts[last])
        return Lists(items, self.grades[items], starts_of(np.diff(self.starts)[first:last]))

    def orders(self, first: int, last: int) -> list[dict[str, object]]:
        """The same as a user would give them."""
        return [
            {"group": query, "item": item, "grade": float(self.grades[item])}
            for query in range(first, last)
            for item in range(self.starts[query], self.starts[query + 1])
        ]


def made(seed: int) -> Queries:
    """A set that is made by nature's rules here, and known to no model."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(5, 121, QUERIES)
    query = np.repeat(np.arange(QUERIES), sizes)
    hidden = draw.normal(size=(len(query), 10)) + 0.5 * draw.normal(size=(QUERIES, 10))[query]
    worth = hidden[:, :4] @ np.array([1.0, 0.7, -0.5, 0.4]) + 0.8 * hidden[:, 4] * hidden[:, 5]
    worth += 1.2 * (hidden[:, 6] > 0.5) + 0.7 * np.sin(2 * hidden[:, 7]) + draw.normal(size=len(query))
    grades = np.digitize(worth, np.quantile(worth, [0.75, 0.92])).astype(np.float32)
    mixed = hidden @ (draw.normal(size=(10, FEATURES)) * (draw.random((10, FEATURES)) < 0.2))
    features = mixed + 0.3 * draw.normal(size=mixed.shape)
    features[:, :10] = hidden + 0.2 * draw.normal(size=hidden.shape)
    features[:, ::3] = np.exp(features[:, ::3])
    for column in range(1, FEATURES, 3):
        low, high = (
            extreme.reduceat(features[:, column], starts_of(sizes)[:-1]) for extreme in (np.minimum, np.maximum)
        )
        features[:, column] = (features[:, column] - low[query]) / (high - low)[query]
    return Queries(features[:, draw.permutation(FEATURES)].astype(np.float32), grades, starts_of(sizes))


def ours(data: Queries, recipe: Recipe) -> tuple[Tensor, float]:
    """Scores of all items (by query where the scorer sees sets), and the seconds of training."""
    orders = data.orders(0, QUERIES * 4 // 5)
    start = time.perf_counter()
    model = teach(data.features, orders, recipe)
    seconds = time.perf_counter() - start
    parts = [data.features] if recipe.model == "item" else np.split(data.features, data.starts[1:-1])
    return torch.cat([model.score(part).scores for part in parts]), seconds


def lightgbm(data: Queries, seed: int, threads: int) -> tuple[Tensor, float]:
    """The same of lambdarank, which stops when the validation queries say so."""
    from lightgbm import LGBMRanker, early_stopping

    def part(first: int, last: int) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
        rows = slice(data.starts[first], data.starts[last])
        return data.features[rows], data.grades[rows].astype(np.int64), np.diff(data.starts)[first:last]

    x, y, groups = part(0, QUERIES * 3 // 5)
    x_valid, y_valid, groups_valid = part(QUERIES * 3 // 5, QUERIES * 4 // 5)
    ranker = LGBMRanker(n_estimators=2000, learning_rate=0.03, random_state=seed, n_jobs=threads, verbose=-1)
    start = time.perf_counter()
    ranker.fit(
        x, y, group=groups, eval_set=[(x_valid, y_valid)], eval_group=[groups_valid], eval_at=[K],
        callbacks=[early_stopping(100, verbose=False)],
    )  # fmt: skip
    seconds = time.perf_counter() - start
    return torch.from_numpy(ranker.predict(data.features)), seconds


def main() -> None:
    """Print a line for every rival and seed, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--models", nargs="+", default=CHOICES["model"])
    parser.add_argument("--losses", nargs="+", default=CHOICES["loss"])
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    print(machine.hardware(torch.device("cpu")), machine.versions())
    found: dict[str, list[tuple[float, float]]] = {}

    def note(name: str, data: Queries, seed: int, scores: Tensor, seconds: float) -> None:
        held = data.lists(QUERIES * 4 // 5, QUERIES)
        held = held[held.comparable().nonzero()[0]]
        report = measuring.measure(held, True, {"model": lambda items: scores[items]})
        figure = report[f"NDCG@{K}"]
        found.setdefault(name, []).append((figure.value, seconds))
        print(f"{name:<22} seed {seed}   NDCG@{K} {figure}   {seconds:6.1f} s", flush=True)

    for seed in asked.seeds:
        data = made(seed)
        try:
            note("lightgbm lambdarank", data, seed, *lightgbm(data, seed, asked.threads))
        except ImportError:
            print("lightgbm is not installed, so it is left out: pip install lightgbm")
        for kind, loss in itertools.product(asked.models, asked.losses):
            recipe = Recipe(loss=loss, model=kind, steps=asked.steps, seconds=600, holdout=0, seed=seed)
            note(f"{kind} {loss}", data, seed, *ours(data, recipe))
    print(f"\nmean of seeds {', '.join(map(str, asked.seeds))}, {asked.steps} steps")
    for name, rows in sorted(found.items(), key=lambda row: -np.mean([value for value, _ in row[1]])):
        value, seconds = np.mean(rows, axis=0)
        print(f"{name:<22} NDCG@{K} {value:.4f}   {seconds:6.1f} s")


if __name__ == "__main__":
    main()
