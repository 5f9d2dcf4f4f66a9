"""From items and orders to a model: what it learns, what it is told, and what the model knows of itself."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import truesort as ts
from truesort.data import DataError
from truesort.engine import RunError
from truesort.teaching import Recipe, Taught, check

VALUES = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
TRUTH = VALUES @ np.array([1.0, -2.0, 0.5, 0.0])
QUICK = Recipe(steps=120, learning_rate=5e-3)


def orders(number: int, size: int = 4, seed: int = 1) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    chosen = [draw.choice(len(TRUTH), size, replace=False) for _ in range(number)]
    return [row[np.argsort(TRUTH[row])].tolist() for row in chosen]


@pytest.fixture(scope="module")
def model() -> Taught:
    return ts.teach(VALUES, orders(120), QUICK)


def test_what_was_taught_is_found_again(model: Taught) -> None:
    assert model.report["pairwise accuracy"].value > 0.9
    assert set(model.report.figures) == {"model", "chance", "Bradley–Terry"}
    assert model.facts["lists"] == 120
    order = [int(name) for name in model.sort(VALUES)]
    assert np.corrcoef(np.argsort(order), np.argsort(np.argsort(TRUTH)))[0, 1] > 0.95


def test_new_orders_measure_it(model: Taught) -> None:
    new = np.random.default_rng(5).normal(size=(50, 4)).astype(np.float32)
    truth = [[int(i) for i in np.argsort(new @ np.array([1.0, -2.0, 0.5, 0.0]))]]
    assert check(model, new, truth)["pairwise accuracy"].value > 0.9
    assert "too few" in check(model, new, truth).notes[-1]


def test_the_same_seed_teaches_the_same_and_touches_no_other_randomness() -> None:
    quick = Recipe(steps=5, holdout=0)
    before = torch.get_rng_state()
    first, second = (ts.teach(VALUES, orders(20), quick).sort(VALUES) for _ in range(2))
    assert torch.equal(first.scores, second.scores)
    assert torch.equal(before, torch.get_rng_state())
    other = ts.teach(VALUES, orders(20), Recipe(steps=5, holdout=0, seed=1)).sort(VALUES)
    assert not torch.equal(first.scores, other.scores)


def test_holding_items_back_measures_on_unseen_ones() -> None:
    report = ts.teach(VALUES, orders(150), Recipe(steps=60, by="item", holdout=0.4)).report
    assert "Bradley–Terry" not in report.figures
    assert report["pairwise accuracy"].value > 0.7


def test_little_is_said_to_be_little() -> None:
    notes = ts.teach(VALUES, [[1, 2]], Recipe(steps=2)).report.notes
    assert any("too few orders to hold some back" in note for note in notes)
    assert ts.teach(VALUES, orders(30), Recipe(steps=2, holdout=0)).report.lists == 0


def test_contradictions_are_noted_and_not_fatal() -> None:
    notes = ts.teach(VALUES, [[1, 2], [2, 1], [3, 4]] * 8, Recipe(steps=2)).report.notes
    assert "1 of 2 compared pairs are compared both ways; the model gets the majority's order" in notes


def test_unknown_names_are_told_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("name,x\na,1\nb,2\n")
    (tmp_path / "orders.csv").write_text("a,b\na,z\ny,b\n")
    with pytest.raises(DataError) as error:
        ts.teach(tmp_path / "items.csv", tmp_path / "orders.csv", QUICK)
    assert "orders.csv:2: there is no z in " in str(error.value)
    assert "orders.csv:3: there is no y in " in str(error.value)


def test_unreadable_items_are_left_out_and_noted(tmp_path: Path) -> None:
    for number in range(6):
        Image.new("L", (16, 16), 40 * number).save(tmp_path / f"{number}.png")
    (tmp_path / "6.png").write_bytes(b"")
    lists = [[f"{a}.png", f"{b}.png"] for a in range(7) for b in range(a + 1, 7)]
    taught = ts.teach(tmp_path, lists, Recipe(steps=2))
    assert taught.facts["items"] == 6
    assert any("1 items cannot be read and are left out" in note for note in taught.report.notes)
    with pytest.raises(DataError, match="nothing is left to compare"):
        ts.teach(tmp_path, [["5.png", "6.png"]], Recipe(steps=2))


def test_letor_holds_items_and_orders_in_one_file(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    lines = []
    for query in range(60):
        for row in draw.normal(size=(6, 3)):
            grade = int(np.digitize(row[0] - row[1], [-0.5, 1]))
            lines.append(f"{grade} qid:{query} " + " ".join(f"{i}:{value:.4f}" for i, value in enumerate(row, 1)))
    (tmp_path / "train.txt").write_text("\n".join(lines))
    taught = ts.teach(tmp_path / "train.txt", tmp_path / "train.txt", Recipe(loss="pairwise", steps=120))
    assert taught.report["NDCG@10"].value > 0.9
    assert taught.report["NDCG@10"].low > taught.report.figures["chance"]["NDCG@10"].high


class Own(nn.Module):
    """A scorer of somebody's own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(4, 1)

    def forward(self, items: Tensor, mask: Tensor | None) -> Tensor:
        return self.weight(items).squeeze(-1)


def test_any_module_can_be_taught(tmp_path: Path) -> None:
    taught = ts.teach(VALUES, orders(60), Recipe(steps=120, learning_rate=0.05), scorer=Own())
    assert taught.report["pairwise accuracy"].value > 0.9
    taught.save(tmp_path / "own.truesort")
    with pytest.raises(RunError, match="holds a scorer of your own"):
        ts.load(tmp_path / "own.truesort")
    again = ts.load(tmp_path / "own.truesort", scorer=Own())
    assert torch.equal(again.sort(VALUES).scores, taught.sort(VALUES).scores)


def test_a_set_scorer_ranks_within_what_it_is_given(tmp_path: Path) -> None:
    """One item of each list says which way round the list goes, and a scorer of single items cannot see it."""
    draw = np.random.default_rng(0)
    values = np.zeros((200, 4, 2), dtype=np.float32)
    values[..., 0] = draw.normal(size=(200, 4))
    values[:, 0, 1] = draw.choice([-1, 1], 200)
    order = (values[..., 0] * values[:, :1, 1]).argsort(1) + 4 * np.arange(200)[:, None]
    found = [
        ts.teach(values.reshape(-1, 2), order.tolist(), Recipe(model=kind, steps=150, learning_rate=5e-3)).report
        for kind in ("item", "set")
    ]
    assert found[0]["pairwise accuracy"].value < 0.75
    assert found[1]["pairwise accuracy"].value > 0.85
