"""Arrow columns made from NumPy arrays and Python values through their buffers.

`pyarrow.array` imports pandas on its first call, which would delay a first answer too much; these functions do not.
Numbers are wrapped without a copy.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.arrays import Ints

_INT64 = pa.int64()


def wrapped(values: NDArray[Any], nulls: NDArray[np.bool_] | None = None) -> pa.Array:
    """The numbers as an Arrow array, NULL where the mask is set.

    >>> wrapped(np.array([1, 2]), np.array([False, True])).to_pylist()
    [1, None]
    """
    data = np.ascontiguousarray(values)
    if data.dtype == np.bool_:
        data = np.packbits(data, bitorder="little")
        type_ = pa.bool_()
    else:
        type_ = _TYPES[data.dtype.str[1:]]
    return pa.Array.from_buffers(type_, len(values), [_bitmap(nulls), pa.py_buffer(data)])


def flags(column: pa.Array) -> NDArray[np.bool_]:
    """A BOOLEAN column as a mask; NULL is false.

    >>> flags(wrapped(np.array([True, False]))).tolist()
    [True, False]
    """
    validity, data = column.buffers()
    count, offset = len(column), column.offset
    if count == 0 or data is None:
        return np.zeros(count, np.bool_)
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=offset + count)[offset:]
    if validity is not None and column.null_count:
        bits &= np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little", count=offset + count)[offset:]
    return bits.view(np.bool_)


def integers(column: pa.Array) -> Ints:
    """Int64 values of a BOOLEAN, INT, BIGINT, DATE, TIMESTAMP or DECIMAL column. A DECIMAL as its unscaled digits."""
    if column.type == _INT64:
        return values_of(column, np.int64)
    if pa.types.is_timestamp(column.type):
        return values_of(column.view(_INT64), np.int64)
    if pa.types.is_decimal(column.type):
        words = np.frombuffer(column.buffers()[1], np.int64)
        return np.ascontiguousarray(words[2 * column.offset : 2 * (column.offset + len(column)) : 2])
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return values_of(column.cast(pa.int64()), np.int64)


def values_of(column: pa.Array, type_: Any) -> NDArray[Any]:
    """The values of a numeric column, which must be of this type, without a copy."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), type_)
    return np.frombuffer(data, type_)[column.offset : column.offset + len(column)]


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of the values.

    Arrays from Arrow columns are read-only, and a loop that gets both read-only and writable arrays is compiled twice.
    """
    if values.flags.writeable:
        values = values.view()
        values.flags.writeable = False
    return values


def texts(values: list[str | None]) -> pa.StringArray:
    """Python strings as an Arrow array."""
    encoded = [b"" if value is None else value.encode() for value in values]
    offsets = np.fromiter(accumulate(map(len, encoded), initial=0), np.int32, len(values) + 1)
    nulls = np.fromiter((value is None for value in values), np.bool_, len(values))
    bitmap = _bitmap(nulls) if nulls.any() else None
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded)), bitmap)


def numbers(values: list[Any], type_: Any) -> pa.Array:
    """Python numbers as an Arrow array of a NumPy type."""
    if None not in values:
        return wrapped(np.array(values, type_))
    nulls = np.fromiter((value is None for value in values), np.bool_, len(values))
    return wrapped(np.array([0 if value is None else value for value in values], type_), nulls)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def _bitmap(nulls: NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))


_TYPES = {
    "i4": pa.int32(),
    "i8": pa.int64(),
    "u8": pa.uint64(),
    "f4": pa.float32(),
    "f8": pa.float64(),
}
