"""Vectors of numbers for compiled code, so that a kernel says once what it does, for one number or for many at once.

Left to the compiler, loops over the columns of a payload or over the rows of a group are at the mercy of alias checks.
With a type of our own the loads, multiply-adds and stores are exactly those meant, on any processor, and compile in no
time. How many lanes there are is the length of a tuple `lanes`; without lanes a vector is a plain number.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

_FUSE = ("contract",)
_SUM = ("reassoc", "contract")


class Vector(types.Type):  # type: ignore[misc]
    """`count` numbers of one type in a register, or in as many as it takes."""

    def __init__(self, dtype: Any, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Vector({dtype}, {count})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, vector: Vector) -> None:
        element = manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.VectorType(element, vector.count))


def _of(dtype: Any, like: Any) -> Any:
    """The type of as many numbers as `like` has: a Vector or a plain number; `like` may also be `lanes`."""
    count = getattr(like, "count", 0)
    return Vector(dtype, count) if count else dtype


class _Arithmetic(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(args[0], *args) if isinstance(args[0], Vector) and args[0] == args[1] else None


class _Comparison(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: Any, kws: Any) -> Any:
        both = isinstance(args[0], Vector) and args[0] == args[1]
        return signature(_of(types.boolean, args[0]), *args) if both else None


def _define(symbol: Any, template: Any, build: Callable[[Any, bool, Any, Any], Any]) -> None:
    """Give vectors an operator: `build(builder, whether the numbers are real, a, b)`."""
    infer_global(symbol)(template)

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        return build(builder, isinstance(sign.args[0].dtype, types.Float), *args)

    lower_builtin(symbol, Vector, Vector)(generate)


def _compare(symbol: str) -> Callable[[Any, bool, Any, Any], Any]:
    return lambda it, real, a, b: (it.fcmp_ordered if real else it.icmp_signed)(symbol, a, b)


_define(operator.add, _Arithmetic, lambda it, real, a, b: it.fadd(a, b, flags=_FUSE) if real else it.add(a, b))
_define(operator.sub, _Arithmetic, lambda it, real, a, b: it.fsub(a, b, flags=_FUSE) if real else it.sub(a, b))
_define(operator.mul, _Arithmetic, lambda it, real, a, b: it.fmul(a, b, flags=_FUSE) if real else it.mul(a, b))
_define(operator.truediv, _Arithmetic, lambda it, real, a, b: it.fdiv(a, b))
_define(operator.and_, _Arithmetic, lambda it, real, a, b: it.and_(a, b))
_define(operator.or_, _Arithmetic, lambda it, real, a, b: it.or_(a, b))
_define(operator.lt, _Comparison, _compare("<"))
_define(operator.le, _Comparison, _compare("<="))
_define(operator.eq, _Comparison, _compare("=="))


@intrinsic  # type: ignore[untyped-decorator]
def line(typing: Any, array: Any) -> Any:
    """As many lanes as numbers of this type fill a cache line."""
    lanes = types.UniTuple(types.intp, 512 // array.dtype.bitwidth)
    return lanes(array), lambda context, builder, sign, args: context.get_constant_null(lanes)


def place_of(context: Any, builder: Any, kind: Any, array: Any, offset: Any, vector: Any) -> Any:
    """Where the numbers from `offset` on of a contiguous array lie."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), context.get_value_type(vector).as_pointer())


def _spread(builder: Any, value: Any, kind: Any) -> Any:
    lane, none = ir.IntType(32), ir.Constant(kind, ir.Undefined)
    single = builder.insert_element(none, value, lane(0))
    return builder.shuffle_vector(single, none, ir.Constant(ir.VectorType(lane, kind.count), None))


def _builtin(builder: Any, name: str, answer: Any, args: Any, like: Any, flags: Any = ()) -> Any:
    """Call what LLVM knows by a name and a type."""
    lanes, element = (f"v{like.count}", like.element) if isinstance(like, ir.VectorType) else ("", like)
    pointer = ".p0" if name.startswith("masked") else ""
    kind = ir.FunctionType(answer, [argument.type for argument in args])
    full = f"llvm.{name}.{lanes}{element.intrinsic_name}{pointer}"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), args, fastmath=flags)


