"""Converts NumPy values to Arrow columns of SQL types: the inverse of `matrix.encoded`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panewise.aggregates.aggregate_functions import PairsOf
from panewise.aggregates.columns import wrapped
from panewise.aggregates.pair_texts import pair_texts
from panewise.aggregates.states import Feed
from panewise.aggregates.string_pool import StringPool
from panewise.schema import DataType


def decoded(
    values: NDArray[Any],
    nulls: NDArray[np.bool_] | None,
    encoding: Feed | PairsOf,
    type_: DataType,
    pool: StringPool | None,
) -> pa.Array:
    """NumPy answers as an Arrow column of the result type."""
    if isinstance(encoding, PairsOf):
        return pair_texts(values, nulls, encoding.type)
    if encoding is Feed.CODE:
        if pool is None or len(pool) == 0:
            return pa.nulls(len(values), pa.string())
        codes = np.where(values < 0, 0, values) if nulls is not None else values
        strings = pool.strings(codes)
        return strings if nulls is None else pc.if_else(wrapped(nulls), pa.scalar(None, pa.string()), strings)
    if type_.name == "DECIMAL":
        return _decimals(values, nulls, type_)
    column = wrapped(values, nulls)
    if type_.name == "DATE":
        return column.cast(pa.int32()).cast(pa.date32())
    target = type_.to_arrow()
    return column if column.type == target else column.cast(target)


def _decimals(values: NDArray[Any], nulls: NDArray[np.bool_] | None, type_: DataType) -> pa.Array:
    words = np.empty(2 * len(values), np.int64)
    words[0::2] = values
    words[1::2] = values >> 63
    bitmap = None
    if nulls is not None:
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little").tobytes())
    return pa.Array.from_buffers(type_.to_arrow(), len(values), [bitmap, pa.py_buffer(words)])
