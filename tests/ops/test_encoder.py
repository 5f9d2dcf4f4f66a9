"""The fused encoder against torch's operators in float64: on a GPU as it is, elsewhere in Triton's interpreter.

Dropout is checked with the very masks the kernels use, which a kernel of this file asks of the same function.
"""

from collections.abc import Iterator, Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from truesort.models import Convolutions, Transformer
from truesort.models.transformer import EncoderLayer
from truesort.ops.encoder import encode

pytest.importorskip("triton", reason="the fused encoder needs Triton")

import triton
import triton.language as tl

from truesort.ops.cuda import _encoder
from truesort.ops.cuda._encoder_parts import kept

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
pytestmark = [pytest.mark.gpu] if GPU else []
EPS = 1e-5
KINKS = 5e-3 if GPU else 1e-5
"""How far gradients may be away: of millions of hidden numbers a few are so near 0 that ReLU takes another side."""


@pytest.fixture(autouse=True)
def poisoned() -> Iterator[None]:
    """Fresh memory holds nan, so that what is not written shows."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


def layers_of(count: int, width: int, heads: int, hidden: int) -> nn.ModuleList:
    config = Transformer((1, 8, 8), Convolutions((32,)), width, count, heads, hidden)
    layers = nn.ModuleList(EncoderLayer(config) for _ in range(count))
    for parameter in layers.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return layers.to(DEVICE)


def fused(
    x: Tensor, mask: Tensor | None, seeds: Tensor, parameters: Sequence[Tensor], heads: int, dropout: float
) -> Tensor:
    seen = None if mask is None else mask.view(torch.uint8)
    return torch.ops.truesort.encode(x, seen, seeds, parameters, heads, dropout, EPS)[0]


@triton.jit
def _ones_kept(seed_ptr, out_ptr, N, DROP: tl.constexpr, SIZE: tl.constexpr):
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    ones = tl.full((SIZE,), 1.0, tl.float32)
    tl.store(out_ptr + index, kept(ones, seed_ptr, index, DROP), mask=index < N)


def factors(seed: Tensor, dropout: float, *shape: int) -> Tensor:
    """What dropout with this seed multiplies an array of this shape by."""
    out = torch.empty(shape, device=seed.device)
    drop = _encoder.threshold(dropout)
    _ones_kept[(triton.cdiv(out.numel(), 1024),)](seed, out, out.numel(), DROP=drop, SIZE=1024)
    return out.double()


def plain(
    x: Tensor, mask: Tensor | None, seeds: Tensor, parameters: Sequence[Tensor], heads: int, dropout: float
) -> Tensor:
    """The same as `fused` by torch's operators, step by step."""
    sequences, n, width = x.shape
    seen = torch.ones(sequences, 1, n, n, dtype=torch.bool, device=x.device)
    if mask is not None:
        seen = mask[:, None, None] | torch.eye(n, dtype=torch.bool, device=x.device)
    for start, seed in zip(range(0, len(parameters), 12), seeds, strict=True):
        project, project_bias, merge, merge_bias, *first = parameters[start : start + 6]
        widen, widen_bias, narrow, narrow_bias, *second = parameters[start + 6 : start + 12]
        query, key, value = F.linear(x, project, project_bias).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        logits = query @ key.mT / (width // heads) ** 0.5
        weights = logits.masked_fill(~seen, -torch.inf).softmax(-1)
        weights = weights * factors(seed[0:], dropout, sequences, n, n, heads).permute(0, 3, 1, 2)
        merged = F.linear((weights @ value).transpose(1, 2).flatten(2), merge, merge_bias)
        x = F.layer_norm(x + merged * factors(seed[1:], dropout, *x.shape), (width,), *first)
        wide = F.linear(x, widen, widen_bias).relu()
        out = F.linear(wide * factors(seed[2:], dropout, *wide.shape), narrow, narrow_bias)
        x = F.layer_norm(x + out * factors(seed[3:], dropout, *x.shape), (width,), *second)
    return x


def doubles(tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.detach().double().requires_grad_() for tensor in tensors]


def check(
    sequences: int, n: int, width: int, masked: bool, dropout: float, count: int, hidden: int, heads: int
) -> None:
    """Values and every gradient."""
    parameters = list(layers_of(count, width, heads, hidden).parameters())
    x = torch.randn(sequences, n, width, device=DEVICE, requires_grad=True)
    mask = torch.rand(sequences, n, device=DEVICE) < 0.6 if masked else None
    seeds = torch.randint(2**63 - 1, (count, 4), device=DEVICE)
    out = fused(x, mask, seeds, parameters, heads, dropout)
    exact = doubles([x, *parameters])
    right = plain(exact[0], mask, seeds, exact[1:], heads, dropout)
    torch.testing.assert_close(out.double(), right, rtol=0, atol=3e-5)
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, [x, *parameters], grad)
    for a, b in zip(found, torch.autograd.grad(right, exact, grad.double()), strict=True):
        assert (a.double() - b).norm() <= KINKS * b.norm()


