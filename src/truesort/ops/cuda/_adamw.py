"""AdamW on all tensors at once, in one launch whose programs look up in a table whose elements are theirs.

Torch's fused kernel gives a program 65,536 elements and so leaves most of a GPU idle with a model of a million.
"""

import math

import triton
import triton.language as tl
from torch import Tensor

SIZE = 1024
"""Elements of a program."""


@triton.jit
def _correction(step, LOG: tl.constexpr):
    """1 - beta^step; in float64, because the difference is small and beta^step is not."""
    return (1.0 - tl.exp(step.to(tl.float64) * tl.full((), LOG, tl.float64))).to(tl.float32)


@triton.jit
def _update(
    table_ptr, blocks_ptr, rate_ptr, TENSORS, SIZE: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr,
    LOG1: tl.constexpr, LOG2: tl.constexpr, EPS: tl.constexpr, DECAY: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    row_ptr = table_ptr + tl.load(blocks_ptr + 2 * block)
    index = tl.load(blocks_ptr + 2 * block + 1) * SIZE + tl.arange(0, SIZE)
    inside = index < tl.load(row_ptr + 5 * TENSORS)
    number = tl.pointer_type(tl.float32)
    value_ptr, grad_ptr = tl.load(row_ptr).to(number) + index, tl.load(row_ptr + TENSORS).to(number) + index
    mean_ptr = tl.load(row_ptr + 2 * TENSORS).to(number) + index
    square_ptr = tl.load(row_ptr + 3 * TENSORS).to(number) + index
    step = tl.load(tl.load(row_ptr + 4 * TENSORS).to(number))
    rate = tl.load(rate_ptr)
    value, grad = tl.load(value_ptr, mask=inside, other=0.0), tl.load(grad_ptr, mask=inside, other=0.0)
    mean, square = tl.load(mean_ptr, mask=inside, other=0.0), tl.load(square_ptr, mask=inside, other=0.0)
    mean += (grad - mean) * (1.0 - BETA1)
    square = square * BETA2 + grad * grad * (1.0 - BETA2)
    deviation = tl.div_rn(tl.sqrt_rn(square), tl.sqrt_rn(_correction(step, LOG2))) + EPS
    value *= 1.0 - rate * DECAY
    value -= tl.div_rn(rate, _correction(step, LOG1)) * tl.div_rn(mean, deviation)
    tl.store(value_ptr, value, mask=inside)
    tl.store(mean_ptr, mean, mask=inside)
    tl.store(square_ptr, square, mask=inside)


def blocks_of(sizes: list[int]) -> list[list[int]]:
    """Of each program: the number of its tensor, and which block of it."""
    return [[number, block] for number, size in enumerate(sizes) for block in range(-(-size // SIZE))]


def update(table: Tensor, blocks: Tensor, rate: Tensor, betas: tuple[float, float], eps: float, decay: float) -> None:
    """One step; the rows of `table` are where values, gradients, means, squares, steps are, and how many elements."""
    first, second = betas
    _update[(len(blocks),)](
        table, blocks, rate, table.shape[1], SIZE=SIZE, BETA1=first, BETA2=second,
        LOG1=math.log(first), LOG2=math.log(second), EPS=eps, DECAY=decay,
    )  # fmt: skip
