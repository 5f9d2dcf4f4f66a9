"""The oracle: sorting networks in plain PyTorch, differentiated by autograd.

Every function here says what a fast backend must compute, for every dtype and device, as often differentiable as one
likes. It is written wire by wire: in a layer each wire meets one partner (an idle wire meets itself), keeps the part
`stay` of what it carries and takes the part `leave` of what the partner carries.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ..networks import network
from ..relaxations import sigma
from ._backend import constant

if TYPE_CHECKING:
    from .network import Network


class Step(NamedTuple):
    """What a layer did to its wires. `keep` and `item`, the original index on each wire, exist if error-free."""

    partner: Tensor
    stay: Tensor
    leave: Tensor
    keep: Tensor | None = None
    item: Tensor | None = None


def sort(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` sorted values, (rows, outputs)."""
    keys, bad = _clean(keys, count)
    wires, _ = _run(keys, count, net, outputs)
    wires = wires[:, :outputs]
    if net.error_free:
        order = _hard_order(keys, count)[:, :outputs]
        wires = _forced(keys.gather(1, order), wires)
    return wires.masked_fill(bad, torch.nan)


def rank(keys: Tensor, count: Tensor | None, net: "Network") -> Tensor:
    """The position of each item, (rows, n): P times the positions."""
    positions = torch.arange(keys.shape[1], dtype=keys.dtype, device=keys.device)
    return _spread(keys, positions[:, None], count, net, keys.shape[1])[..., 0]


