"""How well a few hundred orders teach to sort pictures: the embedded digits, by their value.

    python benchmarks/teach_digits.py [--seeds 0 1 2] [--threads 2] [--steps 1500] [--seconds 29]

For each seed, 1,297 pictures are dealt out to be compared, as 500 pairs or as 300 lists of five, and 500 are kept away;
the accuracy is over all pairs of these with different digits. Pairs have different digits, in lists equal digits share
a place. Pictures are PNG files of 8×8 pixels. Seconds are those of the whole `teach`, which teaches twice: once to
measure on orders held back, once with all, each for at most so many seconds.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from truesort.engine import machine
from truesort.teaching import Recipe, check, teach

COMPARED = 1297
TARGETS = {"500 pairs": 0.97, "300 lists of five": 0.99}
Order = list[list[str]]


def order_of(pictures: NDArray[np.int64], digits: NDArray[np.int64]) -> Order:
    """The right order of pictures, equals in one place."""
    return [[f"{p}.png" for p in pictures if digits[p] == digit] for digit in np.unique(digits[pictures])]


def orders_of(what: str, pool: NDArray[np.int64], digits: NDArray[np.int64], draw: np.random.Generator) -> list[Order]:
    """Random orders of pictures from the pool."""
    number, size = (500, 2) if what == "500 pairs" else (300, 5)
    orders: list[Order] = []
    while len(orders) < number:
        order = order_of(draw.choice(pool, size, replace=False), digits)
        if len(order) > 1:
            orders.append(order)
    return orders


def run(what: str, seed: int, recipe: Recipe, folder: Path, digits: NDArray[np.int64]) -> tuple[float, float]:
    """Accuracy on pictures never seen, and seconds of teaching."""
    draw = np.random.default_rng(seed)
    deal = draw.permutation(len(digits))
    orders = orders_of(what, deal[:COMPARED], digits, draw)
    start = time.perf_counter()
    model = teach(folder, orders, replace(recipe, seed=seed))
    seconds = time.perf_counter() - start
    report = check(model, folder, [order_of(deal[COMPARED:], digits)])
    return report["pairwise accuracy"].value, seconds


def main() -> None:
    """Print a line for each seed, and the mean beside the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=Recipe().steps)
    parser.add_argument("--seconds", type=float, default=29)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    print(machine.hardware(torch.device("cpu")), machine.versions())
    raw, recipe = load_digits(), Recipe(steps=asked.steps, seconds=asked.seconds)
    with tempfile.TemporaryDirectory() as name:
        for number, pixels in enumerate(raw.images):
            Image.fromarray((pixels * 15.9).astype(np.uint8)).save(Path(name, f"{number}.png"))
        for what, target in TARGETS.items():
            found = []
            for seed in asked.seeds:
                found.append(run(what, seed, recipe, Path(name), raw.target))
                print(f"{what:<18} seed {seed}   {found[-1][0]:.2%}   {found[-1][1]:5.1f} s", flush=True)
            accuracy, seconds = np.mean(found, axis=0)
            print(f"{what:<18} mean     {accuracy:.2%}   {seconds:5.1f} s   (target {target:.0%} in 60 s)")


if __name__ == "__main__":
    main()
