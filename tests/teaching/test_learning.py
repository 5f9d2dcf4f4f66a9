"""Learning: lists, their sampling, and losses that invent no order between equals."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from truesort import functional, losses
from truesort.engine.progress import Quiet
from truesort.models import MLP
from truesort.teaching import Recipe, learning
from truesort.teaching.learning import (
    CHOICES,
    Lists,
    Sampler,
    augmented,
    learn,
    list_loss,
    starts_of,
    tied_cross_entropy,
)

SIZES = [2, 5, 1, 0, 3, 40]


@pytest.fixture
def lists() -> Lists:
    draw = np.random.default_rng(0)
    total = sum(SIZES)
    grades = draw.integers(0, 3, total).astype(np.float32)
    return Lists(draw.permutation(total), grades, starts_of(np.array(SIZES)))


def as_python(lists: Lists) -> list[list[tuple[int, float]]]:
    cuts = zip(lists.starts[:-1], lists.starts[1:], strict=True)
    return [list(zip(lists.items[a:b].tolist(), lists.grades[a:b].tolist(), strict=True)) for a, b in cuts]


def test_choosing_and_cutting_lists(lists: Lists) -> None:
    plain = as_python(lists)
    assert as_python(lists[np.array([4, 0])]) == [plain[4], plain[0]]
    wanted = lists.items % 3 > 0
    cut = [[entry for entry in entries if entry[0] % 3] for entries in plain]
    assert as_python(lists.only(wanted)) == [c for c in cut if len({grade for _, grade in c}) > 1]
    assert len(lists.only(np.zeros(len(lists.items), dtype=bool))) == 0


def test_a_step_takes_real_entries_of_its_lists_once(lists: Lists, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "WIDTH", 8)
    usable = lists[np.array([0, 1, 4, 5])]
    known = [set(entries) for entries in as_python(usable)]
    seen: set[tuple[int, float]] = set()
    sample = Sampler(usable, 6, torch.Generator())
    for _ in range(60):
        items, grades, mask = sample()
        assert items.shape[1] <= 8
        for row in range(6):
            entries = list(zip(items[row][mask[row]].tolist(), grades[row][mask[row]].tolist(), strict=True))
            assert len(set(entries)) == len(entries)
            whole = next(one for one in known if set(entries) <= one)
            assert len(entries) == min(8, len(whole))
            seen |= set(entries)
    assert seen == set().union(*known)


def example(width: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    scores = torch.randn(4, width, dtype=torch.float64, requires_grad=True)
    grades = torch.randint(0, 3, (4, width)).double()
    grades[:, :2] = torch.tensor([0.0, 2.0])
    mask = torch.arange(width) < torch.tensor([[width], [3], [2], [width - 1]])
    return scores, grades, mask


@pytest.mark.parametrize("name", CHOICES["loss"])
def test_masked_items_change_nothing(name: str) -> None:
    scores, grades, mask = example()
    loss_of = list_loss(name)  # type: ignore[arg-type]
    rows = [tuple(x[i : i + 1, real] for x in (scores, grades, mask)) for i, real in enumerate(mask)]
    whole = torch.stack([loss_of(*row) for row in rows])
    padded = loss_of(scores, grades, mask)
    torch.testing.assert_close(padded, whole.mean())
    (gradient,) = torch.autograd.grad(padded, scores)
    assert (gradient[~mask] == 0).all()


@pytest.mark.parametrize("name", CHOICES["loss"])
def test_equals_alone_teach_nothing(name: str) -> None:
    scores = torch.randn(2, 3, requires_grad=True)
    loss = list_loss(name)(scores, torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool))  # type: ignore[arg-type]
    assert (torch.autograd.grad(loss, scores)[0].abs() < 1e-6).all()


def test_any_order_of_equals_is_right() -> None:
    grades = torch.tensor([[0.0, 2.0, 1.0, 2.0, 1.0, 9.0]])
    mask = torch.tensor([[True, True, True, True, True, False]])
    costs = []
    for order in itertools.permutations(range(5)):
        P = torch.eye(6)[:, torch.tensor([*order, 5])].unsqueeze(0)
        right = all(grades[0, a] <= grades[0, b] for a, b in itertools.pairwise(order))
        cost = tied_cross_entropy(P, grades, mask).item()
        assert (cost < 1e-5) == right
        costs += [cost] if right else []
    assert len(costs) == 4


def test_equals_may_share_their_positions_in_any_way() -> None:
    """Moving weight between positions of equals, or swapping the rows of two equals, changes nothing."""
    P = torch.rand(1, 4, 4, dtype=torch.float64)
    P = P / P.sum((-1, -2), keepdim=True)
    grades, mask = torch.tensor([[1.0, 0.0, 1.0, 3.0]]), torch.ones(1, 4, dtype=torch.bool)
    cost = tied_cross_entropy(P, grades, mask)
    torch.testing.assert_close(tied_cross_entropy(P[:, [2, 1, 0, 3]], grades, mask), cost)
    moved = P.clone()
    moved[..., 1] += 0.3 * P[..., 2]
    moved[..., 2] -= 0.3 * P[..., 2]
    torch.testing.assert_close(tied_cross_entropy(moved, grades, mask), cost)
    assert not torch.isclose(tied_cross_entropy(P[:, [1, 0, 2, 3]], grades, mask), cost)


def test_without_ties_the_default_is_the_paper_s_loss() -> None:
    scores = torch.randn(3, 5, dtype=torch.float64)
    grades = torch.rand(3, 5, dtype=torch.float64)
    mask = torch.ones(3, 5, dtype=torch.bool)
    soft = losses.permutation_loss(functional.permutation(scores, learning.SOFT), grades)
    ranks = grades.argsort().argsort().double().unsqueeze(-1) / 4
    expected = soft + 0.1 * losses.reorder_loss(scores, ranks, grades, learning.EXACT)
    torch.testing.assert_close(list_loss("permutation")(scores, grades, mask), expected)


@pytest.mark.parametrize("name", CHOICES["loss"])
def test_every_loss_teaches_a_line(name: str) -> None:
    draw = np.random.default_rng(0)
    values = torch.randn(60, 2)
    truth = values[:, 0].numpy()
    items = np.concatenate([draw.permutation(60)[:6] for _ in range(50)])
    taught = Lists(items, np.round(truth[items]).astype(np.float32), starts_of(np.full(50, 6)))
    taught = taught.only(np.ones(300, dtype=bool))
    torch.manual_seed(0)
    network = learn(
        MLP(2, (8,)).build(), values, lambda x: x, taught, Recipe(loss=name, steps=150, learning_rate=0.02), Quiet()
    )  # type: ignore[arg-type]
    scores = network(values[None], None)[0]
    assert torch.corrcoef(torch.stack([scores, values[:, 0]]))[0, 1] > 0.9


def test_the_same_seed_teaches_the_same(lists: Lists) -> None:
    usable, values = lists[np.array([0, 1, 5])], torch.randn(51, 3)
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        network = learn(MLP(3, dropout=0.1).build(), values, lambda x: x, usable, Recipe(steps=5), Quiet())
        found.append(network(values[None], None))
    assert torch.equal(*found)


def test_time_ends_teaching(lists: Lists) -> None:
    recipe = Recipe(steps=10**9, seconds=0.2)
    learn(MLP(3).build(), torch.randn(51, 3), lambda x: x, lists[np.array([0, 1, 5])], recipe, Quiet())


def test_augmenting_changes_little() -> None:
    pictures = torch.zeros(200, 1, 16, 16)
    pictures[:, :, 5:11, 5:11] = 1
    changed = augmented(pictures, torch.Generator().manual_seed(0))
    assert changed.shape == pictures.shape
    assert not torch.equal(changed[0], changed[1])
    assert 0.8 < changed.mean() / pictures.mean() < 1.25
    assert augmented(pictures + 1, torch.Generator()).min() > 0.999  # borders go on outside


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("loss", "best"),
        ("model", "cnn"),
        ("by", "chance"),
        ("steps", 0),
        ("seconds", -1.0),
        ("learning_rate", float("nan")),
        ("holdout", 1.0),
    ],
)
def test_recipes_that_cannot_be_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field} must be"):
        Recipe(**{field: value})  # type: ignore[arg-type]
