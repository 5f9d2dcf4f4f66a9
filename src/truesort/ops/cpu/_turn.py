"""Between the two ways a group of rows lies in memory: a row in each lane, or the numbers of each row side by side.

A group of rows passes the network with one row in each lane, while blocks of payload columns need what the network does
to one row. Between the two lies a transposition, done in registers by squares.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ._jit import jit
from ._simd import Vector, line, place_of


def _turned(builder: Any, vectors: list[Any]) -> list[Any]:
    """The columns of a square matrix given by its rows: at each step quarters of squares trade places."""
    count, half = len(vectors), 1
    lanes = ir.VectorType(ir.IntType(32), count)
    while half < count:
        low = ir.Constant(lanes, [lane if not lane & half else lane - half + count for lane in range(count)])
        high = ir.Constant(lanes, [lane + half if not lane & half else lane + count for lane in range(count)])
        for first in range(count):
            if not first & half:
                a, b = vectors[first], vectors[first + half]
                vectors[first] = builder.shuffle_vector(a, b, low)
                vectors[first + half] = builder.shuffle_vector(a, b, high)
        half *= 2
    return vectors


@intrinsic  # type: ignore[untyped-decorator]
def turn_square(
    typing: Any, source: Any, begin: Any, step: Any, target: Any, place: Any, stride: Any, lanes: Any
) -> Any:
    """A square whose rows begin `step` apart becomes one whose rows, the former columns, begin `stride` apart."""
    vector, align = Vector(source.dtype, lanes.count), source.dtype.bitwidth // 8

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        def spot(array: int, row: int) -> Any:
            offset = builder.add(args[array + 1], builder.mul(args[array + 2], ir.IntType(64)(row)))
            return place_of(context, builder, sign.args[array], args[array], offset, vector)

        rows = [builder.load(spot(0, row), align=align) for row in range(lanes.count)]
        for row, column in enumerate(_turned(builder, rows)):
            builder.store(column, spot(3, row), align=align)
        return context.get_dummy_value()

    offsets = [types.intp] * 2
    return types.void(source, *offsets, target, *offsets, lanes), generate


@jit
def to_rows(like: Any, lines: Any, rows: Any) -> None:
    """Of (comparators, rows) to (rows, comparators); both have room for whole squares, those of `like`'s lines."""
    size, group = lines.shape
    if group == len(line(like)):
        for c in range(0, size, group):
            turn_square(lines, c * group, group, rows, c, rows.shape[1], line(like))
    else:
        for c in range(size):
            for r in range(group):
                rows[r, c] = lines[c, r]


@jit
def to_lines(like: Any, rows: Any, lines: Any) -> None:
    """The way back."""
    size, group = lines.shape
    if group == len(line(like)):
        for c in range(0, size, group):
            turn_square(rows, c, rows.shape[1], lines, c * group, group, line(like))
    else:
        for c in range(size):
            for r in range(group):
                lines[c, r] = rows[r, c]
