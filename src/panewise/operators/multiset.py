"""Multisets of result rows: numbers equal rows, and cancels rows that both leave and come at one instant.

Rows are equal as SQL groups them: NULL equals NULL, NaN equals NaN, 0.0 equals -0.0. O(n log n) for n rows, vectorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panewise.aggregates.columns import flags, wrapped
from panewise.arrays import Ints
from panewise.schema import from_arrow
from panewise.state.group_table import GroupTable

Mask = NDArray[np.bool_]


def row_numbers(columns: list[pa.Array]) -> Ints:
    """A number per row: equal rows, and only those, have equal numbers."""
    types = tuple(from_arrow(column.type) for column in columns)
    assert None not in types, types
    return GroupTable(types).ids(columns)  # type: ignore[arg-type]


def equal_to_previous(columns: list[pa.Array]) -> Mask:
    """Whether each row equals the one before it; the first one does not.

    >>> equal_to_previous([pa.array([1, 1, None, None]), pa.array([0.5, 0.5, float("nan"), float("nan")])]).tolist()
    [False, True, False, True]
    """
    result = np.ones(len(columns[0]), np.bool_)
    result[:1] = False
    for column in columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        before, after = column.slice(0, max(0, len(column) - 1)), column.slice(1)
        same = pc.equal(before, after)
        if pa.types.is_floating(column.type):
            same = pc.or_(same, pc.and_(pc.is_nan(before), pc.is_nan(after)))
        if column.null_count:
            same = pc.coalesce(same, pc.and_(pc.is_null(before), pc.is_null(after)))
        result[1:] &= flags(same)
    return result


def remaining(instants: Ints, signs: Ints, columns: list[Any]) -> Mask:
    """The mask of the changes that stay when equal rows with opposite signs at one instant cancel each other.

        instant 5:  -a  -b  +a  +a      stays:  -b  +a

    `columns` are the changed rows; of equal changes the last ones stay.
    """
    result = np.ones(len(instants), np.bool_)
    leaving = signs < 0
    both = np.isin(instants, np.intersect1d(instants[leaving], instants[~leaving]))
    if not both.any():
        return result
    suspects = np.flatnonzero(both)
    taken = wrapped(suspects)
    numbers = row_numbers([_array(column.take(taken)) for column in columns])
    result[suspects] = _net(instants[suspects], numbers, signs[suspects])
    return result


def _net(instants: Ints, numbers: Ints, signs: Ints) -> Mask:
    """Keeps, in every class (instant, number), the last |sum of signs| members that have the sign of the sum."""
    order = np.lexsort((signs, numbers, instants))
    instants, numbers, signs = instants[order], numbers[order], signs[order]
    opens = np.ones(len(order), np.bool_)
    opens[1:] = (instants[1:] != instants[:-1]) | (numbers[1:] != numbers[:-1])
    starts = np.flatnonzero(opens)
    sums = np.add.reduceat(signs, starts)
    ends = np.append(starts[1:], len(order))
    class_of = np.cumsum(opens) - 1
    # Within a class the leaving rows come first: its last leaving row is `leaving` places after the start.
    leaving = np.add.reduceat((signs < 0).astype(np.int64), starts)
    last = np.where(sums < 0, starts + leaving, ends)[class_of]
    position = np.arange(len(order))
    kept = np.zeros(len(order), np.bool_)
    kept[order] = (position < last) & (position >= last - np.abs(sums)[class_of])
    return kept


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
