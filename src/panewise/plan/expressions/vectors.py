"""Converts between Arrow arrays and NumPy vectors, without copying if the data allows it.

An operand of a kernel is an Arrow array, or an Arrow scalar if it is constant. Scalars are never NULL, and at least one
operand is an array. `numbers` gives an operand's values as a NumPy vector, in which NULLs have arbitrary values.
`array_of` turns a vector back into an Arrow array with the NULLs of its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Operand = Any  # pa.Array | pa.Scalar; pyarrow ships no types
Vector = Any  # np.ndarray, or a NumPy scalar for a constant


def storage(type: pa.DataType) -> np.dtype[Any]:
    """The NumPy type of the buffer of a fixed-width Arrow type."""
    if pa.types.is_int32(type) or pa.types.is_date32(type):
        return np.dtype(np.int32)
    if pa.types.is_float64(type):
        return np.dtype(np.float64)
    if pa.types.is_float32(type):
        return np.dtype(np.float32)
    return np.dtype(np.int64)


def numbers(operand: Operand) -> Vector:
    """The values of a numeric, DATE or TIMESTAMP operand; a DECIMAL of up to 18 digits as whole int64 units."""
    type = operand.type
    if isinstance(operand, pa.Scalar):
        if pa.types.is_decimal(type):
            return np.int64(int(operand.as_py().scaleb(type.scale)))
        value = operand.value if pa.types.is_timestamp(type) or pa.types.is_date(type) else operand.as_py()
        return storage(type).type(value)
    if pa.types.is_decimal(type):
        # The low half of each little-endian 128-bit integer. Below 19 digits the high half has only the sign.
        halves = np.frombuffer(operand.buffers()[1], dtype=np.int64)
        return halves[2 * operand.offset : 2 * (operand.offset + len(operand)) : 2]
    if len(operand) == 0:
        return np.empty(0, dtype=storage(type))
    flat = np.frombuffer(operand.buffers()[1], dtype=storage(type))
    return flat[operand.offset : operand.offset + len(operand)]


def array_of(values: Vector, type: pa.DataType, operands: list[Operand], null: Vector | None = None) -> pa.Array:
    """The vector as an Arrow array of that type, with NULL where an operand is NULL or the mask `null` is true."""
    if pa.types.is_decimal(type):
        halves = np.empty((len(values), 2), dtype=np.int64)
        halves[:, 0] = values
        halves[:, 1] = values >> 63
        result = pa.Array.from_buffers(type, len(values), [None, pa.py_buffer(halves)])
    elif pa.types.is_boolean(type):
        result = pa.array(values)
    else:
        vector = np.ascontiguousarray(values, dtype=storage(type))
        result = pa.Array.from_buffers(type, len(vector), [None, pa.py_buffer(vector)])
    for operand in operands:
        if isinstance(operand, pa.Array) and operand.null_count:
            result = pc.if_else(operand.is_valid(), result, pa.scalar(None, type))
    if null is not None and null.any():
        result = without(result, null)
    return result


def without(array: pa.Array, null: Vector) -> pa.Array:
    """The array with NULL where the mask is true."""
    return pc.if_else(pa.array(null), pa.scalar(None, array.type), array)


def by_distinct_value(array: pa.Array, function: Callable[[Any], Any], type: pa.DataType) -> pa.Array:
    """Applies a Python function to each distinct value. For operations that neither Arrow nor NumPy has."""
    encoded = array.dictionary_encode()
    mapped = pa.array([function(value) for value in encoded.dictionary.to_pylist()], type)
    return mapped.take(encoded.indices)


def by_distinct_options(
    subject: Operand, options: list[Operand], kernel: Callable[[pa.Array, tuple[Any, ...]], pa.Array], type: pa.DataType
) -> pa.Array:
    """Calls a kernel with constant options once for each distinct combination of options.

    `subject` may be a constant too. The result is NULL where an operand is NULL.
    """
    constants = [operand.as_py() if isinstance(operand, pa.Scalar) else None for operand in options]
    arrays = [operand for operand in options if isinstance(operand, pa.Array)]
    if not arrays:
        return kernel(subject, tuple(constants))
    length = len(arrays[0])
    if isinstance(subject, pa.Scalar):
        subject = pa.repeat(subject, length)
    names = [str(index) for index in range(len(arrays))]
    valid = np.ones(length, dtype=bool)
    for array in [subject, *arrays]:
        valid &= array.is_valid().to_numpy(zero_copy_only=False)
    rows = pa.table([*arrays, pa.array(np.arange(length))], names=[*names, "row"]).filter(pa.array(valid))
    groups = rows.group_by(names).aggregate([("row", "list")])
    pieces, places = [], []
    for group in groups.to_pylist():
        varying = iter(group[name] for name in names)
        values = tuple(
            next(varying) if isinstance(operand, pa.Array) else constant
            for operand, constant in zip(options, constants, strict=True)
        )
        place = pa.array(group["row_list"], pa.int64())
        pieces.append(kernel(subject.take(place), values))
        places.append(place)
    if not pieces:
        return pa.nulls(length, type)
    position = np.full(length, -1, dtype=np.int64)
    order = np.concatenate([place.to_numpy() for place in places])
    position[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(pa.array(position, mask=position < 0))
