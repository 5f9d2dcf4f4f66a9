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
def _patches(x_ptr, m, M, C: tl.constexpr, H, W, S: tl.constexpr, E: tl.constexpr, KP: tl.constexpr):
    """What the four positions of each pooled one see together: (positions, C·E·E padded to KP), bf16, E = S + 1."""
    ow, oh, n = m % (W // 2), (m // (W // 2)) % (H // 2), m // ((W // 2) * (H // 2))
    k = tl.arange(0, KP)[None, :]
    y = (2 * oh)[:, None] + (k % (E * E)) // E - S // 2
    z = (2 * ow)[:, None] + k % E - S // 2
    inside = (y >= 0) & (y < H) & (z >= 0) & (z < W) & (k < C * E * E) & (m < M)[:, None]
    where = ((n[:, None] * C + k // (E * E)) * H + y) * W + z
    return tl.load(x_ptr + where, mask=inside, other=0.0).to(FACTOR)


@triton.jit
def _weights(w_ptr, q, C: tl.constexpr, S: tl.constexpr, E: tl.constexpr, KP: tl.constexpr, CO: tl.constexpr):
    """The kernel as position q of the four lays it on what they see together: (KP, CO)."""
    k, o = tl.arange(0, KP)[:, None], tl.arange(0, CO)[None, :]
    y, z = (k % (E * E)) // E - q // 2, k % E - q % 2
    inside = (k < C * E * E) & (y >= 0) & (y < S) & (z >= 0) & (z < S)
    return tl.load(w_ptr + o * (C * S * S) + (k // (E * E) * S + y) * S + z, inside, 0.0).to(FACTOR)


@triton.jit
def _convolve_pool(
    x_ptr, w_ptr, b_ptr, out_ptr, won_ptr, M, H, W,
    C: tl.constexpr, S: tl.constexpr, E: tl.constexpr, KP: tl.constexpr, CO: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    o = tl.arange(0, CO)
    m = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    seen = _patches(x_ptr, m, M, C, H, W, S, E, KP)
    best = tl.full((B, CO), float("-inf"), tl.float32)
    won = tl.zeros((B, CO), tl.int32)
    for q in tl.static_range(4):
        here = tl.dot(seen, _weights(w_ptr, q, C, S, E, KP, CO))
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
    C: tl.constexpr, S: tl.constexpr, E: tl.constexpr, KP: tl.constexpr, CO: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    k, o = tl.arange(0, KP)[:, None], tl.arange(0, CO)
    d0, d1 = tl.zeros((KP, CO), tl.float32), tl.zeros((KP, CO), tl.float32)
    d2, d3 = tl.zeros((KP, CO), tl.float32), tl.zeros((KP, CO), tl.float32)
    db = tl.zeros((CO,), tl.float32)
    for start in range(program * B, M, tl.num_programs(0) * B):
        m = tl.arange(0, B).to(tl.int64) + start
        place = m[:, None] * CO + o[None, :]
        g = tl.load(g_ptr + place, mask=(m < M)[:, None], other=0.0).to(tl.float32)
        won = tl.load(won_ptr + place, mask=(m < M)[:, None], other=4)
        seen = tl.trans(_patches(x_ptr, m, M, C, H, W, S, E, KP))
        d0 += tl.dot(seen, tl.where(won == 0, g, 0.0).to(FACTOR))
        d1 += tl.dot(seen, tl.where(won == 1, g, 0.0).to(FACTOR))
        d2 += tl.dot(seen, tl.where(won == 2, g, 0.0).to(FACTOR))
        d3 += tl.dot(seen, tl.where(won == 3, g, 0.0).to(FACTOR))
        db += tl.sum(tl.where(won < DEAD, g, 0.0), 0)
    to = dw_ptr + (program * 4 * C * E * E + k) * CO + o[None, :]
    tl.store(to, d0, mask=k < C * E * E)
    tl.store(to + C * E * E * CO, d1, mask=k < C * E * E)
    tl.store(to + 2 * C * E * E * CO, d2, mask=k < C * E * E)
    tl.store(to + 3 * C * E * E * CO, d3, mask=k < C * E * E)
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
    positions = out.numel() // outputs
    if positions:
        _convolve_pool[(triton.cdiv(positions, POSITIONS),)](
            x, weight.contiguous(), bias, out, won, positions, height, width, **_sizes(channels, side, outputs)
        )
    return out, won


@convolve_pool.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return _pooled(x, x.shape[0], weight.shape[0], x.shape[2], x.shape[3])


@torch.library.custom_op("truesort::convolve_pool_backward", mutates_args=())
def convolve_pool_backward(x: Tensor, grad: Tensor, won: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """The gradients of weight and bias, float32."""
    _, channels, height, width = x.shape
    outputs, positions = won.shape[1], won.numel() // won.shape[1]
    programs = max(1, _programs(positions) // 4)
    dw = x.new_empty((programs, 4, channels, side + 1, side + 1, outputs))
    db = x.new_empty((programs, outputs))
    _convolve_pool_backward[(programs,)](
        x, grad, won, dw, db, positions, height, width, **_sizes(channels, side, outputs),
        num_warps=4 if channels == 1 else 8,
    )  # fmt: skip
    whole = dw.sum(0)
    parts = [whole[q, :, q // 2 : q // 2 + side, q % 2 : q % 2 + side] for q in range(4)]
    return torch.stack(parts).sum(0).movedim(-1, 0).contiguous(), db.sum(0)


def _sizes(channels: int, side: int, outputs: int) -> dict[str, int]:
    """What the kernels of a first convolution are compiled for."""
    seen = 1 << (channels * (side + 1) ** 2 - 1).bit_length()
    return {"C": channels, "S": side, "E": side + 1, "KP": max(16, seen), "CO": outputs, "B": POSITIONS}


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
