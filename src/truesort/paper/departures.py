"""The two departures from a sound experiment whose effect the reproduction shows.

The published code lets a Transformer attend over the batch and reports the best score on the test set; neither belongs
into a library, so both live here, for `truesort reproduce effects` alone.
"""

from torch import Tensor, nn

from truesort import models
from truesort.data import Dataset, FixedSet, Split
from truesort.models.transformer import Transformer, TransformerScorer
from truesort.paper.recipes import Recipe


class AcrossTheBatch(TransformerScorer):
    """Each item attends to the items at its own place in all other sequences of the batch, and not to its own."""

    def encoded(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """What the layers make of it, with the two axes in each other's place."""
        return super().encoded(x.transpose(0, 1), None).transpose(0, 1)


class Peeking:
    """A dataset whose validation set is its test set."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def __getattr__(self, name: str) -> object:
        return getattr(self._dataset, name)

    def fixed(self, split: Split, sequences: int, length: int) -> FixedSet:
        """The test set, whatever is asked for."""
        return self._dataset.fixed("test", sequences, length)


def scorer(recipe: Recipe, dataset: Dataset) -> nn.Module | None:
    """The scorer to train in place of the one the config names, if the recipe wants another."""
    if recipe.attention == "sequence":
        return None
    config = models.configure(recipe.config.model, dataset.family, dataset.item_shape)
    if not isinstance(config, Transformer):
        raise ValueError(f"attention over the batch needs a Transformer, got model {recipe.config.model!r}")
    return AcrossTheBatch(config)


def shown(recipe: Recipe, dataset: Dataset) -> Dataset:
    """The dataset as the training is to see it."""
    return Peeking(dataset) if recipe.selection == "test" else dataset  # type: ignore[return-value]