@intrinsic  # type: ignore[untyped-decorator]
def get(typing: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """The numbers from `offset` on of a contiguous array, known to be inside."""
    vector = _of(array.dtype, lanes)

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        place = place_of(context, builder, array, args[0], args[1], vector)
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return vector(array, types.intp, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def put(typing: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write the numbers from `offset` on; yes and no become 1 and 0."""
    vector = _of(array.dtype, value)

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        place, numbers = place_of(context, builder, array, args[0], args[1], vector), args[2]
        kind = context.get_value_type(vector)
        whole = numbers if numbers.type == kind else builder.zext(numbers, kind)
        builder.store(whole, place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, value), generate


def _first(builder: Any, size: Any, vector: Any) -> Any:
    """Yes in the lanes before `size`."""
    numbers = ir.VectorType(ir.IntType(64), vector.count)
    return builder.icmp_signed("<", ir.Constant(numbers, list(range(vector.count))), _spread(builder, size, numbers))


@intrinsic  # type: ignore[untyped-decorator]
def get_some(typing: Any, array: Any, offset: Any, size: Any, lanes: Any) -> Any:
    """As `get`, only the first `size` numbers; zeros in the other lanes, whose memory is not touched."""
    vector = _of(array.dtype, lanes)

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        place, kind = place_of(context, builder, array, args[0], args[1], vector), context.get_value_type(vector)
        settings = [ir.IntType(32)(array.dtype.bitwidth // 8), _first(builder, args[2], vector)]
        return _builtin(builder, "masked.load", kind, [place, *settings, ir.Constant(kind, None)], kind)

    return vector(array, types.intp, types.intp, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_some(typing: Any, array: Any, offset: Any, size: Any, vector: Any) -> Any:
    """As `put`, only the first `size` numbers."""

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        place = place_of(context, builder, array, args[0], args[1], vector)
        settings = [ir.IntType(32)(array.dtype.bitwidth // 8), _first(builder, args[2], vector)]
        _builtin(builder, "masked.store", ir.VoidType(), [args[3], place, *settings], args[3].type)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, vector), generate


@intrinsic  # type: ignore[untyped-decorator]
def at(typing: Any, array: Any, index: Any) -> Any:
    """`array[index]` of a contiguous array, for an index known to be inside."""

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        return builder.load(place_of(context, builder, array, args[0], args[1], array.dtype))

    return array.dtype(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def spread(typing: Any, value: Any, lanes: Any) -> Any:
    """The same number in every lane."""
    vector = _of(value, lanes)

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        return _spread(builder, args[0], context.get_value_type(vector)) if lanes.count else args[0]

    return vector(value, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def select(typing: Any, mask: Any, yes: Any, no: Any) -> Any:
    """Lane by lane `yes if mask else no`, without a branch."""
    return yes(mask, yes, yes), lambda context, builder, sign, args: builder.select(*args)


@intrinsic  # type: ignore[untyped-decorator]
def size(typing: Any, number: Any) -> Any:
    """The absolute value."""

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        return _builtin(builder, "fabs", args[0].type, args, args[0].type)

    return number(number), generate


@intrinsic  # type: ignore[untyped-decorator]
def like_sign(typing: Any, number: Any, other: Any) -> Any:
    """The absolute value of a number with the sign of another."""

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        return _builtin(builder, "copysign", args[0].type, args, args[0].type)

    return number(number, number), generate


@intrinsic  # type: ignore[untyped-decorator]
def signed(typing: Any, number: Any) -> Any:
    """Whether there is a minus sign, also before a 0."""
    bits = getattr(number, "dtype", number).bitwidth

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        kind = args[0].type
        whole = ir.VectorType(ir.IntType(bits), kind.count) if isinstance(kind, ir.VectorType) else ir.IntType(bits)
        return builder.icmp_signed("<", builder.bitcast(args[0], whole), ir.Constant(whole, None))

    return _of(types.boolean, number)(number), generate


@intrinsic  # type: ignore[untyped-decorator]
def total(typing: Any, vector: Any) -> Any:
    """The sum of all lanes."""

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        element = args[0].type.element
        both = [ir.Constant(element, -0.0), args[0]]
        return _builtin(builder, "vector.reduce.fadd", element, both, args[0].type, _SUM)

    return vector.dtype(vector), generate


@intrinsic  # type: ignore[untyped-decorator]
def ordered_bits(typing: Any, number: Any) -> Any:
    """An unsigned integer that sorts as the number does, −0 with 0."""

    def generate(context: Any, builder: Any, sign: Any, args: Any) -> Any:
        bitwidth = sign.args[0].bitwidth
        whole = ir.IntType(bitwidth)
        plain = builder.fadd(args[0], ir.Constant(args[0].type, 0.0))
        bits = builder.bitcast(plain, whole)
        flip = builder.or_(builder.ashr(bits, whole(bitwidth - 1)), whole(1 << (bitwidth - 1)))
        turned = builder.xor(bits, flip)
        return turned if bitwidth == 64 else builder.zext(turned, ir.IntType(64))

    return types.uint64(number), generate
