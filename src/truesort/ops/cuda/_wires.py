"""Triton kernels for any network of any size: the wires live in device memory and the layers pass over them.

One program serves a row (or a block of columns of a row) through all layers, with a barrier between two layers; of
rows too large for that, many programs take a share each and wait for each other after every layer. Soft states that the
backward pass needs are computed again from a checkpoint every few layers; hard ones are run backwards from one bit a
comparator. The register kernels of _odd_even.py are the fast lane beside this road.
"""

import triton
import triton.language as tl

from ._curves import gap_of, mix, slope, weights
from ._launch import Kernel


@triton.jit
def _comparators(at, end, low, high, since, count, row, TILE: tl.constexpr, COUNTED: tl.constexpr):
    """The comparators from `at`: their numbers, which are inside the layer, which work in this row, their wires."""
    number = at + tl.arange(0, TILE)
    inside = number < end
    i, j = tl.load(low + number, inside, 0), tl.load(high + number, inside, 0)
    live = inside
    if COUNTED:
        live = live & (tl.load(since + number, inside, 0) <= tl.load(count + row))
    return number, inside, live, i, j


@triton.jit
def _finish_layer(arrived, layers, FAR: tl.constexpr):
    """Wait for what works on the same row: the threads of this program or, FAR, all programs of the row.

    `arrived` counts the programs that have come to the end of a layer, `layers` of which are now done.
    """
    tl.debug_barrier()
    if FAR:
        here = tl.atomic_add(arrived, 1) + 1
        while here < layers * tl.num_programs(1):
            here = tl.atomic_add(arrived, 0)
        tl.debug_barrier()