def permutation(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """The first `outputs` columns of P, (rows, n, outputs)."""
    columns = torch.eye(keys.shape[1], outputs, dtype=keys.dtype, device=keys.device)
    return _spread(keys, columns, count, net, outputs)


def reorder(keys: Tensor, payload: Tensor, count: Tensor | None, net: "Network") -> Tensor:
    """Pᵀ times the payload (rows, n, c), which rides along the wires."""
    keys, bad = _clean(keys, count)
    _, steps = _run(keys, count, net, keys.shape[1])
    carried = payload.detach() if net.error_free else payload
    for step in steps:
        carried = _move(step, carried)
    if net.error_free:
        order = _hard_order(keys, count)
        carried = _forced(payload.gather(1, order[..., None].expand_as(payload)), carried, exact=False)
    return _attached(carried, keys).masked_fill(bad[..., None], torch.nan)


def _spread(keys: Tensor, weights: Tensor, count: Tensor | None, net: "Network", outputs: int) -> Tensor:
    """P·weights, by carrying the weights (n, c) from the outputs back to the inputs."""
    keys, bad = _clean(keys, count)
    _, steps = _run(keys, count, net, outputs)
    weights = weights.expand(len(keys), -1, -1)
    spread = _spread_hard(keys, weights, count, steps) if net.error_free else _spread_soft(weights, steps)
    return _attached(spread, keys).masked_fill(bad[..., None], torch.nan)


def _attached(result: Tensor, keys: Tensor) -> Tensor:
    """A result that is there for `backward` to find even if a single item left nothing to compare."""
    return result if result.requires_grad else result + 0 * _finite(keys).sum(1)[:, None, None]


def _spread_soft(weights: Tensor, steps: list[Step]) -> Tensor:
    for step in reversed(steps):  # each layer's matrix is symmetric, so going back is the same exchange
        weights = step.stay[..., None] * weights + step.leave[..., None] * weights.index_select(1, step.partner)
    return weights


def _spread_hard(keys: Tensor, weights: Tensor, count: Tensor | None, steps: list[Step]) -> Tensor:
    """The hard rows of the weights, with each layer's share of the gradient of P added as a zero."""
    place = _hard_order(keys, count).argsort(1)
    hard = weights.gather(1, place[..., None].expand_as(weights))
    share = torch.zeros_like(hard)
    for step in reversed(steps):
        assert step.item is not None
        stay, leave, other = step.stay[..., None], step.leave[..., None], weights.index_select(1, step.partner)
        change = (stay - stay.detach()) * weights + (leave - leave.detach()) * other
        share = share + torch.zeros_like(share).scatter(1, step.item[..., None].expand_as(change), change)
        weights = stay.detach() * weights + leave.detach() * other
    return _forced(hard, share)


def _run(keys: Tensor, count: Tensor | None, net: "Network", outputs: int) -> tuple[Tensor, list[Step]]:
    """Send the keys through the network: what the wires carry at the end, and what each layer did."""
    wires = torch.where(keys.isinf(), keys.detach(), keys)
    layers = _layers(net.layout, keys.shape[1], outputs, count, keys.device)
    if net.error_free:
        return _run_hard(wires, _hard_order(keys, count), layers, net)
    steps = []
    for partner, low, active in layers:
        step = Step(partner, *_weights(wires, wires.index_select(1, partner), low, active, net))
        wires = _move(step, wires[..., None])[..., 0]
        steps.append(step)
    return wires, steps


def _run_hard(
    wires: Tensor, order: Tensor, layers: Iterator[tuple[Tensor, Tensor, Tensor]], net: "Network"
) -> tuple[Tensor, list[Step]]:
    place, steps = order.argsort(1), []  # the final position of what each wire carries: comparing it breaks ties
    for partner, low, active in layers:
        stay, leave = _weights(wires, wires.index_select(1, partner), low, active, net)
        met = place.index_select(1, partner)
        keep = torch.where(low, place < met, place > met) | ~active
        if net.backward == "matrix":
            stay, leave = _forced(keep.to(stay.dtype), stay), _forced((~keep).to(leave.dtype), leave)
        steps.append(Step(partner, stay, leave, keep, order.gather(1, place)))
        wires = _move(steps[-1], wires[..., None])[..., 0]
        place = torch.where(keep, place, met)
    return wires, steps


def _layers(
    layout: str, n: int, outputs: int, count: Tensor | None, device: torch.device
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """`(partner, low, active)` of each layer: whom a wire meets, whether it is the lower one, whether they compare."""
    wire = torch.arange(n, device=device)
    partners, since = _tables(layout, n, outputs, str(device))
    for layer in range(len(partners)):
        partner = partners[layer]
        low, active = wire < partner, (wire != partner)[None]
        if count is not None:
            active = active & (since[layer] <= count[:, None])
        yield partner, low, active


@constant
def _tables(layout: str, n: int, outputs: int, device: str) -> tuple[Tensor, Tensor]:
    return _cached_tables(layout, n, outputs, device)


@lru_cache(maxsize=64)
def _cached_tables(layout: str, n: int, outputs: int, device: str) -> tuple[Tensor, Tensor]:
    partners, since = network(layout, n, outputs).partners
    return torch.from_numpy(partners).long().to(device), torch.from_numpy(since).to(device)


def _weights(wires: Tensor, other: Tensor, low: Tensor, active: Tensor, net: "Network") -> tuple[Tensor, Tensor]:
    level = ((wires == other) & wires.isinf()) | ~active
    gap = torch.where(level, 0, torch.where(low, other - wires, wires - other))
    stay = torch.where(active, sigma(net.swap, gap, net.steepness, net.art), 1)
    leave = torch.where(active, sigma(net.swap, -gap, net.steepness, net.art), 0)
    return stay, leave


def _move(step: Step, carried: Tensor) -> Tensor:
    """One layer's exchange of what the wires carry, (rows, n, c)."""
    stay, leave, other = step.stay[..., None], step.leave[..., None], carried.index_select(1, step.partner)
    if step.keep is not None:
        soft = stay * _finite(carried) + leave * _finite(other)
        return _forced(torch.where(step.keep[..., None], carried, other), soft)
    whole = (stay == 0) | (leave == 0)
    soft = stay * carried.masked_fill(whole, 0) + leave * other.masked_fill(whole, 0)
    return torch.where(whole, torch.where(stay == 0, other, carried), soft)


def _forced(hard: Tensor, soft: Tensor, exact: bool = True) -> Tensor:
    """The value of `hard`, bit by bit, with the gradient of `soft` (and, unless `exact`, that of `hard` as well)."""
    soft = _finite(soft)
    return (hard.detach() if exact else hard) - (soft.detach() - soft)  # −0 − 0 is −0; −0 + 0 would be 0


def _finite(x: Tensor) -> Tensor:
    return x.masked_fill(x.isinf() | x.isnan(), 0)


def _clean(keys: Tensor, count: Tensor | None) -> tuple[Tensor, Tensor]:
    """The keys with zeros in the rows that hold a nan, and which rows those are, (rows, 1)."""
    wrong = keys.isnan()
    if count is not None:
        wrong = wrong & (torch.arange(keys.shape[1], device=keys.device) < count[:, None])
    bad = wrong.any(1, keepdim=True)
    return keys.masked_fill(bad, 0), bad


def _hard_order(keys: Tensor, count: Tensor | None) -> Tensor:
    """Which item comes to which position in the stable sort; items from `count` on stay in place."""
    keys = keys.detach()
    if count is not None:
        keys = keys.masked_fill(torch.arange(keys.shape[1], device=keys.device) >= count[:, None], torch.inf)
    return keys.argsort(dim=1, stable=True)
