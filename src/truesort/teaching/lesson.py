"""From things and right orders to a taught model and what is known of it.

The model is taught twice: without the orders held back, to measure what such a teaching is worth, and then with all of
them, because whoever made the orders wants every one of them used.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from truesort.data import DataError
from truesort.data.items import Items, open_items
from truesort.data.orders import Orders, given_orders, read_orders, some
from truesort.engine.progress import Quiet, Show
from truesort.teaching import measuring, preparation, scorers
from truesort.teaching.learning import Lists, Recipe, learn, starts_of
from truesort.teaching.measuring import Report, Score
from truesort.teaching.model import Taught
from truesort.teaching.preparation import Preparation

USUAL = Recipe()
FEW_LISTS = 10
"""With fewer lists, items are held back instead."""


def teach(
    items: Any,
    orders: Any,
    recipe: Recipe = USUAL,
    *,
    scorer: nn.Module | None = None,
    name: str | None = None,
    show: Callable[[str], Show] | None = None,
) -> Taught:
    """Teach a model the order of things from examples of it.

    `items` is a folder of pictures, a table (.csv, .parquet; `name` is its column of names), a matrix (.npy, array or
    tensor; rows are named by number) or a LETOR file. `orders` is a file (see `read_orders`) or a list of lists of
    names, lowest first. `scorer` may be any module that gives (lists, n) scores for (lists, n, ...) prepared items and
    their mask. What is known of the result is in the model's `facts["report"]`.
    """
    asked = read(orders)
    prepared, values, lists, notes = _prepare(open_items(items, name), asked)
    shows = show or (lambda title: Quiet())

    def taught(part: Lists, title: str) -> Taught:
        with torch.random.fork_rng([]):
            torch.manual_seed(recipe.seed)
            fresh = scorers.choose(recipe.model, prepared).build() if scorer is None else deepcopy(scorer)
            network = learn(fresh, values, prepared.numbers, part, recipe, shows(title))
        return Taught(network, prepared, {"recipe": asdict(recipe)})

    report = _measured(taught, values, lists, asked.graded, recipe)
    model = taught(lists, "teaching with all orders" if report.lists else "teaching")
    twice, once = measuring.contradictions(lists)
    if twice:
        notes.append(f"{twice} of {once} compared pairs are compared both ways; the model gets the majority's order")
    notes += report.notes
    model.facts.update(items=len(values), lists=len(lists), report=replace(report, notes=notes).facts())
    return model


def read(orders: Any) -> Orders:
    """The orders in a file, or in Python lists."""
    if isinstance(orders, Orders):
        return orders
    return read_orders(orders) if isinstance(orders, str | Path) else given_orders(orders)


def check(model: Taught, items: Any, orders: Any, name: str | None = None) -> Report:
    """Measure a model on orders it was not taught with."""
    asked = read(orders)
    _, values, lists, notes = _prepare(open_items(items, name), asked, model.preparation)
    report = measuring.measure(lists, asked.graded, {"model": _score(model, values), "chance": measuring.chance})
    return replace(report, notes=notes + report.notes)


def _prepare(
    source: Items, orders: Orders, prepared: Preparation | None = None
) -> tuple[Preparation, Tensor, Lists, list[str]]:
    """How items become numbers, the numbers of those that the orders name, the orders as numbers, and what to know."""
    block = source.gather(set(chain.from_iterable(orders.names)))
    known = set(block.names) | {name for name, _ in block.unreadable}
    unknown = [
        f"{orders.source}:{line}: there is no {name} in {source.source}"
        for names, lines in zip(orders.names, orders.lines, strict=True)
        for name, line in zip(names, lines, strict=True)
        if name not in known
    ]
    if unknown:
        raise DataError(some(unknown, "\n") + "\nMend the names, or delete these lines.")
    prepared = prepared or preparation.fit(block)
    encoded = prepared.encode(block)
    notes = list(orders.notes)
    if encoded.unreadable:
        reasons = [reason for _, reason in encoded.unreadable]
        notes.append(f"{len(reasons)} items cannot be read and are left out: {some(reasons, '; ')}")
    lists = _numbered(orders, {name: place for place, name in enumerate(encoded.names)})
    if not len(lists):
        raise DataError(f"nothing is left to compare: the items of {orders.source} cannot be read\n" + "\n".join(notes))
    return prepared, encoded.values, lists, notes


def _numbered(orders: Orders, places: dict[str, int]) -> Lists:
    items = np.asarray([places.get(name, -1) for name in chain.from_iterable(orders.names)], dtype=np.int64)
    grades = np.asarray(list(chain.from_iterable(orders.grades)), dtype=np.float32)
    return Lists(items, grades, starts_of(np.asarray([len(names) for names in orders.names]))).only(items >= 0)


def _measured(
    taught: Callable[[Lists, str], Taught], values: Tensor, lists: Lists, graded: bool, recipe: Recipe
) -> Report:
    """Teach without some orders, and see how it and the baselines do on them."""
    nothing = Report(
        0,
        0,
        {},
        [] if recipe.holdout == 0 else ["too few orders to hold some back: nothing is known of how good the model is"],
    )
    draw = np.random.default_rng(recipe.seed)
    by = recipe.by if len(lists) >= FEW_LISTS else "item"
    known, held = measuring.held_out(lists, recipe.holdout, by, draw)
    if not len(known) or not len(held):
        return nothing
    held = held if graded else measuring.pieces(held, draw)
    model = taught(known, "teaching without the held-out orders")
    rivals: dict[str, Score] = {"model": _score(model, values), "chance": measuring.chance}
    seen = float(np.isin(held.items, known.items).mean())
    notes = []
    if seen > 0.05:
        rivals["Bradley–Terry"] = measuring.bradley_terry(known, len(values))
        notes.append(
            f"{seen:.0%} of the held-out entries are items also taught with; --by item measures on unseen ones"
        )
    report = measuring.measure(held, graded, rivals)
    return replace(report, notes=notes + report.notes)


def _score(model: Taught, values: Tensor) -> Score:
    """Scores of the items with given numbers; all are scored once, unless a score depends on the list."""
    if not model.sees_sets:
        scores = model.score_numbers(values)
        return lambda numbers: scores[numbers]
    return lambda numbers: torch.stack([model.score_numbers(values[row]) for row in numbers])
