"""All layers of an encoder as one operator: two launches a layer forward, two backward, a few for the whole.

A layer of the paper's width is so little work that launches are all it costs. So every kernel leaves its result in
parts, one of each head or of some hidden units, and the next one adds them up, always in the same order: what would be
launches of their own are the first lines of others, all multiprocessors have work, and a run repeats itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from . import _encoder_attention as attention
from . import _encoder_feedforward as feedforward
from ._encoder_parts import WHOLE

PARAMETERS = 12
"""Of a layer: weight and bias of projection, merge, normalisation, widening, narrowing and normalisation."""
ROWS = 32
"""Of a tile of the feed-forward."""
UNITS = 64
"""Hidden units a program has in hand; forward, it takes at least two such handfuls."""


@dataclass(frozen=True)
class _Plan:
    """How much there is to do and how it is shared out."""

    sequences: int
    length: int
    width: int
    heads: int
    hidden: int

    @property
    def rows(self) -> int:
        return self.sequences * self.length

    @property
    def tile(self) -> int:
        """Rows of a tile of attention."""
        return 16 if self.length <= 8 else 32 if self.length <= 32 else 64

    @property
    def per(self) -> int:
        """Rows of a tile that are in use: those of whole sequences."""
        return self.tile // self.length * self.length

    @property
    def tiles(self) -> int:
        return _up(self.rows, self.per)

    @property
    def attention_shares(self) -> int:
        """Among how many programs the tiles of a head are shared out on the way back."""
        return _up(self.tiles, _up(self.tiles, 64))

    @property
    def splits(self) -> int:
        """Among how many programs the hidden units of a tile are shared out forward."""
        wanted = _power(512 // _up(self.rows, ROWS))
        return min(wanted, self.hidden // (2 * UNITS))

    @property
    def chunks(self) -> int:
        """Among how many programs the hidden units are shared out on the way back."""
        return self.hidden // UNITS

    @property
    def shares(self) -> int:
        """Among how many programs the rows of a chunk are shared out on the way back; each has sums to write."""
        return min(_up(self.rows, ROWS), 12 if self.width == 16 else 8)

    @property
    def registers(self) -> int:
        """What a thread of the feed-forward may take on the way back: for three programs a multiprocessor, or all."""
        return 168 if self.width == 16 else 255

    def attention(self, dropout: float, eps: float, masked: bool) -> dict[str, int | float | bool]:
        """What the kernels of attention are compiled for."""
        head = self.width // self.heads
        padded = max(16, _power(head))
        return {
            **{"D": self.width, "HEADS": self.heads, "HEAD": head, "PADDED": padded, "R": self.tile, "MASKED": masked},
            **_common(dropout, eps),
            "num_warps": 4 if self.tile * self.width > 1024 or self.tile == 64 else 2,
        }

    def feedforward(self, dropout: float, eps: float) -> dict[str, int | float]:
        """What the kernels of the feed-forward are compiled for."""
        return {"D": self.width, "F": self.hidden, "R": ROWS, **_common(dropout, eps)}


def _up(whole: int, part: int) -> int:
    return -(-whole // part)


def _power(number: int) -> int:
    """The next power of two."""
    return 1 << max(0, number - 1).bit_length()


def _common(dropout: float, eps: float) -> dict[str, int | float]:
    return {"DROP": threshold(dropout), "EPS": eps, "num_stages": 1}


def threshold(dropout: float) -> int:
    """Below which hash an element is dropped."""
    most: int = WHOLE.value
    return min(round(dropout * most), most - 1)


def _plan(x: Tensor, parameters: Sequence[Tensor], heads: int) -> _Plan:
    sequences, length, width = x.shape
    return _Plan(sequences, length, width, heads, parameters[6].shape[0])


def _by_layer(parameters: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    return [parameters[start : start + PARAMETERS] for start in range(0, len(parameters), PARAMETERS)]


@torch.library.custom_op("truesort::encode", mutates_args=())
def encode(
    x: Tensor, mask: Tensor | None, seeds: Tensor, parameters: Sequence[Tensor], heads: int, dropout: float, eps: float
) -> tuple[Tensor, Tensor]:
    """The output (B, n, width) and, by layer, its input and what is before, between and behind its normalisations."""
    with torch.cuda.device_of(x):
        return _forward(x, mask, seeds, parameters, heads, dropout, eps)


def _forward(x, mask, seeds, parameters, heads, dropout, eps) -> tuple[Tensor, Tensor]:
    plan, layers = _plan(x, parameters, heads), _by_layer(parameters)
    rows, width = plan.rows, plan.width
    out, kept = torch.empty_like(x), x.new_empty((len(layers), 4, rows, width))
    merged, fed = x.new_empty((heads, rows, width)), x.new_empty((plan.splits, rows, width))
    attending, feeding = plan.attention(dropout, eps, mask is not None), plan.feedforward(dropout, eps)
    before: tuple[Tensor | None, ...] = (None,) * 6
    for number, (own, seed) in enumerate(zip(layers, seeds, strict=True)):
        given, middle, y, end = kept[number]
        given = given if number else x
        attention.attend[(plan.tiles, heads)](
            given, mask, seed, *own[:3], merged, *before, rows, plan.length, plan.per,
            PARTS=plan.splits if number else 0, **attending,
        )  # fmt: skip
        feedforward.feed[(_up(rows, ROWS), plan.splits)](
            merged, own[3], seed, given, *own[4:6], middle, y, *own[6:9], fed, rows,
            C=UNITS, UNITS=plan.hidden // plan.splits, PARTS=heads, num_warps=4 if width == 64 else 2, **feeding,
        )  # fmt: skip
        before = (fed, own[9], *own[10:12], y, end)
    _, bias, norm, shift, y, end = before
    del feeding["F"]
    feedforward.finish[(_up(rows, ROWS),)](
        fed, bias, seeds[-1], y, norm, shift, end, out, rows, PARTS=plan.splits, **feeding
    )
    return out, kept


@encode.register_fake
def _(x, mask, seeds, parameters, heads, dropout, eps):
    rows, width = x.shape[0] * x.shape[1], x.shape[2]
    return torch.empty_like(x), x.new_empty((len(parameters) // PARAMETERS, 4, rows, width))


@torch.library.custom_op("truesort::encode_backward", mutates_args=())
def encode_backward(
    grad: Tensor, x: Tensor, mask: Tensor | None, seeds: Tensor, parameters: Sequence[Tensor], kept: Tensor,
    heads: int, dropout: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of x and, by layer, of the parameters of attention and of the feed-forward, end to end."""
    plan, layers = _plan(x, parameters, heads), _by_layer(parameters)
    rows, width = plan.rows, plan.width
    sizes = [sum(p.numel() for p in own) for own in (layers[0][:6], layers[0][6:])]
    attended = x.new_empty((len(layers), plan.attention_shares, sizes[0]))
    fed = x.new_empty((len(layers), plan.shares, sizes[1]))
    between, parts = x.new_empty((plan.chunks, rows, width)), x.new_empty((heads, rows, width))
    attending, feeding = plan.attention(dropout, eps, mask is not None), plan.feedforward(dropout, eps)
    above, many = grad, 1
    for number in reversed(range(len(layers))):
        own, seed, (given, middle, y, end) = layers[number], seeds[number], kept[number]
        feedforward.feed_back[(plan.chunks, plan.shares)](
            above, seed, own[10], end, y, *own[6:9], between, fed[number], rows,
            C=UNITS, PARTS=many, maxnreg=plan.registers, **feeding,
        )  # fmt: skip
        attention.attend_back[(plan.attention_shares, heads)](
            given if number else x, mask, seed, *own[:3], own[4], middle, between, parts, attended[number],
            rows, plan.length, plan.per, PARTS=plan.chunks, **attending,
        )  # fmt: skip
        above, many = parts, heads
    return parts.sum(0).view_as(x), attended.sum(1), fed.sum(1)