@Kernel
def trace_soft(
    wires, gaps, low, high, since, start, count, arrived, n, size, depth, steep, rest,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, TILE: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """Send the wires (rows, n) through all layers, in place; the gaps (rows, size) are what they met."""
    row, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    arrived += row
    wires += row * n
    gaps += row * size
    dtype = wires.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    for layer in range(depth):
        end = tl.load(start + layer + 1)
        for at in range(tl.load(start + layer) + part * TILE, end, parts * TILE):
            number, inside, live, i, j = _comparators(at, end, low, high, since, count, row, TILE, COUNTED)
            a, b = tl.load(wires + i, live, 0.0), tl.load(wires + j, live, 0.0)
            gap = gap_of(a, b)
            stay, leave = weights(gap, live, steepness, ART, SWAP)
            tl.store(gaps + number, gap, inside)
            tl.store(wires + i, mix(a, b, stay, leave), live)
            tl.store(wires + j, mix(b, a, stay, leave), live)
        _finish_layer(arrived, layer + 1, FAR)


@Kernel
def trace_hard(
    items, places, swapped, low, high, since, start, count, arrived, n, size, depth,
    COUNTED: tl.constexpr, TILE: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """Sort the items (rows, n) on the wires by their final places, in place; `swapped` (rows, size) says who moved."""
    row, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    arrived += row
    items += row * n
    places += row * n
    swapped += row * size
    for layer in range(depth):
        end = tl.load(start + layer + 1)
        for at in range(tl.load(start + layer) + part * TILE, end, parts * TILE):
            number, inside, live, i, j = _comparators(at, end, low, high, since, count, row, TILE, COUNTED)
            p, q = tl.load(items + i, live, 0), tl.load(items + j, live, 0)
            swap = live & (tl.load(places + p, live, 0) > tl.load(places + q, live, 0))
            tl.store(swapped + number, swap.to(tl.int8), inside)
            tl.store(items + i, q, swap)
            tl.store(items + j, p, swap)
        _finish_layer(arrived, layer + 1, FAR)


@triton.jit
def _undo(items, swapped, number, live, i, j):
    """Run hard comparators backwards: the items p, q on wires i, j before them, and whether they changed places."""
    left, right = tl.load(items + i, live, 0), tl.load(items + j, live, 0)
    swap = tl.load(swapped + number, live, 0) != 0
    tl.store(items + i, right, swap & live)
    tl.store(items + j, left, swap & live)
    return tl.where(swap, right, left), tl.where(swap, left, right), swap


@Kernel
def mix_layers(
    flow, gaps, low, high, since, start, count, n, size, columns, depth, steep, rest, REVERSED: tl.constexpr,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Carry what rides on the wires, (rows, n, columns), through the soft layers in place, forwards or backwards."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDE + tl.arange(0, WIDE)[None, :]
    flow += row * n * columns + column
    gaps += row * size
    dtype = flow.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    for step in range(depth):
        layer = depth - 1 - step if REVERSED else step
        end = tl.load(start + layer + 1)
        for at in range(tl.load(start + layer), end, TILE):
            number, inside, live, i, j = _comparators(at, end, low, high, since, count, row, TILE, COUNTED)
            stay, leave = weights(tl.load(gaps + number, inside, 0.0), live, steepness, ART, SWAP)
            _exchange(flow, i, j, live, stay, leave, column, columns)
        tl.debug_barrier()


@triton.jit
def _exchange(flow, i, j, live, stay, leave, column, columns):
    """Mix what wires i and j carry; returns how it differed before."""
    there = live[:, None] & (column < columns)
    stay, leave = stay[:, None], leave[:, None]
    onto_i, onto_j = flow + i.to(tl.int64)[:, None] * columns, flow + j.to(tl.int64)[:, None] * columns
    a, b = tl.load(onto_i, there, 0.0), tl.load(onto_j, there, 0.0)
    tl.store(onto_i, mix(a, b, stay, leave), there)
    tl.store(onto_j, mix(b, a, stay, leave), there)
    return a - b


@triton.jit
def _copy(target, source, length, columns, column, WIDE: tl.constexpr, TILE: tl.constexpr):
    """Copy `length` wires between (wires, WIDE) scratch blocks."""
    for at in range(0, length, TILE):
        wire = at + tl.arange(0, TILE)[:, None]
        there = (wire < length) & (column < columns)
        tl.store(target + wire * WIDE + column, tl.load(source + wire * WIDE + column, there, 0.0), there)


@Kernel
def shares_soft(
    flow, payload, gaps, shares, scratch, low, high, since, start, count, n, size, columns, depth, rows, blocks,
    stretch, room, widest, steep, rest, stride_row, stride_wire, stride_column,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Carry the gradient `flow` (rows, n, columns) back in place; shares (rows, blocks, size) are the dL/dσ it left.

    The payload goes forward once, leaving a checkpoint in the scratch every `stretch` layers, and once more through
    each stretch on the way back, leaving the differences of every comparator.
    """
    dtype = flow.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    state = scratch + tl.program_id(0).to(tl.int64) * room * WIDE
    marks = state + n * WIDE
    stretches = tl.cdiv(depth, stretch)
    differences = marks + stretches.to(tl.int64) * n * WIDE
    own = tl.arange(0, WIDE)[None, :]
    for task in range(tl.program_id(0), rows * blocks, tl.num_programs(0)):
        row, block = (task // blocks).to(tl.int64), task % blocks
        here = columns - block * WIDE
        column = block * WIDE + own
        for at in range(0, n, TILE):
            wire = at + tl.arange(0, TILE)[:, None]
            there = (wire < n) & (own < here)
            given = tl.load(payload + row * stride_row + wire * stride_wire + column * stride_column, there, 0.0)
            tl.store(state + wire * WIDE + own, given, there)
        tl.debug_barrier()
        for layer in range(depth):
            if layer % stretch == 0:
                _copy(marks + (layer // stretch).to(tl.int64) * n * WIDE, state, n, here, own, WIDE, TILE)
                tl.debug_barrier()
            end = tl.load(start + layer + 1)
            for at in range(tl.load(start + layer), end, TILE):
                number, inside, live, i, j = _comparators(at, end, low, high, since, count, row, TILE, COUNTED)
                stay, leave = weights(tl.load(gaps + row * size + number, inside, 0.0), live, steepness, ART, SWAP)
                _exchange_block(state, i, j, live, stay, leave, own, here, WIDE)
            tl.debug_barrier()
        for back in range(stretches):
            from_layer = (stretches - 1 - back) * stretch
            until = tl.minimum(from_layer + stretch, depth)
            base = tl.load(start + from_layer)
            _copy(state, marks + (from_layer // stretch).to(tl.int64) * n * WIDE, n, here, own, WIDE, TILE)
            tl.debug_barrier()
            for layer in range(from_layer, until):
                end = tl.load(start + layer + 1)
                for at in range(tl.load(start + layer), end, TILE):
                    number, inside, live, i, j = _comparators(at, end, low, high, since, count, row, TILE, COUNTED)
                    gap = tl.load(gaps + row * size + number, inside, 0.0)
                    stay, leave = weights(gap, live, steepness, ART, SWAP)
                    difference = _exchange_block(state, i, j, live, stay, leave, own, here, WIDE)
                    kept = differences + (number - base)[:, None] * WIDE + own
                    tl.store(kept, difference, inside[:, None] & (own < here))
                tl.debug_barrier()
            for step in range(until - from_layer):
                layer = until - 1 - step
                end = tl.load(start + layer + 1)
                for at in range(tl.load(start + layer), end, TILE):
                    number, inside, live, i, j = _comparators(at, end, low, high, since, count, row, TILE, COUNTED)
                    gap = tl.load(gaps + row * size + number, inside, 0.0)
                    stay, leave = weights(gap, live, steepness, ART, SWAP)
                    there = live[:, None] & (own < here)
                    met = tl.load(differences + (number - base)[:, None] * WIDE + own, there, 0.0)
                    change = _exchange(flow + row * n * columns + column, i, j, live, stay, leave, column, columns)
                    share = tl.sum(tl.where(there, change * met, 0.0), 1)
                    tl.store(shares + (row * blocks + block) * size + number, share, inside)
                tl.debug_barrier()


@triton.jit
def _exchange_block(state, i, j, live, stay, leave, own, here, WIDE: tl.constexpr):
    there = live[:, None] & (own < here)
    onto_i, onto_j = state + i[:, None] * WIDE + own, state + j[:, None] * WIDE + own
    a, b = tl.load(onto_i, there, 0.0), tl.load(onto_j, there, 0.0)
    tl.store(onto_i, mix(a, b, stay[:, None], leave[:, None]), there)
    tl.store(onto_j, mix(b, a, stay[:, None], leave[:, None]), there)
    return a - b


@triton.jit
def _finite(x):
    return tl.where(tl.abs(x) < float("inf"), x, 0.0)


@Kernel
def shares_hard(
    flow, payload, keys, items, swapped, shares, low, high, since, start, count, n, size, columns, depth, blocks,
    steep, rest, stride_row, stride_item, stride_column,
    SWAP: tl.constexpr, ART: tl.constexpr, COUNTED: tl.constexpr, TILE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """As shares_soft where the payload moved hard: what met in a comparator are two of the rows it came with."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = block * WIDE + tl.arange(0, WIDE)[None, :]
    dtype = flow.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    flow += row * n * columns + column
    payload += row * stride_row + column * stride_column
    items += (row * blocks + block) * n
    for step in range(depth):
        layer = depth - 1 - step
        end = tl.load(start + layer + 1)
        for at in range(tl.load(start + layer), end, TILE):
            number, inside, live, i, j = _comparators(at, end, low, high, since, count, row, TILE, COUNTED)
            p, q, _swap = _undo(items, swapped + row * size, number, live, i, j)
            a, b = tl.load(keys + row * n + p, live, 0.0), tl.load(keys + row * n + q, live, 0.0)
            stay, leave = weights(gap_of(a, b), live, steepness, ART, SWAP)
            there = live[:, None] & (column < columns)
            met = _finite(tl.load(payload + p.to(tl.int64)[:, None] * stride_item, there, 0.0))
            met -= _finite(tl.load(payload + q.to(tl.int64)[:, None] * stride_item, there, 0.0))
            change = _exchange(flow, i, j, live, stay, leave, column, columns)
            share = tl.sum(tl.where(there, change * met, 0.0), 1)
            tl.store(shares + (row * blocks + block) * size + number, share, inside)
        tl.debug_barrier()


@triton.jit
def _met_in_place(grad, payload, p, q, at_i, at_j, columns, live, grad_wire, grad_column, item, column_stride):
    """Σ over columns of (grad[at_i] − grad[at_j])·(payload[p] − payload[q])."""
    total = tl.load(payload + p * item, live, 0.0) * 0.0
    for column in range(columns):
        above = tl.load(grad + at_i * grad_wire + column * grad_column, live, 0.0)
        above -= tl.load(grad + at_j * grad_wire + column * grad_column, live, 0.0)
        below = _finite(tl.load(payload + p * item + column * column_stride, live, 0.0))
        below -= _finite(tl.load(payload + q * item + column * column_stride, live, 0.0))
        total += above * below
    return total


@Kernel
def values_back(
    flow, shares, gaps, keys, items, swapped, places, grad, payload,
    low, high, since, start, count, arrived, n, size, columns, blocks, outputs, depth, steep, rest,
    grad_row, grad_wire, grad_column, payload_row, payload_item, payload_column,
    SHARES: tl.constexpr, HARD: tl.constexpr, MATRIX: tl.constexpr, SWAP: tl.constexpr, ART: tl.constexpr,
    COUNTED: tl.constexpr, TILE: tl.constexpr, FAR: tl.constexpr,
):  # fmt: skip
    """Carry the gradient of the keys, `flow` (rows, n), back through all layers, in place.

    SHARES says where a comparator's dL/dσ from above the keys comes from: "none"; "blocks", the array `shares`; "items"
    and "entries", gathered where hard permutations meet: from a gradient and a payload, or from P's gradient `payload`.
    """
    row, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    dtype = flow.dtype.element_ty
    steepness = tl.full((), steep, dtype) + tl.full((), rest, dtype)
    arrived += row
    flow += row * n
    payload += row * payload_row
    for step in range(depth):
        layer = depth - 1 - step
        end = tl.load(start + layer + 1)
        for at in range(tl.load(start + layer) + part * TILE, end, parts * TILE):
            number, inside, live, i, j = _comparators(at, end, low, high, since, count, row, TILE, COUNTED)
            swap = inside & False
            p, q = i, j
            if HARD:
                p, q, swap = _undo(items + row * n, swapped + row * size, number, live, i, j)
                a, b = tl.load(keys + row * n + p, live, 0.0), tl.load(keys + row * n + q, live, 0.0)
                gap = gap_of(a, b)
            else:
                gap = tl.load(gaps + row * size + number, live, 0.0)
            stay, leave = weights(gap, live, steepness, ART, SWAP)
            above, beside = tl.load(flow + i, live, 0.0), tl.load(flow + j, live, 0.0)
            steep_here = slope(gap, steepness, ART, SWAP)
            share = tl.where(gap == 0, 0.0, (above - beside) * -gap)
            if SHARES == "blocks":
                for block in range(blocks):
                    share += tl.load(shares + (row * blocks + block) * size + number, live, 0.0)
            elif SHARES != "none":
                here, there = tl.where(swap, q, p).to(tl.int64), tl.where(swap, p, q).to(tl.int64)
                at_i = tl.load(places + row * n + here, live, 0).to(tl.int64)
                at_j = tl.load(places + row * n + there, live, 0).to(tl.int64)
                first_item, second = p.to(tl.int64), q.to(tl.int64)
                if SHARES == "items":
                    share += _met_in_place(
                        grad + row * grad_row, payload, first_item, second, at_i, at_j, columns, live,
                        grad_wire, grad_column, payload_item, payload_column,
                    )  # fmt: skip
                else:
                    seen_i, seen_j = live & (at_i < outputs), live & (at_j < outputs)
                    share += tl.load(payload + first_item * payload_item + at_i * payload_column, seen_i, 0.0)
                    share -= tl.load(payload + second * payload_item + at_i * payload_column, seen_i, 0.0)
                    share -= tl.load(payload + first_item * payload_item + at_j * payload_column, seen_j, 0.0)
                    share += tl.load(payload + second * payload_item + at_j * payload_column, seen_j, 0.0)
            turn = tl.where(steep_here == 0, 0.0, steep_here * share)
            if MATRIX:
                stay, leave = tl.where(swap, 0.0, 1.0), tl.where(swap, 1.0, 0.0)
            tl.store(flow + i, mix(above, beside, stay, leave) - turn, live)
            tl.store(flow + j, mix(beside, above, stay, leave) + turn, live)
        _finish_layer(arrived, step + 1, FAR)
