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
    name,
    to_facts,
)
from truesort.engine.evaluate import evaluate, evaluate_run
from truesort.engine.inference import TrainedScorer, load
from truesort.engine.record import RunError
from truesort.engine.together import Training, together
from truesort.engine.train import Interrupted, train, training

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
    "Training",
    "evaluate",
    "evaluate_run",
    "from_facts",
    "load",
    "name",
    "to_facts",
    "together",
    "train",
    "training",
]