@encode_backward.register_fake
def _(grad, x, mask, seeds, parameters, kept, heads, dropout, eps):
    layers = len(parameters) // PARAMETERS
    sizes = [sum(p.numel() for p in own) for own in (parameters[:6], parameters[6:12])]
    return torch.empty_like(x), x.new_empty((layers, sizes[0])), x.new_empty((layers, sizes[1]))


def _keep(ctx, inputs, output) -> None:
    x, mask, seeds, parameters, *ctx.numbers = inputs
    ctx.save_for_backward(x, mask, seeds, output[1], *parameters)
    ctx.set_materialize_grads(False)  # nobody has a gradient for what is kept


def _return(ctx, grad, _):
    x, mask, seeds, kept, *parameters = ctx.saved_tensors
    grad = grad.contiguous()
    dx, attended, fed = torch.ops.truesort.encode_backward(grad, x, mask, seeds, parameters, kept, *ctx.numbers)
    grads = list[Tensor]()
    for own, *sums in zip(_by_layer(parameters), attended, fed, strict=True):
        pieces = (flat.split([p.numel() for p in half]) for flat, half in zip(sums, (own[:6], own[6:]), strict=True))
        grads += [piece.view_as(p) for piece, p in zip((g for half in pieces for g in half), own, strict=True)]
    return dx, None, None, grads, None, None, None


encode.register_autograd(_return, setup_context=_keep)
