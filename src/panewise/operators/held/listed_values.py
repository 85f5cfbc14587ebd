"""States without a fixed size in a batch of partials: a list of values and a list of counts per (slice, group).

Strings are sent as strings, doubles as int64 keys with the same order, all other values as int64.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import values_of, wrapped
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Ints
from panewise.operators.held.held_values import DrainedLists
from panewise.plan.aggregation import StateKey


def list_names(key: StateKey) -> tuple[str, str]:
    """The names of the two columns of a state."""
    return f"{key.name}_values", f"{key.name}_counts"


def list_columns(found: DrainedLists, pool: StringPool | None) -> tuple[pa.Array, pa.Array]:
    """The two columns. If `pool` is given, the values are codes of its strings."""
    offsets = wrapped(found.offsets.astype(np.int32))
    values = wrapped(found.values) if pool is None else pool.strings(found.values)
    return pa.ListArray.from_arrays(offsets, values), pa.ListArray.from_arrays(offsets, wrapped(found.counts))


def listed_pairs(partials: pa.RecordBatch, key: StateKey, pool: StringPool | None) -> tuple[Ints, Ints, Ints]:
    """The row, value and count of every entry of the lists; strings become codes of the pool."""
    lists, counts = (partials.column(name) for name in list_names(key))
    offsets = values_of(lists.offsets, np.int32)
    rows = np.repeat(np.arange(len(lists)), np.diff(offsets))
    entries = lists.flatten()
    values = values_of(entries, np.int64).copy() if pool is None else pool.intern(entries)
    return rows, values, values_of(counts.flatten(), np.int64).copy()
