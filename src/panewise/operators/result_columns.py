"""The columns of results besides the selected items: `window_start` and `window_end`, or `instant` and `change`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers, wrapped
from panewise.arrays import Ints
from panewise.language.statements import Emission, SelectItem
from panewise.schema import TIMESTAMP

INSTANT = "instant"
CHANGE = "change"
WINDOW_START = "window_start"
WINDOW_END = "window_end"


def timestamps(values: Ints) -> pa.Array:
    """A TIMESTAMP column of microseconds."""
    return wrapped(np.ascontiguousarray(values)).view(TIMESTAMP.to_arrow())


def no_timestamps(count: int) -> pa.Array:
    """A TIMESTAMP column of NULLs, for the starts of windows without a beginning."""
    return pa.nulls(count, TIMESTAMP.to_arrow())


def microseconds(column: pa.Array | pa.ChunkedArray) -> Ints:
    """The values of a TIMESTAMP column."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return integers(column)


def item_schema(items: tuple[SelectItem, ...]) -> pa.Schema:
    return pa.schema([(item.name, item.expression.type.to_arrow()) for item in items])


def continuous_schema(items: pa.Schema, emit: Emission) -> pa.Schema:
    """`instant`, then `change` in a change log, then the items."""
    fields = [pa.field(INSTANT, TIMESTAMP.to_arrow())]
    if emit is Emission.CHANGES:
        fields.append(pa.field(CHANGE, pa.int32()))
    return pa.schema([*fields, *items])


def periodic_schema(items: pa.Schema) -> pa.Schema:
    """`window_start`, `window_end`, then the items."""
    edges = [pa.field(name, TIMESTAMP.to_arrow()) for name in (WINDOW_START, WINDOW_END)]
    return pa.schema([*edges, *items])


def table_of(columns: list[Any], schema: pa.Schema) -> pa.Table:
    """The columns as a table; a column whose type is not the declared one is converted."""
    fitted = [c if c.type == field.type else c.cast(field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(fitted, schema=schema)


def change_log(instants: Ints, signs: Ints, items: list[Any], emit: Emission, schema: pa.Schema) -> pa.Table:
    """Results of a continuous query, in the order given: with `change`, or only insertions or only deletions."""
    if emit is Emission.CHANGES:
        return table_of([timestamps(instants), wrapped(signs.astype(np.int32)), *items], schema)
    assert emit is not Emission.RSTREAM, "a continuous query has no RSTREAM"
    assert (signs == (1 if emit is Emission.ISTREAM else -1)).all()
    return table_of([timestamps(instants), *items], schema)
