"""Arithmetic on Arrow arrays under TRY rules: an overflow or a division by zero gives NULL, never an error or a wrap.

Whole numbers use Arrow's checked kernels. Only if a batch overflows, a second pass finds the rows. DECIMAL has at most
18 digits, so its units fit int64. Every kernel is a vectorised pass, except that `round_double` looks at single
distinct values that are near a decimal tie.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.arrays import INT64_MAX, INT64_MIN
from panewise.plan.expressions.vectors import Operand, Vector, array_of, numbers

Kernel = Callable[[list[Operand], pa.DataType], pa.Array]

_CHECKED = {"add": pc.add_checked, "sub": pc.subtract_checked, "mul": pc.multiply_checked}
_UNCHECKED = {"add": pc.add, "sub": pc.subtract, "mul": pc.multiply}


def _arithmetic(name: str) -> Kernel:
    def kernel(operands: list[Operand], type: pa.DataType) -> pa.Array:
        left, right = operands
        if pa.types.is_floating(type):
            return _UNCHECKED[name](left, right)
        if pa.types.is_decimal(type):
            return fitted_decimal(_UNCHECKED[name](left, right), type)
        try:
            return _CHECKED[name](left, right)
        except pa.ArrowInvalid:
            return _overflow_to_null(name, operands, type)

    return kernel


def _overflow_to_null(name: str, operands: list[Operand], type: pa.DataType) -> pa.Array:
    left, right = (np.asarray(numbers(operand)).astype(np.int64) for operand in operands)
    with np.errstate(all="ignore"):
        if name == "add":
            result = left + right
            overflow = ((left ^ result) & (right ^ result)) < 0
        elif name == "sub":
            result = left - right
            overflow = ((left ^ right) & (left ^ result)) < 0
        else:
            result = left * right
            divisor = np.where(right == 0, 1, right)
            overflow = ((right != 0) & (result // divisor != left)) | ((left == INT64_MIN) & (right == -1))
        if pa.types.is_int32(type):
            overflow |= result != result.astype(np.int32)
    return array_of(result, type, operands, overflow)


def fitted_decimal(array: pa.Array, type: pa.DataType) -> pa.Array:
    """A DECIMAL array of the same or a smaller scale converted to `type`, with NULL for values with too many digits."""
    if array.type == type:
        return array
    try:
        return array.cast(type)
    except pa.ArrowInvalid:
        whole_digits = type.precision - type.scale
        bound = pa.scalar(Decimal(10) ** whole_digits).cast(pa.decimal128(38, array.type.scale))
        fits = pc.less(pc.abs(array).cast(pa.decimal128(38, array.type.scale)), bound)
        return pc.if_else(fits, array, pa.scalar(None, array.type)).cast(type)


def _divide(operands: list[Operand], type: pa.DataType) -> pa.Array:
    left, right = operands
    if isinstance(right, pa.Scalar):
        if right.as_py() == 0:
            return pa.nulls(len(left), type)
        return pc.divide(left, right)
    return pc.if_else(pc.equal(right, 0), pa.scalar(None, type), pc.divide(left, right))


def _modulo(operands: list[Operand], type: pa.DataType) -> pa.Array:
    """The remainder with the sign of the dividend."""
    left, right = (np.asarray(numbers(operand)) for operand in operands)
    if pa.types.is_decimal(type):
        # The typing rules allow only operands that fit in 18 digits at the larger scale.
        left = left * 10 ** (type.scale - operands[0].type.scale)
        right = right * 10 ** (type.scale - operands[1].type.scale)
    zero = right == 0
    with np.errstate(all="ignore"):
        result = np.fmod(left, np.where(zero, right.dtype.type(1), right))
    return array_of(result, type, operands, _spread(zero, result))


def _integer_divide(operands: list[Operand], type: pa.DataType) -> pa.Array:
    """The quotient cut towards zero."""
    left, right = (np.asarray(numbers(operand)) for operand in operands)
    bad = (right == 0) | ((left == INT64_MIN) & (right == -1))
    divisor = np.where(bad, 1, right)
    quotient = left // divisor
    quotient += (left - quotient * divisor != 0) & ((left < 0) != (divisor < 0))
    return array_of(quotient, type, operands, _spread(bad, quotient))


def _spread(mask: Vector, like: Vector) -> Vector:
    return np.broadcast_to(mask, like.shape)


def _negate(operands: list[Operand], type: pa.DataType) -> pa.Array:
    if pa.types.is_integer(type):
        lowest = np.iinfo(type.to_pandas_dtype()).min
        values = numbers(operands[0])
        with np.errstate(all="ignore"):
            return array_of(-values, type, operands, values == lowest)
    return pc.negate(operands[0])


def _absolute(operands: list[Operand], type: pa.DataType) -> pa.Array:
    if pa.types.is_integer(type):
        lowest = np.iinfo(type.to_pandas_dtype()).min
        values = numbers(operands[0])
        return array_of(np.abs(values), type, operands, values == lowest)
    return pc.abs(operands[0])


def _whole(direction: str) -> Kernel:
    """floor or ceil to BIGINT, or to a DECIMAL without fraction digits."""

    def kernel(operands: list[Operand], type: pa.DataType) -> pa.Array:
        values = numbers(operands[0])
        if pa.types.is_decimal(type):
            unit = 10 ** operands[0].type.scale
            rounded = values // unit if direction == "floor" else -(-values // unit)
            return fitted_units(rounded, type, operands)
        with np.errstate(all="ignore"):
            rounded = np.floor(values) if direction == "floor" else np.ceil(values)
            outside = ~((rounded >= -(2.0**63)) & (rounded < 2.0**63))
            return array_of(np.where(outside, 0, rounded).astype(np.int64), type, operands, outside)

    return kernel


def fitted_units(units: Vector, type: pa.DataType, operands: list[Operand]) -> pa.Array:
    """A DECIMAL array of these units, with NULL for values with more digits than the type."""
    return array_of(units, type, operands, np.abs(units) >= 10**type.precision)


def _round(operands: list[Operand], type: pa.DataType) -> pa.Array:
    """Rounds half away from zero."""
    subject, digits = operands[0], int(operands[1].as_py())
    if pa.types.is_floating(type):
        return array_of(round_double(numbers(subject), digits), type, [subject])
    scale = type.scale if pa.types.is_decimal(type) else 0
    dropped = (subject.type.scale if pa.types.is_decimal(type) else 0) - digits
    if dropped <= 0:
        return subject if subject.type == type else subject.cast(type)
    if dropped > 19:
        return array_of(np.zeros(len(subject), dtype=np.int64), type, [subject])
    # Magnitudes are unsigned, because that of the least int64 does not fit int64.
    values = numbers(subject).astype(np.int64)
    magnitudes = np.where(values == INT64_MIN, np.uint64(2**63), np.abs(values).astype(np.uint64))
    unit = np.uint64(10**dropped)
    quotients = magnitudes // unit
    quotients += (magnitudes - quotients * unit >= (unit + np.uint64(1)) // np.uint64(2)).astype(np.uint64)
    rescale = 10 ** max(0, scale - digits)
    limit = _limit(type)
    too_large = quotients > np.uint64(limit // rescale)
    result = np.where(too_large, np.uint64(0), quotients).astype(np.int64) * rescale
    return array_of(np.where(values < 0, -result, result), type, [subject], too_large)


def _limit(type: pa.DataType) -> int:
    if pa.types.is_decimal(type):
        return int(10**type.precision - 1)
    return INT64_MAX if pa.types.is_int64(type) else 2**31 - 1


def round_double(values: Vector, digits: int) -> Vector:
    """Rounds the shortest decimal text of each double, as Java's BigDecimal does: 2.675 to two digits is 2.68.

    Values that are clearly on one side of a tie are scaled and rounded in binary. Values near a tie, and those too
    large to scale exactly, are rounded in decimal.
    """
    power = 10.0 ** abs(digits)
    with np.errstate(all="ignore"):
        scaled = values * power if digits >= 0 else values / power
        magnitude = np.abs(scaled)
        nearest = np.floor(magnitude + 0.5)
        # Round half away from zero. Adding 0.0 turns a negative zero into a positive one.
        signed = np.where(values < 0, -nearest, nearest) + 0.0
        result = signed / power if digits >= 0 else signed * power
        unclear = (np.abs(magnitude - np.floor(magnitude) - 0.5) < 1e-6 + magnitude * 1e-15) | (magnitude > 2.0**49)
        special = ~np.isfinite(values)
    if abs(digits) > 22:
        unclear = ~special
    result = np.where(special, values, result)
    unclear &= ~special
    if unclear.any():
        distinct, inverse = np.unique(values[unclear], return_inverse=True)
        result[unclear] = np.array([_round_decimal(value, digits) for value in distinct.tolist()])[inverse]
    return result


def _round_decimal(value: float, digits: int) -> float:
    with localcontext() as context:
        context.prec = 700
        rounded = float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return rounded + 0.0


def _of_doubles(function: Callable[..., Any], outside: Callable[..., Any] | None = None) -> Kernel:
    """A kernel from a NumPy function of doubles. `outside` says for which arguments the result is NULL."""

    def kernel(operands: list[Operand], type: pa.DataType) -> pa.Array:
        values = [numbers(operand) for operand in operands]
        with np.errstate(all="ignore"):
            result = function(*values)
            null = None if outside is None else outside(*values)
        return array_of(result, type, operands, null)

    return kernel


def _power(base: Vector, exponent: Vector) -> Vector:
    result = np.power(base, exponent)
    # In C, 1 to any power is 1. In Java it is NaN if the exponent is NaN or infinite.
    return np.where((np.abs(base) == 1) & ~np.isfinite(exponent), np.nan, result)


def _sign(values: Vector) -> Vector:
    return np.where(values == 0, values, np.sign(values))


def _not_positive(values: Vector) -> Vector:
    return values <= 0


def _atan2(ordinate: Vector, abscissa: Vector) -> Vector:
    # Adding zero turns a negative zero into a positive one, as Spark does.
    return np.arctan2(ordinate + 0.0, abscissa + 0.0)


def _bitwise_not(operands: list[Operand], type: pa.DataType) -> pa.Array:
    return pc.bit_wise_not(operands[0])


def _bitwise(function: Callable[..., pa.Array]) -> Kernel:
    return lambda operands, _: function(*operands)


ARITHMETIC_KERNELS: dict[str, Kernel] = {
    "add": _arithmetic("add"),
    "sub": _arithmetic("sub"),
    "mul": _arithmetic("mul"),
    "div": _divide,
    "mod": _modulo,
    "integer_divide": _integer_divide,
    "neg": _negate,
    "abs": _absolute,
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "round": _round,
    "bitwise_and": _bitwise(pc.bit_wise_and),
    "bitwise_or": _bitwise(pc.bit_wise_or),
    "bitwise_xor": _bitwise(pc.bit_wise_xor),
    "bitwise_not": _bitwise_not,
    "sqrt": _of_doubles(np.sqrt),
    "exp": _of_doubles(np.exp),
    "ln": _of_doubles(np.log, _not_positive),
    "log10": _of_doubles(np.log10, _not_positive),
    "log2": _of_doubles(np.log2, _not_positive),
    "power": _of_doubles(_power),
    "sign": _of_doubles(_sign),
    "sin": _of_doubles(np.sin),
    "cos": _of_doubles(np.cos),
    "tan": _of_doubles(np.tan),
    "asin": _of_doubles(np.arcsin),
    "acos": _of_doubles(np.arccos),
    "atan": _of_doubles(np.arctan),
    "atan2": _of_doubles(_atan2),
    "degrees": _of_doubles(np.degrees),
    "radians": _of_doubles(np.radians),
}
