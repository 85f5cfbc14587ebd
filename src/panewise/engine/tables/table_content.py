"""The content of a table as a whole: whether its primary key holds, and how it differs from another content.

Rows are compared by group ids (`state/group_table.py`), which handle NULL, NaN and every type. O(rows log rows), in
compiled loops.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.arrays import Ints
from panewise.catalog import TableDefinition
from panewise.errors import DataError
from panewise.plan.supported.supported_plans import KEYS_MAX
from panewise.schema import BIGINT, Schema
from panewise.state.group_table import GroupTable


def check_keys(rows: pa.RecordBatch, definition: TableDefinition) -> None:
    """DataError if a primary key is NULL, or two rows have the same."""
    names = definition.primary_key
    if not names:
        return
    for name in names:
        if rows.column(name).null_count:
            raise DataError(f"'{name}' is part of the primary key of '{definition.name}' and cannot be NULL")
    schema = Schema(tuple(definition.schema[name] for name in names))
    (ids,) = _row_ids([rows.select(list(names))], schema)
    copies = _copies_before(ids)
    if copies.any():
        twice = rows.select(list(names)).slice(int(np.argmax(copies > 0)), 1).to_pylist()[0]
        shown = ", ".join(f"{name} = {value!r}" for name, value in twice.items())
        raise DataError(f"two rows of '{definition.name}' would have the key {shown}")


def differing(old: pa.RecordBatch, new: pa.RecordBatch, schema: Schema) -> tuple[Ints, Ints]:
    """The places of old rows that are not among the new ones, and of new rows that are not among the old ones. Both are
    compared as bags."""
    of_old, of_new = _row_ids([old, new], schema)
    size = int(max(of_old.max(initial=-1), of_new.max(initial=-1))) + 1
    going = _copies_before(of_old) >= np.bincount(of_new, minlength=size)[of_old]
    fresh = _copies_before(of_new) >= np.bincount(of_old, minlength=size)[of_new]
    return np.flatnonzero(going).astype(np.int64), np.flatnonzero(fresh).astype(np.int64)


def _copies_before(ids: Ints) -> Ints:
    """For each row, the number of equal rows before it."""
    order = np.argsort(ids, kind="stable")
    counts = np.bincount(ids, minlength=1)
    result = np.empty(len(ids), np.int64)
    result[order] = np.arange(len(ids)) - np.repeat(np.cumsum(counts) - counts, counts)
    return result


def _row_ids(batches: list[pa.RecordBatch], schema: Schema) -> list[Ints]:
    """For each batch, the ids of its rows, which are equal for equal rows of all batches."""
    found: list[Ints] = []
    for begin in range(0, len(schema), KEYS_MAX - 1):
        columns = schema.columns[begin : begin + KEYS_MAX - 1]
        table = GroupTable((*(column.type for column in columns), *((BIGINT,) if found else ())))
        found = [
            table.ids([*batch.columns[begin : begin + KEYS_MAX - 1], *(pa.array(ids) for ids in found[i : i + 1])])
            for i, batch in enumerate(batches)
        ]
    return found