SIZES = [(3, 1, 16), (9, 2, 16), (7, 3, 16), (3, 5, 64), (2, 9, 32), (1, 33, 16)]
LARGE = [(100, 3, 16), (100, 9, 16), (100, 32, 16), (64, 15, 32), (100, 9, 64), (37, 33, 64), (5, 64, 32), (999, 3, 16)]


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("sequences", "n", "width"), SIZES + LARGE if GPU else SIZES)
def test_values_and_gradients(sequences: int, n: int, width: int, masked: bool, dropout: float) -> None:
    count, hidden = (2, 2048) if GPU else (1, 128)
    check(sequences, n, width, masked, dropout, count, hidden, heads=8)


@pytest.mark.parametrize("heads", [1, 2, 16])
def test_heads(heads: int) -> None:
    check(3, 4, 16, masked=True, dropout=0.3, count=2, hidden=256, heads=heads)


def test_many_tiles_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of the way back take several tiles each."""
    monkeypatch.setattr(_encoder._Plan, "attention_shares", 2)
    monkeypatch.setattr(_encoder._Plan, "shares", 2)
    check(35, 3, 16, masked=False, dropout=0.1, count=1, hidden=128, heads=2)


def test_dropout_takes_its_rate_everywhere() -> None:
    """Over all numbers, along both axes of an array, and of neighbours no more together than chance has it."""
    for rate in (0.1, 0.5):
        factor = factors(torch.randint(2**63 - 1, (1,), device=DEVICE), rate, 512, 256)
        gone = (factor == 0).double()
        assert set(factor.unique().tolist()) == {0, torch.tensor(1 / (1 - rate)).item()}
        sigma = (rate * (1 - rate)) ** 0.5
        assert abs(gone.mean() - rate) < 4 * sigma / gone.numel() ** 0.5
        for axis in (0, 1):
            lines = (gone.mean(axis) - rate) * gone.shape[axis] ** 0.5 / sigma
            assert 0.75 < lines.square().mean() < 1.3
            together = (gone * gone.roll(1, axis)).mean()
            assert abs(together - rate**2) < 5 * rate / gone.numel() ** 0.5


def test_seeds_differ_in_all_they_drop() -> None:
    """Seeds one apart, in their lower and in their upper half, and the same seed again."""
    seeds = torch.tensor([5, 6, 5 + 2**32, 5], device=DEVICE)
    gone = torch.stack([factors(seeds[i:], 0.5, 1 << 14) == 0 for i in range(4)])
    _, lower, upper, same = (gone[0] == gone).double().mean(1).tolist()
    assert same == 1
    assert abs(lower - 0.5) < 0.02
    assert abs(upper - 0.5) < 0.02


def test_a_run_repeats_itself() -> None:
    parameters = list(layers_of(1, 16, 8, 128).parameters())
    x = torch.randn(20, 3, 16, device=DEVICE, requires_grad=True)
    seeds = torch.randint(2**63 - 1, (1, 4), device=DEVICE)
    results = []
    for _ in range(2):
        out = fused(x, None, seeds, parameters, 8, 0.1)
        results.append([out, *torch.autograd.grad(out.square().sum(), [x, *parameters])])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_its_operators_are_honest() -> None:
    """The fake kernels answer the same shapes, and autograd is registered as torch wants it."""
    parameters = [p.detach().requires_grad_() for p in layers_of(1, 16, 8, 128).parameters()]
    x = torch.randn(2, 3, 16, device=DEVICE, requires_grad=True)
    seeds = torch.zeros(1, 4, dtype=torch.int64, device=DEVICE)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.truesort.encode, (x, None, seeds, parameters, 8, 0.1, EPS), test_utils=checks)


def test_on_the_cpu_torchs_own_serve() -> None:
    layers = layers_of(1, 16, 8, 128).cpu()
    assert encode(torch.randn(2, 3, 16), None, list(layers.parameters()), 8, 0.0) is None


@pytest.mark.gpu
@pytest.mark.parametrize("n", [3, 64, 65])
def test_a_scorer_takes_it_up(n: int) -> None:
    """In evaluation, as in float64; in training, with other numbers at each call; also where it is too long."""
    scorer = Transformer((1, 8, 8), Convolutions((32,)), width=16, layers=2).build().cuda().eval()
    items, mask = torch.randn(10, n, 1, 8, 8, device="cuda"), torch.rand(10, n, device="cuda") < 0.8
    with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):
        found = scorer(items, mask).double()
        torch.testing.assert_close(found, scorer.double()(items.double(), mask), rtol=0, atol=1e-3)
    scorer.float().train()
    assert not torch.equal(scorer(items), scorer(items))
