"""How big a scorer is: parameters, and multiply-adds for one sequence.

The count is of convolutions, fully-connected layers and attention products, as the paper's figures are; a sequence
runs through the scorer on torch's `meta` device, so nothing is computed and nothing is guessed from a formula.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from truesort.models._registry import Config, ItemShape, configure
from truesort.models._score import Score
from truesort.models.mlp import MLP
from truesort.models.transformer import Attention


@dataclass(frozen=True)
class Row:
    """One scorer of the paper beside what the paper says of it."""

    task: str
    model: str
    length: int
    parameters: int
    multiply_adds: int
    paper_parameters: str
    paper_multiply_adds: str


# task, model, family, item shape, sequence length, and the paper's parameters and multiply-adds as printed
_PAPER: tuple[tuple[str, str, str, ItemShape, int, str, str], ...] = (
    ("mnist4", "cnn", "digits", (1, 28, 112), 3, "855K", "130M"),
    ("mnist4", "transformer-s", "digits", (1, 28, 112), 3, "665K", "130M"),
    ("mnist4", "transformer-l", "digits", (1, 28, 112), 3, "3.104M", "137M"),
    ("svhn", "cnn", "svhn", (3, 54, 54), 3, "1.226M", "326M"),
    ("svhn", "transformer-s", "svhn", (3, 54, 54), 3, "1.223M", "210M"),
    ("svhn", "transformer-l", "svhn", (3, 54, 54), 3, "3.475M", "332M"),
    ("mnist_2x2", "cnn", "fragments", (1, 14, 14), 4, "84K", "1.498M"),
    ("mnist_2x2", "transformer", "fragments", (1, 14, 14), 4, "87K", "946K"),
    ("cifar10_2x2", "cnn", "fragments", (3, 16, 16), 4, "85K", "1.663M"),
    ("cifar10_2x2", "transformer", "fragments", (3, 16, 16), 4, "87K", "1.111M"),
)


def parameters(scorer: nn.Module) -> int:
    """The number of trainable parameters."""
    return sum(weight.numel() for weight in scorer.parameters() if weight.requires_grad)


def multiply_adds(config: Config, length: int) -> int:
    """Multiply-adds to score one sequence of `length` items."""
    scorer = _weightless(config)
    shape = (config.inputs,) if isinstance(config, MLP) else config.item_shape
    total = 0

    def add(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        total += _COSTS[type(module)](module, inputs[0], output)

    for module in scorer.modules():
        if type(module) in _COSTS:
            module.register_forward_hook(add)
    scorer(torch.empty(1, length, *shape, device="meta"))
    return total


def rows() -> list[Row]:
    """The table of `truesort models`: every scorer of the paper, counted, beside the paper's figures."""
    table = []
    for task, model, family, shape, length, paper_parameters, paper_multiply_adds in _PAPER:
        config = configure(model, family, shape)
        counts = parameters(_weightless(config)), multiply_adds(config, length)
        table.append(Row(task, model, length, *counts, paper_parameters, paper_multiply_adds))
    return table


def _weightless(config: Config) -> nn.Module:
    with torch.device("meta"):
        return config.build().eval()


def _linear(module: nn.Module, inputs: Tensor, output: Tensor) -> int:
    return output.numel() * inputs.shape[-1]


def _convolution(module: nn.Module, inputs: Tensor, output: Tensor) -> int:
    assert isinstance(module, nn.Conv2d)
    return output.numel() * module.weight[0].numel()


def _attention(module: nn.Module, inputs: Tensor, output: Tensor) -> int:
    return 2 * inputs.numel() * inputs.shape[1]  # query by key, then weights by value; its layers count themselves


_COSTS: dict[type[nn.Module], Callable[[nn.Module, Tensor, Tensor], int]] = {
    nn.Linear: _linear,
    Score: _linear,
    nn.Conv2d: _convolution,
    Attention: _attention,
}
