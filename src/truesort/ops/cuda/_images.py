"""The fused image operators in Triton: forward they remember which of four positions won, backward they use it.

A program owns some pooled positions and all channels. The gradient of weights and biases is summed within a program and
then over programs by torch, in a fixed order, so that a run repeats itself.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

DEAD = tl.constexpr(4)
"""What stands for the winner where ReLU gives 0."""
FACTOR = tl.constexpr(tl.bfloat16)
"""What the matrix units multiply; they add in float32."""
POSITIONS = 64
"""Pooled positions of a program that convolves."""
ELEMENTS = 1024
"""Pooled numbers of a program that only moves them: eight a thread, the widest load there is."""
PROGRAMS = 1056
"""Most programs of a sum: a few on each multiprocessor, each over many positions."""


@triton.jit
def _patches(x_ptr, m, M, oh, ow, n, q, C: tl.constexpr, H, W, S: tl.constexpr, K: tl.constexpr, KP: tl.constexpr):
    """What the kernel sees at position q of the 2×2 of each pooled position: (positions, C·S·S padded to KP), bf16."""
    k = tl.arange(0, KP)[None, :]
    y = (2 * oh + q // 2)[:, None] + (k % (S * S)) // S - S // 2
    z = (2 * ow + q % 2)[:, None] + k % S - S // 2
    inside = (y >= 0) & (y < H) & (z >= 0) & (z < W) & (k < K) & (m < M)[:, None]
    where = ((n[:, None] * C + k // (S * S)) * H + y) * W + z
    return tl.load(x_ptr + where, mask=inside, other=0.0).to(FACTOR)


@triton.jit
def _convolve_pool(
    x_ptr, w_ptr, b_ptr, out_ptr, won_ptr, M, H, W,
    C: tl.constexpr, S: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, CO: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    ow, oh, n = m % (W // 2), (m // (W // 2)) % (H // 2), m // ((W // 2) * (H // 2))
    k, o = tl.arange(0, KP)[:, None], tl.arange(0, CO)
    w = tl.load(w_ptr + o[None, :] * K + k, mask=k < K, other=0.0).to(FACTOR)
    best = tl.full((B, CO), float("-inf"), tl.float32)
    won = tl.zeros((B, CO), tl.int32)
    for q in tl.static_range(4):
        here = tl.dot(_patches(x_ptr, m, M, oh, ow, n, q, C, H, W, S, K, KP), w)
        won = tl.where(here > best, q, won)
        best = tl.maximum(best, here)
    best += tl.load(b_ptr + o)[None, :]
    won = tl.where(best > 0, won, DEAD)
    place = m[:, None] * CO + o[None, :]
    tl.store(out_ptr + place, tl.maximum(best, 0.0).to(tl.bfloat16), mask=(m < M)[:, None])
    tl.store(won_ptr + place, won.to(tl.uint8), mask=(m < M)[:, None])


@triton.jit
def _convolve_pool_backward(
    x_ptr, g_ptr, won_ptr, dw_ptr, db_ptr, M, H, W,
    C: tl.constexpr, S: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, CO: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    o = tl.arange(0, CO)
    dw = tl.zeros((KP, CO), tl.float32)
    db = tl.zeros((CO,), tl.float32)
    for start in range(program * B, M, tl.num_programs(0) * B):
        m = tl.arange(0, B).to(tl.int64) + start
        ow, oh, n = m % (W // 2), (m // (W // 2)) % (H // 2), m // ((W // 2) * (H // 2))
        place = m[:, None] * CO + o[None, :]
        g = tl.load(g_ptr + place, mask=(m < M)[:, None], other=0.0)
        won = tl.load(won_ptr + place, mask=(m < M)[:, None], other=4)
        for q in tl.static_range(4):
            share = tl.where(won == q, g.to(tl.float32), 0.0).to(FACTOR)
            dw += tl.dot(tl.trans(_patches(x_ptr, m, M, oh, ow, n, q, C, H, W, S, K, KP)), share)
        db += tl.sum(tl.where(won < DEAD, g.to(tl.float32), 0.0), 0)
    k = tl.arange(0, KP)[:, None]
    tl.store(dw_ptr + (program * K + k) * CO + o[None, :], dw, mask=k < K)
    tl.store(db_ptr + program * CO + o, db)


@triton.jit
def _bias_pool(y_ptr, b_ptr, out_ptr, won_ptr, M, H, W, CO: tl.constexpr, B: tl.constexpr):
    m = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    PW, PH = W // 2, H // 2
    ow, oh, n = m % PW, (m // PW) % PH, m // (PW * PH)
    o = tl.arange(0, CO)
    alive = (m < M)[:, None]
    corner = (((n * H + 2 * oh) * W + 2 * ow) * CO)[:, None] + o[None, :]
    best = tl.load(y_ptr + corner, mask=alive, other=0.0).to(tl.float32)
    won = tl.zeros((B, CO), tl.int32)
    for q in tl.static_range(1, 4):
        here = tl.load(y_ptr + corner + ((q // 2) * W + q % 2) * CO, mask=alive, other=0.0).to(tl.float32)
        won = tl.where(here > best, q, won)
        best = tl.maximum(best, here)
    best += tl.load(b_ptr + o)[None, :]
    won = tl.where(best > 0, won, DEAD)
    place = m[:, None] * CO + o[None, :]
    tl.store(out_ptr + place, tl.maximum(best, 0.0).to(tl.bfloat16), mask=alive)
    tl.store(won_ptr + place, won.to(tl.uint8), mask=alive)


@triton.jit
def _bias_pool_backward(g_ptr, won_ptr, dy_ptr, db_ptr, M, H, W, CO: tl.constexpr, B: tl.constexpr):
    program = tl.program_id(0)
    PW, PH = W // 2, H // 2
    o = tl.arange(0, CO)
    db = tl.zeros((CO,), tl.float32)
    for start in range(program * B, M, tl.num_programs(0) * B):
        m = tl.arange(0, B).to(tl.int64) + start
        ow, oh, n = m % PW, (m // PW) % PH, m // (PW * PH)
        alive = (m < M)[:, None]
        place = m[:, None] * CO + o[None, :]
        g = tl.load(g_ptr + place, mask=alive, other=0.0)
        won = tl.load(won_ptr + place, mask=alive, other=4)
        corner = (((n * H + 2 * oh) * W + 2 * ow) * CO)[:, None] + o[None, :]
        for q in tl.static_range(4):
            mine = tl.where(won == q, g.to(tl.float32), 0.0).to(tl.bfloat16)
            tl.store(dy_ptr + corner + ((q // 2) * W + q % 2) * CO, mine, mask=alive)
        db += tl.sum(tl.where(won < DEAD, g.to(tl.float32), 0.0), 0)
    tl.store(db_ptr + program * CO + o, db)


def _pooled(like: Tensor, count: int, channels: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Room for pooled values and winners, channels last."""
    shape, last = (count, channels, height // 2, width // 2), torch.channels_last
    return (
        torch.empty(shape, dtype=torch.bfloat16, device=like.device, memory_format=last),
        torch.empty(shape, dtype=torch.uint8, device=like.device, memory_format=last),
    )


def _programs(positions: int) -> int:
    return max(1, min(PROGRAMS, -(-positions // POSITIONS)))


@torch.library.custom_op("truesort::convolve_pool", mutates_args=())
def convolve_pool(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """relu(max_pool2d(conv2d(x, weight, bias), 2)) in bfloat16, and the winners; x contiguous with even sides."""
    (count, channels, height, width), side, outputs = x.shape, weight.shape[-1], len(weight)
    out, won = _pooled(x, count, outputs, height, width)
    positions, seen = out.numel() // outputs, channels * side * side
    if positions:
        _convolve_pool[(triton.cdiv(positions, POSITIONS),)](
            x, weight.contiguous(), bias, out, won, positions, height, width,
            C=channels, S=side, K=seen, KP=max(16, triton.next_power_of_2(seen)), CO=outputs, B=POSITIONS,
        )  # fmt: skip
    return out, won


@convolve_pool.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return _pooled(x, x.shape[0], weight.shape[0], x.shape[2], x.shape[3])


@torch.library.custom_op("truesort::convolve_pool_backward", mutates_args=())
def convolve_pool_backward(x: Tensor, grad: Tensor, won: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """The gradients of weight and bias, float32."""
    _, channels, height, width = x.shape
    outputs, seen, positions = won.shape[1], channels * side * side, won.numel() // won.shape[1]
    programs = _programs(positions)
    dw, db = x.new_empty((programs, seen, outputs)), x.new_empty((programs, outputs))
    _convolve_pool_backward[(programs,)](
        x, grad, won, dw, db, positions, height, width,
        C=channels, S=side, K=seen, KP=max(16, triton.next_power_of_2(seen)), CO=outputs, B=POSITIONS,
    )  # fmt: skip
    return dw.sum(0).t().reshape(outputs, channels, side, side).contiguous(), db.sum(0)


@convolve_pool_backward.register_fake
def _(x: Tensor, grad: Tensor, won: Tensor, side: int) -> tuple[Tensor, Tensor]:
    return x.new_empty((won.shape[1], x.shape[1], side, side)), x.new_empty((won.shape[1],))


@torch.library.custom_op("truesort::bias_pool", mutates_args=())
def bias_pool(y: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """relu(max_pool2d(y, 2) + bias) and the winners; y is bfloat16 and channels last."""
    count, outputs, height, width = y.shape
    out, won = _pooled(y, count, outputs, height, width)
    positions = out.numel() // outputs
    if positions:
        block = max(1, ELEMENTS // outputs)
        _bias_pool[(triton.cdiv(positions, block),)](y, bias, out, won, positions, height, width, CO=outputs, B=block)
    return out, won


@bias_pool.register_fake
def _(y: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return _pooled(y, *y.shape)


@torch.library.custom_op("truesort::bias_pool_backward", mutates_args=())
def bias_pool_backward(grad: Tensor, won: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """The gradients of y, in bfloat16, and of bias, in float32."""
    count, outputs = won.shape[:2]
    shape, last, programs = (count, outputs, height, width), torch.channels_last, _programs(won.numel() // outputs)
    make = torch.zeros if height % 2 or width % 2 else torch.empty
    dy = make(shape, dtype=torch.bfloat16, device=grad.device).contiguous(memory_format=last)
    db = torch.empty((programs, outputs), device=grad.device)
    _bias_pool_backward[(programs,)](
        grad, won, dy, db, won.numel() // outputs, height, width, CO=outputs, B=max(1, ELEMENTS // outputs)
    )
    return dy, db.sum(0)


@bias_pool_backward.register_fake
def _(grad: Tensor, won: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    dy = grad.new_empty((*won.shape[:2], height, width), dtype=torch.bfloat16)
    return dy.contiguous(memory_format=torch.channels_last), grad.new_empty((won.shape[1],), dtype=torch.float32)


def _ready(grad: Tensor) -> Tensor:
    return grad.to(torch.bfloat16).contiguous(memory_format=torch.channels_last)


def _keep_convolve_pool(ctx, inputs, output) -> None:
    x, weight, _ = inputs
    ctx.save_for_backward(x, output[1])
    ctx.side = weight.shape[-1]


def _return_convolve_pool(ctx, grad, _):
    x, won = ctx.saved_tensors
    dw, db = torch.ops.truesort.convolve_pool_backward(x, _ready(grad), won, ctx.side)
    return None, dw, db


def _keep_bias_pool(ctx, inputs, output) -> None:
    ctx.save_for_backward(output[1])
    ctx.sides = inputs[0].shape[2:]


def _return_bias_pool(ctx, grad, _):
    (won,) = ctx.saved_tensors
    return torch.ops.truesort.bias_pool_backward(_ready(grad), won, *ctx.sides)


convolve_pool.register_autograd(_return_convolve_pool, setup_context=_keep_convolve_pool)
bias_pool.register_autograd(_return_bias_pool, setup_context=_keep_bias_pool)
