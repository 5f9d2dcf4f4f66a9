"""Measuring: what is counted, over which lists, and how sure it is."""

import numpy as np
import pytest
import torch
from torch import Tensor

from truesort.teaching import measuring
from truesort.teaching.learning import Lists, starts_of
from truesort.teaching.measuring import Report, bradley_terry, chance, contradictions, held_out, measure, pieces


def lists_of(*rows: list[tuple[int, float]]) -> Lists:
    entries = [entry for row in rows for entry in row]
    items, grades = (np.asarray([entry[i] for entry in entries]) for i in range(2))
    return Lists(items.astype(np.int64), grades.astype(np.float32), starts_of(np.asarray([len(row) for row in rows])))


def random_lists(number: int, size: int = 4, items: int = 40) -> Lists:
    draw = np.random.default_rng(0)
    return lists_of(*([(int(i), float(i)) for i in draw.permutation(items)[:size]] for _ in range(number)))


def figures(scores: list[float], lists: Lists, graded: bool = False) -> Report:
    return measure(lists, graded, {"model": lambda items: torch.tensor(scores)[items]})


def test_figures_by_hand() -> None:
    lists = lists_of([(0, 0), (1, 1), (2, 2)], [(3, 0), (4, 1)])
    report = figures([0.0, 2.0, 1.0, 0.0, 1.0], lists)
    assert report["pairwise accuracy"].value == pytest.approx(3 / 4)
    assert report["Kendall τ"].value == pytest.approx((1 / 3 + 1) / 2)
    assert report["exact match"].value == 0.5
    assert (report.lists, report.comparisons) == (2, 4)


def test_equals_count_for_nothing_and_equal_scores_for_half() -> None:
    report = figures([5.0, 1.0, 1.0], lists_of([(0, 1), (1, 0), (2, 1)]))
    assert report.comparisons == 2
    assert report["pairwise accuracy"].value == 0.75
    assert figures([5.0, 1.0, 3.0], lists_of([(0, 1), (1, 0), (2, 1)]))["exact match"].value == 1


def test_grades_are_measured_by_ndcg_with_exponential_gains() -> None:
    report = figures([3.0, 2.0, 1.0], lists_of([(0, 0), (1, 2), (2, 1)]), graded=True)
    best = 3 + 1 / np.log2(3)
    assert report["NDCG@10"].value == pytest.approx((3 / np.log2(3) + 1 / 2) / best)
    assert "exact match" not in report.figures["model"]


def test_intervals_hold_the_value_and_shrink() -> None:
    noise = torch.randn(40, generator=torch.Generator().manual_seed(0)) * 8
    scores = (torch.arange(40.0) + noise).tolist()
    few, many = (figures(scores, random_lists(number))["pairwise accuracy"] for number in (30, 480))
    for figure in (few, many):
        assert figure.low < figure.value < figure.high
    assert (many.high - many.low) / (few.high - few.low) == pytest.approx(1 / 4, rel=0.3)


def test_too_little_is_said() -> None:
    exact = torch.arange(40.0).tolist()
    assert "too few" in figures(exact, random_lists(12)).notes[0]
    assert not figures(exact, random_lists(200)).notes
    reversed_ = measure(random_lists(200), False, {"model": lambda items: -items.float()})
    assert "no better than chance" in reversed_.notes[0]


def test_chance_is_half() -> None:
    assert measure(random_lists(500), False, {"model": chance})["pairwise accuracy"].value == pytest.approx(
        0.5, abs=0.05
    )


def test_bradley_terry_orders_names_it_knows_and_no_others() -> None:
    score = bradley_terry(random_lists(300, items=12), 40)
    strength = score(torch.arange(40))
    assert torch.equal(strength[:12].argsort(), torch.arange(12))
    assert (strength[12:] == 0).all()


def test_bradley_terry_is_the_likelihood_s_maximum() -> None:
    """Two items compared four times, once the other way: strengths differ by nearly log 3."""
    lists = lists_of(*([[(0, 0.0), (1, 1.0)]] * 300 + [[(0, 1.0), (1, 0.0)]] * 100))
    low, high = bradley_terry(lists, 2)(torch.arange(2)).tolist()
    assert high - low == pytest.approx(np.log(3), abs=0.01)


def test_contradictions_are_counted_once() -> None:
    lists = lists_of([(0, 0), (1, 1), (2, 2)], [(1, 0), (0, 1)], [(0, 0), (1, 1)], [(3, 0), (4, 0), (5, 1)])
    assert contradictions(lists) == (1, 5)


@pytest.mark.parametrize("by", ["list", "item"])
def test_what_is_held_back_is_not_learnt_from(by: str) -> None:
    lists = random_lists(200)
    known, held = held_out(lists, 0.25, by, np.random.default_rng(0))
    if by == "list":
        assert (len(known), len(held)) == (150, 50)
    else:
        assert not set(known.items) & set(held.items)
        assert len(set(held.items)) <= 10
        assert held.comparable().all()


def test_long_lists_are_cut_and_short_ones_are_not() -> None:
    lists = lists_of([(i, float(i)) for i in range(103)], [(0, 0), (1, 1)])
    cut = pieces(lists, np.random.default_rng(0))
    assert sorted(np.diff(cut.starts).tolist()) == [2, 3] + [5] * 20
    assert sorted(cut.items.tolist()) == sorted([*range(103), 0, 1])
    assert (cut.items == cut.grades).all()


def test_a_report_is_json_and_reads_as_a_table() -> None:
    def rough(items: Tensor) -> Tensor:
        return items.float() + (items % 3)

    report = measure(random_lists(40), False, {"model": rough, "chance": chance})
    assert Report.of(report.facts()) == report
    heading, *rows = str(report).splitlines()
    assert heading.split() == ["in", "%", "model", "chance"]
    assert [row.split("  ")[0] for row in rows] == ["pairwise accuracy", "Kendall τ", "exact match"]
    assert len({len(row) for row in rows}) == 1


def test_lists_of_any_length_pass_in_bounded_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = random_lists(50)
    whole = measure(lists, False, {"model": chance})
    parts = list(measuring.by_length(lists))
    assert sum(len(items) for items, _ in parts) == 50
    assert whole.comparisons == 50 * 6
