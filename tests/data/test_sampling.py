"""What must hold for every dataset: seeded draws, fixed sets that never move, splits that share nothing."""

import pytest
import torch

from truesort import data
from truesort.data._base import Pictures
from truesort.data._numbers import Numbers
from truesort.data.fragments import Fragments
from truesort.data.svhn import CROP, SIDE, SVHN


def made_pictures(side, channels, count=12):
    """Three splits of random pictures, every one different from every other."""
    generator = torch.Generator().manual_seed(side)
    images = torch.randint(256, (3 * count, side, side, channels), dtype=torch.uint8, generator=generator)
    pictures = Pictures(images, torch.arange(3 * count) % 10)
    return {split: pictures[i * count : (i + 1) * count] for i, split in enumerate(data.SPLITS)}


def made_svhn(monkeypatch):
    monkeypatch.setattr("truesort.data.svhn.svhn_pictures", lambda folder, extra: made_pictures(SIDE, 3))
    return SVHN()


@pytest.fixture(params=["numbers", "coloured numbers", "digits", "fragments", "svhn"])
def dataset(request, monkeypatch):
    made = {
        "numbers": lambda: Numbers("made", made_pictures(5, 1), 3),
        "coloured numbers": lambda: Numbers("made", made_pictures(5, 3), 2),
        "digits": lambda: data.open("digits4"),
        "fragments": lambda: Fragments("made", made_pictures(7, 3), 2, "cpu"),
        "svhn": lambda: made_svhn(monkeypatch),
    }
    return made[request.param]()


def equal(a, b):
    return torch.equal(a.items, b.items) and torch.equal(a.values, b.values)


def test_a_batch_is_bytes_of_the_promised_shape(dataset):
    batch = dataset.batch(5, 4, data.stream("train", 0))
    assert batch.items.shape == (5, 4, *dataset.item_shape)
    assert batch.items.dtype == torch.uint8
    assert batch.values.shape == (5, 4)
    assert batch.values.dtype == torch.int64


def test_batches_follow_the_seed_and_move_on(dataset):
    one, two, other = data.stream("train", 7), data.stream("train", 7), data.stream("train", 8)
    first = dataset.batch(5, 4, one)
    assert equal(first, dataset.batch(5, 4, two))
    assert not equal(first, dataset.batch(5, 4, other))
    assert not equal(first, dataset.batch(5, 4, one))


def test_a_choice_may_be_taken_in_parts(dataset):
    choice = dataset.choose("train", 6, 4, data.stream("train", 3))
    whole = dataset.take("train", choice)
    parts = [dataset.take("train", choice[rank::2]) for rank in range(2)]
    for rank, part in enumerate(parts):
        assert torch.equal(part.items, whole.items[rank::2])
        assert torch.equal(part.values, whole.values[rank::2])


@pytest.mark.parametrize("split", ["validation", "test"])
def test_fixed_sets_are_the_same_again_whatever_was_drawn_before(dataset, split):
    before = list(dataset.fixed(split, 10, 4).batches(4))
    torch.manual_seed(99)
    dataset.batch(3, 4, data.stream("train", 5))
    again = list(dataset.fixed(split, 10, 4).batches(4))
    assert [len(batch.values) for batch in before] == [4, 4, 2]
    assert all(equal(a, b) for a, b in zip(before, again, strict=True))


def test_shards_partition_a_fixed_set(dataset):
    whole = dataset.fixed("test", 7, 4)
    shards = [whole.shard(rank, 3) for rank in range(3)]
    assert [len(shard) for shard in shards] == [3, 2, 2]
    for rank, shard in enumerate(shards):
        assert torch.equal(shard.choice, whole.choice[rank::3])


def test_scaling_is_by_mean_and_deviation(dataset):
    items = torch.tensor([0, 51, 255], dtype=torch.uint8)
    expected = (torch.tensor([0.0, 0.2, 1.0]) - dataset.mean) / dataset.std
    torch.testing.assert_close(dataset.normalise(items), expected)
    assert dataset.normalise(items, torch.bfloat16).dtype == torch.bfloat16


def test_seeds_of_different_splits_never_meet():
    seeds = {split: {data.stream(split, seed).initial_seed() for seed in range(500)} for split in data.SPLITS}
    assert {seed & 3 for seed in seeds["train"]} == {0}
    assert {seed & 3 for seed in seeds["validation"]} == {1}
    assert {seed & 3 for seed in seeds["test"]} == {2}
    assert len(seeds["train"]) == 500


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d: d.fixed("train", 3, 4), "validation.*test"),
        (lambda d: d.fixed("dev", 3, 4), "train, validation, test"),
        (lambda d: d.fixed("test", 0, 4), "sequences must be at least 1, got 0"),
        (lambda d: d.batch(0, 4, data.stream("train", 0)), "batch_size must be at least 1, got 0"),
        (lambda d: d.batch(3, 0, data.stream("train", 0)), "length must be at least 1, got 0"),
        (lambda d: data.stream("dev", 0), "train, validation, test"),
    ],
)
def test_wrong_arguments_are_named(dataset, call, words):
    with pytest.raises(ValueError, match=words):
        call(dataset)


