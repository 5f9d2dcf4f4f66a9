"""The loss a config names, as a function of scores, true values and the items themselves.

Cross-entropy needs a soft permutation, so of an error-free network it takes the soft form; what carries the items is
the config's method as it stands, which gives the paper's loss if that is error-free.
"""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from truesort import functional, losses
from truesort.engine.config import Config, Method, Pairwise, Permutation, Ranks
from truesort.ops import Network, hard

Objective = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Scores (B, n), true values (B, n) and normalised items (B, n, ...) to one number."""


def objective(config: Config) -> Objective:
    """The loss of a config."""
    match config.loss:
        case Permutation():
            return _permutation(config.loss, config.method)
        case Ranks():
            return _ranks(config.method)
        case Pairwise():
            return lambda scores, values, items: losses.pairwise_logistic_loss(scores, values)


def _permutation(loss: Permutation, method: Method) -> Objective:
    soft = replace(method, error_free=False) if isinstance(method, Network) else method

    def measure(scores: Tensor, values: Tensor, items: Tensor) -> Tensor:
        P = functional.permutation(scores, soft)
        total = losses.permutation_loss(P, values, reduction=loss.reduction)
        if loss.lambda_hard:
            distance = losses.reorder_loss(
                scores, items.flatten(2), values, method, split=loss.split, reduction=loss.reduction
            )
            total = total + loss.lambda_hard * distance
        return total

    return measure


def _ranks(method: Method) -> Objective:
    def measure(scores: Tensor, values: Tensor, items: Tensor) -> Tensor:
        positions = hard.inverse(hard.order(values, None))
        return (functional.rank(scores, method) - positions).square().mean()

    return measure
