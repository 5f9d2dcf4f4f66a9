"""The two departures do what they are to show, and the default does neither."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from truesort import data, models
from truesort.data import Dataset
from truesort.paper import departures
from truesort.paper.recipes import Recipe
from truesort.paper.tables import TABLES

BASE = TABLES["effects"].recipe("baseline", "mnist_3x3")
DIGITS = replace(BASE, config=replace(BASE.config, task="digits1", length=3, model="transformer"))


@pytest.fixture
def dataset() -> Dataset:
    return data.open("digits1")


def scores(scorer: nn.Module, items: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = scorer.eval()(items)
    return found


def test_only_attention_over_the_batch_sees_batch_mates(dataset: Dataset) -> None:
    across = departures.scorer(replace(DIGITS, attention="batch"), dataset)
    assert across is not None
    assert departures.scorer(DIGITS, dataset) is None
    within = models.build("transformer", dataset.family, dataset.item_shape)
    within.load_state_dict(across.state_dict())
    items = torch.randn(4, 3, *dataset.item_shape)
    other_mates = torch.cat([items[:1], torch.randn(3, 3, *dataset.item_shape)])
    assert torch.equal(scores(within, items)[0], scores(within, other_mates)[0])
    assert not torch.allclose(scores(across, items)[0], scores(across, other_mates)[0])


def test_attention_over_the_batch_sees_its_own_place_only(dataset: Dataset) -> None:
    across = departures.scorer(replace(DIGITS, attention="batch"), dataset)
    assert across is not None
    items = torch.randn(4, 3, *dataset.item_shape)
    changed = items.clone()
    changed[:, 1:] = torch.randn(4, 2, *dataset.item_shape)
    assert torch.allclose(scores(across, items)[:, 0], scores(across, changed)[:, 0], atol=1e-6)


def test_a_cnn_has_no_attention(dataset: Dataset) -> None:
    asked = Recipe(replace(DIGITS.config, model="cnn"), attention="batch")
    with pytest.raises(ValueError, match="attention over the batch needs a Transformer, got model 'cnn'"):
        departures.scorer(asked, dataset)


def test_choosing_by_test_validates_on_the_test_set(dataset: Dataset) -> None:
    assert departures.shown(DIGITS, dataset) is dataset
    peeking = departures.shown(replace(DIGITS, selection="test"), dataset)
    for split in ("validation", "test"):
        shown = peeking.fixed(split, 20, 3)
        assert shown.split == "test"
        assert torch.equal(shown.choice, dataset.fixed("test", 20, 3).choice)
    assert torch.equal(*(source.batch(5, 3, torch.Generator().manual_seed(1)).items for source in (peeking, dataset)))
