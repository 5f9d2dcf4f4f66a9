"""A whole step captured on a GPU: every replay draws its own random numbers, and it learns what torch would."""

import math

import pytest
import torch
from torch import nn

from truesort import data
from truesort.engine.config import Config, Constant, settled
from truesort.engine.learner import Learner
from truesort.engine.parallel import Team
from truesort.models import Convolutions, Transformer
from truesort.ops import adamw, encoder

pytestmark = pytest.mark.gpu
DEVICE = torch.device("cuda")


def learner_of(rate: float, dropout: float) -> Learner:
    torch.manual_seed(0)
    dataset = data.open("digits2", device=DEVICE)
    convolutions = Convolutions((32, 64, 64), kernel=3, stride=2, pool=False)
    scorer: nn.Module = Transformer(dataset.item_shape, convolutions, width=16, layers=6, dropout=dropout).build()
    config = Config("digits2", 3, "transformer", learning_rate=rate, schedule=Constant(), precision="float32")
    return Learner(settled(config, dataset, DEVICE), dataset, scorer, Team())


def losses(learner: Learner, same_batch: bool) -> list[float]:
    """Of twelve steps, the last nine of which are replays."""
    draws = learner.draws.get_state()
    for _ in range(12):
        if same_batch:
            learner.draws.set_state(draws)
        learner.advance()
    return learner.look()[3:]


def test_replays_drop_other_numbers() -> None:
    """The batch and, but for rounding, the weights are the same each time."""
    found = losses(learner_of(1e-30, dropout=0.1), same_batch=True)
    assert len(set(found)) == len(found)
    still = losses(learner_of(1e-30, dropout=0.0), same_batch=True)
    assert max(still) - min(still) < 1e-4


def test_it_learns_what_torch_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without dropout, whose numbers differ, a batch is learned as by torch's operators and optimiser.

    In tiny steps: Adam's first ones have one length whatever the gradient, and with longer ones a rounding of 1e-7 in
    gradients that are nearly zero changes the loss of the tenth step by a tenth.
    """
    found = losses(learner_of(1e-6, dropout=0.0), same_batch=True)
    monkeypatch.setattr(encoder, "_serves", lambda *_: False)
    monkeypatch.setattr(adamw, "_serves", lambda *_: False)
    plain = losses(learner_of(1e-6, dropout=0.0), same_batch=True)
    learned = plain[0] - plain[-1]
    assert learned > 5e-3
    assert found == pytest.approx(plain, abs=0.02 * learned)


def test_the_loss_falls() -> None:
    learner = learner_of(1e-3, dropout=0.1)
    first = losses(learner, same_batch=False)
    for _ in range(30):
        last = losses(learner, same_batch=False)
    assert all(map(math.isfinite, (*first, *last)))
    assert sum(last) < 0.95 * sum(first)
