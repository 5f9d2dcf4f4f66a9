"""Training, evaluation and what they leave on the disk."""

from truesort.engine.config import (
    Config,
    Constant,
    Cosine,
    Halving,
    Pairwise,
    Permutation,
    Ranks,
    from_facts,
    to_facts,
)
from truesort.engine.evaluate import evaluate
from truesort.engine.inference import TrainedScorer, load
from truesort.engine.record import RunError
from truesort.engine.train import Interrupted, train

__all__ = [
    "Config",
    "Constant",
    "Cosine",
    "Halving",
    "Interrupted",
    "Pairwise",
    "Permutation",
    "Ranks",
    "RunError",
    "TrainedScorer",
    "evaluate",
    "from_facts",
    "load",
    "to_facts",
    "train",
]
