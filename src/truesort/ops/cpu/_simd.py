"""What a comparator does to a block of columns, as vector instructions.

A block is W neighbouring columns of the payload; wire w holds its W numbers at `state[w * W:]`. Written as LLVM vectors
the loads, multiply-adds and stores are exactly those meant, on any processor, and compile in no time, where a loop over
W columns is left to the mercy of alias checks. W is the length of the tuple `lanes`, so each W compiles by itself.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_FUSE = ("contract",)
_SUM = ("reassoc", "contract")


class _Block:
    """Loads and stores vectors of the arrays among an intrinsic's arguments."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Any) -> None:
        self.context, self.builder, self.signature, self.args = context, builder, signature, args
        element = context.get_data_type(signature.args[0].dtype)
        self.type = ir.VectorType(element, signature.args[-1].count)
        self.align = signature.args[0].dtype.bitwidth // 8

    def _pointer(self, array: int, offset: Any) -> Any:
        data = self.context.make_array(self.signature.args[array])(self.context, self.builder, self.args[array]).data
        return self.builder.bitcast(self.builder.gep(data, [offset]), self.type.as_pointer())

    def load(self, array: int, offset: Any) -> Any:
        return self.builder.load(self._pointer(array, offset), align=self.align)

    def store(self, value: Any, array: int, offset: Any) -> None:
        self.builder.store(value, self._pointer(array, offset), align=self.align)

    def repeat(self, value: Any) -> Any:
        """The scalar in every lane."""
        lane = ir.IntType(32)
        single = self.builder.insert_element(ir.Constant(self.type, ir.Undefined), value, lane(0))
        return self.builder.shuffle_vector(
            single, ir.Constant(self.type, ir.Undefined), ir.Constant(ir.VectorType(lane, self.type.count), None)
        )

    def blend(self, s: Any, a: Any, t: Any, b: Any) -> Any:
        """s·a + t·b."""
        return self.builder.fadd(
            self.builder.fmul(s, a, flags=_FUSE), self.builder.fmul(t, b, flags=_FUSE), flags=_FUSE
        )

    def dot(self, a: Any, b: Any) -> Any:
        name = f"llvm.vector.reduce.fadd.v{self.type.count}f{8 * self.align}"
        kind = ir.FunctionType(self.type.element, [self.type.element, self.type])
        add = cgutils.get_or_insert_function(self.builder.module, kind, name)
        start = ir.Constant(self.type.element, -0.0)
        return self.builder.call(add, [start, self.builder.fmul(a, b, flags=_FUSE)], fastmath=_SUM)

    def mix(self, array: int, i: Any, j: Any, s: Any, t: Any) -> tuple[Any, Any]:
        """Wires i and j share what they carry; returns what they carried."""
        stay, leave, a, b = self.repeat(s), self.repeat(t), self.load(array, i), self.load(array, j)
        self.store(self.blend(stay, a, leave, b), array, i)
        self.store(self.blend(leave, a, stay, b), array, j)
        return a, b


def _offsets(count: int) -> list[Any]:
    return [types.intp] * count


@intrinsic  # type: ignore[untyped-decorator]
def mix(typing: Any, state: Any, i: Any, j: Any, s: Any, t: Any, lanes: Any) -> Any:
    """State at i becomes s·a + t·b, at j t·a + s·b, where a and b were there."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _Block(context, builder, signature, args).mix(0, *args[1:5])
        return context.get_dummy_value()

    return types.void(state, *_offsets(2), state.dtype, state.dtype, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def mix_and_keep(typing: Any, state: Any, kept: Any, i: Any, j: Any, k: Any, s: Any, t: Any, lanes: Any) -> Any:
    """As `mix`, and keep a − b at `kept[k:]`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _Block(context, builder, signature, args)
        i, j, k, s, t = args[2:7]
        a, b = block.mix(0, i, j, s, t)
        block.store(builder.fsub(a, b), 1, k)
        return context.get_dummy_value()

    return types.void(state, kept, *_offsets(3), state.dtype, state.dtype, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def unmix(typing: Any, grad: Any, kept: Any, i: Any, j: Any, k: Any, s: Any, t: Any, lanes: Any) -> Any:
    """Carry the gradient of a comparator's outputs to its inputs; returns Σ (grad_i − grad_j)·kept, that of σ."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _Block(context, builder, signature, args)
        i, j, k, s, t = args[2:7]
        a, b = block.mix(0, i, j, s, t)
        return block.dot(builder.fsub(a, b), block.load(1, k))

    return grad.dtype(grad, kept, *_offsets(3), grad.dtype, grad.dtype, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def unmix_hard(typing: Any, grad: Any, payload: Any, i: Any, j: Any, p: Any, q: Any, s: Any, t: Any, lanes: Any) -> Any:
    """As `unmix`, where the wires carried whole rows p and q of the payload."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _Block(context, builder, signature, args)
        i, j, p, q, s, t = args[2:8]
        a, b = block.mix(0, i, j, s, t)
        return block.dot(builder.fsub(a, b), builder.fsub(block.load(1, p), block.load(1, q)))

    return grad.dtype(grad, payload, *_offsets(4), grad.dtype, grad.dtype, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def exchange(typing: Any, state: Any, i: Any, j: Any, lanes: Any) -> Any:
    """The wires swap what they carry, bit by bit."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _Block(context, builder, signature, args)
        a, b = block.load(0, args[1]), block.load(0, args[2])
        block.store(b, 0, args[1])
        block.store(a, 0, args[2])
        return context.get_dummy_value()

    return types.void(state, *_offsets(2), lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def at(typing: Any, array: Any, index: Any) -> Any:
    """`array[index]` of a contiguous array, for an index known to be inside."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]))

    return array.dtype(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def ordered_bits(typing: Any, number: Any) -> Any:
    """An unsigned integer that sorts as the number does, −0 with 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        size = signature.args[0].bitwidth
        whole = ir.IntType(size)
        plain = builder.fadd(args[0], ir.Constant(args[0].type, 0.0))
        bits = builder.bitcast(plain, whole)
        flip = builder.or_(builder.ashr(bits, whole(size - 1)), whole(1 << (size - 1)))
        turned = builder.xor(bits, flip)
        return turned if size == 64 else builder.zext(turned, ir.IntType(64))

    return types.uint64(number), generate
