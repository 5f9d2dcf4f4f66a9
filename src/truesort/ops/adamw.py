"""Torch's AdamW, whose step on a GPU is one launch that fills it; elsewhere it is torch's own, and the state always is.

Where the tensors lie is read from a table on the device. Gradients lie elsewhere after every backward pass, but in a
captured graph always at the same places: there the table is copied from memory of the host that nothing else touches.
"""

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

ALIGNED = 16
"""Bytes by which the address of a tensor divides."""
Group = dict[str, Any]
Lists = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


class AdamW(torch.optim.AdamW):
    """Of all parameters with a gradient; `lr` has to be a tensor on the device for the one launch."""

    _blocks: tuple[list[int], Tensor] | None = None
    _spare: Tensor | None = None
    _held: tuple[Tensor, ...] = ()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter."""
        group = self.param_groups[0]
        if closure is not None or len(self.param_groups) > 1 or not isinstance(group["lr"], Tensor):
            return super().step(closure)
        with torch.no_grad():
            lists = self._lists(group)
            if not _serves(group, lists) or not self._prepared(lists[0]):
                return super().step()
            self._launch(group, lists)
        return None

    def _lists(self, group: Group) -> Lists:
        """Parameters, gradients, means, squares and steps, as torch gathers and at first makes them."""
        lists: Lists = ([], [], [], [], [])
        values, grads, means, squares, steps = lists
        self._init_group(group, values, grads, means, squares, [], steps)  # type: ignore[no-untyped-call]
        return lists

    def _prepared(self, values: list[Tensor]) -> bool:
        """Whether there is what a launch needs; while a graph is captured, it may no longer be made."""
        sizes, device = [value.numel() for value in values], values[0].device
        if _capturing(device):
            fits = self._spare is not None and self._spare.shape[1] == len(sizes)
            return fits and self._blocks is not None and self._blocks[0] == sizes
        if self._blocks is None or self._blocks[0] != sizes:
            from .cuda import _adamw

            self._blocks = sizes, _sent(torch.tensor(_adamw.blocks_of(sizes), dtype=torch.int32), device)
        if device.type == "cuda" and (self._spare is None or self._spare.shape[1] != len(sizes)):
            self._spare = torch.empty(6, len(sizes), dtype=torch.int64, pin_memory=True)
        return True

    def _launch(self, group: Group, lists: Lists) -> None:
        from .cuda import _adamw

        values, grads, *others = lists
        grads = [_like(value, grad) for value, grad in zip(values, grads, strict=True)]
        sizes = [value.numel() for value in values]
        places = [[tensor.data_ptr() for tensor in tensors] for tensors in (values, grads, *others)]
        table = self._on_device(torch.tensor([*places, sizes]), values[0].device)
        torch._foreach_add_(lists[4], 1)
        assert self._blocks is not None
        with torch.cuda.device_of(values[0]):  # type: ignore[no-untyped-call]
            _adamw.update(table, self._blocks[1], group["lr"], group["betas"], group["eps"], group["weight_decay"])

    def _on_device(self, table: Tensor, device: torch.device) -> Tensor:
        """A copy on the device; that of a graph comes at each replay from memory that is its own."""
        if not _capturing(device):
            return _sent(table, device)
        assert self._spare is not None
        assert self._blocks is not None
        own, self._spare = self._spare.copy_(table), None
        self._held += (own, self._blocks[1])
        return own.to(device, non_blocking=True)


def _serves(group: Group, lists: Lists) -> bool:
    """Whether the kernel is there and means the same as torch's."""
    values, grads, means, squares, steps = lists
    odd = group["amsgrad"] or group["maximize"] or group["differentiable"] or not all(0 < b < 1 for b in group["betas"])
    if odd or not values or not _on_gpu(group["lr"], values[0].device) or not _ready():
        return False
    dense = all(v.is_contiguous() or v.is_contiguous(memory_format=torch.channels_last) for v in values if v.dim() == 4)
    dense = dense and all(v.is_contiguous() for v in values if v.dim() != 4)
    alike = all(
        _strides(value) == _strides(kept) and not kept.data_ptr() % ALIGNED
        for value, *both in zip(values, means, squares, strict=True)
        for kept in (value, *both)
    )
    every = [*values, *grads, *means, *squares, *steps]
    return dense and alike and all(_on_gpu(tensor, values[0].device) for tensor in every)


def _on_gpu(tensor: Any, device: torch.device) -> bool:
    return isinstance(tensor, Tensor) and tensor.dtype == torch.float32 and tensor.is_cuda and tensor.device == device


@cache
def _ready() -> bool:
    return find_spec("triton") is not None


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _strides(tensor: Tensor) -> list[int]:
    """Those that say where an element is."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def _like(value: Tensor, grad: Tensor) -> Tensor:
    """The gradient, its elements in the order of the parameter's."""
    return grad if _strides(grad) == _strides(value) else torch.empty_like(value).copy_(grad)


def _sent(table: Tensor, device: torch.device) -> Tensor:
    """A copy on the device for which the CPU does not wait."""
    return table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table
