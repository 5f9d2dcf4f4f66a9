"""The fused image operators do what torch's do; they exist only on a GPU."""

import pytest
import torch
import torch.nn.functional as F

from truesort.ops.images import convolve_pool


def plain(x: torch.Tensor, layer: torch.nn.Conv2d) -> torch.Tensor:
    return F.relu(F.max_pool2d(layer(x), 2))


def test_without_a_gpu_they_are_torchs_own() -> None:
    layer, x = torch.nn.Conv2d(3, 8, 5, padding=2), torch.randn(2, 3, 9, 12)
    torch.testing.assert_close(convolve_pool(x, layer), plain(x, layer), rtol=0, atol=0)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "shape", [(5, 1, 28, 112), (3, 3, 54, 54), (300, 1, 4, 6), (2, 32, 14, 56), (3, 64, 27, 27), (1, 16, 7, 9)]
)
@pytest.mark.parametrize("kernel", [3, 5])
def test_values_and_gradients(shape: tuple[int, ...], kernel: int) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(shape[1], 32, kernel, padding=kernel // 2).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(shape, device="cuda").bfloat16().float()
    deep = shape[1] > 3
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_() if deep else x
    poison = torch.full((50_000_000,), float("nan"), device="cuda")
    del poison
    with torch.autocast("cuda", torch.bfloat16):
        found = convolve_pool(x.bfloat16() if deep else x, layer)
    with torch.no_grad():
        layer.weight.copy_(layer.weight.bfloat16())
    right = as_computed(x, layer, rounded=deep)
    assert found.is_contiguous(memory_format=torch.channels_last)
    grad = torch.randn_like(right).bfloat16()
    wanted = [layer.weight, layer.bias, *([x] if deep else [])]
    got, exact = torch.autograd.grad(found, wanted, grad), torch.autograd.grad(right, wanted, grad.float())
    assert relative(found, right) < 5e-3
    for a, b in zip(got, exact, strict=True):
        assert relative(a, b) < 1e-2


def as_computed(x: torch.Tensor, layer: torch.nn.Conv2d, rounded: bool) -> torch.Tensor:
    """In float32, the winners chosen among what the fused operators see: the convolution in bfloat16, if `rounded`."""
    whole = F.conv2d(x, layer.weight, padding=layer.padding)
    if rounded:
        with torch.autocast("cuda", torch.bfloat16):
            seen = F.conv2d(x.bfloat16(), layer.weight, padding=layer.padding).float()
        whole = whole + (seen - whole).detach()
    return F.relu(F.max_pool2d(whole, 2) + layer.bias[:, None, None])


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a.float() - b.float()).norm() / b.float().norm()).item()
