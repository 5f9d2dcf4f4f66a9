"""Every layout sorts, keeps its promises about fewer wires, and loses nothing but dead comparators when pruned."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truesort.networks import LAYOUTS, ODD_EVEN_LIMIT, SortingNetwork, network


def run(net: SortingNetwork, rows: np.ndarray) -> np.ndarray:
    rows = rows.copy()
    for low, high, _ in net.layers():
        a, b = rows[:, low], rows[:, high]
        rows[:, low], rows[:, high] = np.minimum(a, b), np.maximum(a, b)
    return rows


def zero_one(n: int) -> np.ndarray:
    return (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.int8)


def comparators(net: SortingNetwork, wires: int) -> list[list[tuple[int, int]]]:
    layers = ([(int(i), int(j)) for i, j, born in zip(*layer, strict=True) if born <= wires] for layer in net.layers())
    return [layer for layer in layers if layer]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", range(17))
def test_sorts_every_zero_one_vector(layout: str, n: int) -> None:
    assert (np.diff(run(network(layout, n), zero_one(n)), axis=1) >= 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@given(n=st.integers(17, 300), seed=st.integers(0, 2**31))
def test_sorts_random_zero_one_vectors(layout: str, n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = (random.random((200, n)) < random.random((200, 1))).astype(np.int8)
    assert (np.diff(run(network(layout, n), vectors), axis=1) >= 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sorter_with_one_comparator_less_is_caught(layout: str) -> None:
    whole = network(layout, 6)
    broken = SortingNetwork(
        6, whole.low[:-1], whole.high[:-1], whole.since[:-1], np.minimum(whole.start, whole.size - 1)
    )
    assert not (np.diff(run(broken, zero_one(6)), axis=1) >= 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layers_touch_each_wire_once_and_point_upwards(layout: str) -> None:
    for n in range(50):
        net = network(layout, n)
        assert net.size == sum(len(low) for low, _, _ in net.layers())
        assert net.depth == sum(1 for _ in net.layers())
        for low, high, since in net.layers():
            assert len(low) > 0
            assert len(set(low) | set(high)) == 2 * len(low)
            assert ((low < high) & (high < n) & (since > high) & (since <= n)).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [1, 2, 7, 16, 33])
def test_the_network_of_fewer_wires_is_inside(layout: str, n: int) -> None:
    for wires in range(n + 1):
        assert comparators(network(layout, n), wires) == comparators(network(layout, wires), wires)


def test_depth_and_size() -> None:
    sizes = {
        layout: [(network(layout, n).depth, network(layout, n).size) for n in (0, 1, 2, 8, 16)] for layout in LAYOUTS
    }
    assert sizes == {
        "odd_even": [(0, 0), (0, 0), (1, 1), (8, 28), (16, 120)],
        "bitonic": [(0, 0), (0, 0), (1, 1), (6, 24), (10, 80)],
        "merge_exchange": [(0, 0), (0, 0), (1, 1), (6, 19), (10, 63)],
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_partners_say_the_same_as_the_layers(layout: str) -> None:
    net = network(layout, 11)
    partner, since = net.partners
    assert partner.shape == since.shape == (net.depth, 11)
    for layer, (low, high, born) in enumerate(net.layers()):
        assert (partner[layer, low] == high).all()
        assert (partner[layer, high] == low).all()
        assert (since[layer, low] == born).all()
        assert (partner[layer] != np.arange(11)).sum() == 2 * len(low)


def reaching(net: SortingNetwork, outputs: set[int]) -> int:
    """Comparators from which some path leads to a wanted output, by following every one of them forward."""
    layers = [list(zip(low.tolist(), high.tolist(), strict=True)) for low, high, _ in net.layers()]

    def reaches(layer: int, wires: set[int]) -> bool:
        for later in layers[layer + 1 :]:
            wires = wires.union(*(set(pair) for pair in later if wires & set(pair)))
        return bool(wires & outputs)

    return sum(reaches(layer, set(pair)) for layer, pairs in enumerate(layers) for pair in pairs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", range(1, 8))
def test_pruning_keeps_what_can_reach_the_outputs_and_nothing_else(layout: str, n: int) -> None:
    whole, vectors = network(layout, n), zero_one(n)
    for outputs in itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(n + 1)):
        pruned = whole.prune(outputs)
        assert pruned.size == reaching(whole, set(outputs))
        assert (run(pruned, vectors)[:, outputs] == np.sort(vectors, axis=1)[:, outputs]).all()


def test_the_first_outputs_alone_need_fewer_comparators() -> None:
    for layout in LAYOUTS:
        assert network(layout, 200, 5).size < 0.9 * network(layout, 200).size
        assert network(layout, 200, 200).size == network(layout, 200).size


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"layout is 'bubble'; choose one of 'odd_even', 'bitonic', 'merge_exchange'"):
        network("bubble", 3)
    with pytest.raises(ValueError, match="n is -1"):
        network("bitonic", -1)
    with pytest.raises(ValueError, match=r"layout='merge_exchange' sorts as many"):
        network("odd_even", ODD_EVEN_LIMIT + 1)