def test_digits_stand_side_by_side_and_count_in_tens():
    pictures = made_pictures(5, 3)
    numbers = Numbers("made", pictures, 3)
    batch = numbers.take("test", torch.tensor([[[1, 11, 4], [0, 0, 2]]]))
    parts = pictures["test"].images[[1, 11, 4]]
    assert torch.equal(batch.items[0, 0], torch.cat(list(parts), dim=1).permute(2, 0, 1))
    labels = pictures["test"].labels.tolist()
    assert batch.values.tolist() == [[100 * labels[1] + 10 * labels[11] + labels[4], 110 * labels[0] + labels[2]]]


def test_the_longest_numbers_fit():
    numbers = Numbers("made", made_pictures(2, 1), 18)
    nines = (numbers._pictures["train"].labels == 9).nonzero()[0].expand(1, 1, 18)
    assert numbers.take("train", nines).values.item() == 10**18 - 1


def test_embedded_digits_share_no_picture_between_splits():
    digits = data.open("digits1")
    seen = {split: {image.numpy().tobytes() for image in digits._pictures[split].images} for split in data.SPLITS}
    assert [digits.size(split) for split in data.SPLITS] == [1297, 200, 300]
    assert sum(map(len, seen.values())) == len(set.union(*seen.values()))
    assert all(set(digits._pictures[split].labels.tolist()) == set(range(10)) for split in data.SPLITS)


@pytest.mark.parametrize("grid", [1, 2, 3, 5])
def test_fragments_in_order_are_the_trimmed_picture(grid):
    pictures = made_pictures(11, 3)
    fragments = Fragments("made", pictures, grid, "cpu")
    batch = fragments.batch(6, grid**2, data.stream("train", 1))
    side = 11 // grid
    start = (11 - side * grid) // 2
    wholes = pictures["train"].images[:, start : start + side * grid, start : start + side * grid].permute(0, 3, 1, 2)
    for items, values in zip(*batch, strict=True):
        ordered = items[values.argsort()]
        rows = [torch.cat(list(ordered[r * grid : (r + 1) * grid]), dim=-1) for r in range(grid)]
        assert any(torch.equal(torch.cat(rows, dim=-2), whole) for whole in wholes)
        assert sorted(values.tolist()) == list(range(grid**2))


@pytest.mark.parametrize(("side", "grid", "start"), [(28, 3, 0), (32, 3, 1), (28, 4, 0)])
def test_fragments_are_cut_where_the_published_code_cuts(side, grid, start):
    pictures = made_pictures(side, 1)
    fragments = Fragments("made", pictures, grid, "cpu")
    batch = fragments.take("test", torch.arange(1 + grid**2)[None].sub(1).clamp(min=0))
    size = side // grid
    corner = pictures["test"].images[0, start : start + size, start : start + size, 0]
    assert torch.equal(batch.items[0, 0, 0], corner)


def test_evaluation_takes_every_whole_picture_alike():
    fragments = Fragments("made", made_pictures(7, 3), 2, "cpu")
    choice = fragments.fixed("test", 24, 4).choice
    assert choice[:, 0].bincount().tolist() == [2] * 12


def test_fragments_have_one_length():
    fragments = Fragments("made", made_pictures(7, 3), 2, "cpu")
    with pytest.raises(ValueError, match="length must be 4 for made, got 5"):
        fragments.batch(3, 5, data.stream("train", 0))


def test_reassembled_forgives_identical_fragments_only():
    items = torch.zeros(1, 4, 1, 2, 2, dtype=torch.uint8)
    items[0, 2], items[0, 3] = 7, 9
    batch = data.Batch(items, torch.tensor([[0, 1, 2, 3]]))
    guesses = {(0, 1, 2, 3): True, (1, 0, 2, 3): True, (0, 2, 1, 3): False, (0, 1, 3, 2): False}
    for scores, right in guesses.items():
        assert data.reassembled(batch, torch.tensor([scores])).item() is right


def test_street_numbers_are_cropped_at_random_in_training_and_centred_in_evaluation(monkeypatch):
    street = made_svhn(monkeypatch)
    choice = street.choose("train", 400, 5, data.stream("train", 0))
    corners = choice[..., 1:].flatten(0, 1)
    assert corners.amin(0).tolist() == [0, 0]
    assert corners.amax(0).tolist() == [SIDE - CROP, SIDE - CROP]
    assert (street.fixed("test", 9, 4).choice[..., 1:] == (SIDE - CROP) // 2).all()
    batch = street.take("train", choice)
    index, top, left = choice[3, 2].tolist()
    picture = made_pictures(SIDE, 3)["train"].images[index]
    assert torch.equal(batch.items[3, 2], picture[top : top + CROP, left : left + CROP].permute(2, 0, 1))


@pytest.mark.parametrize("name", ["mnits", "digits", "digits0", "digits19", "mnist_2x3", "cifar10_0x0", "mnist4_2x2"])
def test_unknown_names_list_the_choices(name):
    with pytest.raises(ValueError, match=r"digits<d>, mnist<d>, svhn|digits1 to digits18"):
        data.open(name)
