"""Partials on their way from one family to another: open slices as a record batch, and back.

A batch has one row per (slice, group) that holds rows, slice by slice:

    slice_start, slice_end    int64
    key_0, key_1, ...         dictionaries: all share their indices, which number the groups of the batch
    count_7f..._0, ...        a column per field of each state, by the state's name: a dictionary of strings, int64 or
                              float64
    bag_7f..._values, ...     for a state without a fixed size: a list of values, and a list of their counts

A host that keeps the partials it merged (*pages*) never needs to write the whole state of a family. In each micro-batch
it writes the page and the *outline* of the family, whose size depends on its members and not on slices or groups.

    merge(page 1), advance, merge(page 2), advance, outline   ==   rebuild(outline, [page 1, page 2])
                                                              ==   merge(page 1), merge(page 2), forward, adopt(outline)

Invariant of pages: all pages of slices that begin at `needed_from` or later are kept. Slices that begin earlier are
needed by no report to come; they are left out, also if some of their pages are kept. A later cut may have shortened the
slices of a page: the epochs in the outline say so.

States are found by name, so a batch may come from a family with other members: states that it lacks are at the
identity, and states that this family does not keep are ignored. The count of an argument that was never NULL is left
out, because it equals the count of rows. Strings are sent as strings, because codes are valid in one process only.

Cost: O(rows of the batch) in compiled or vectorised passes, and one lookup per distinct group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags, integers, values_of, wrapped
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import COUNT, Feed, Operation
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Floats, Ints
from panewise.language.expressions import Expression
from panewise.operators.family.groups import Groups
from panewise.operators.held.held_values import DrainedLists
from panewise.operators.held.listed_values import list_columns, list_names, listed_pairs
from panewise.plan.aggregation import ROW_COUNT, StateKey

START, END = "slice_start", "slice_end"
ARRIVAL = 1  # the field of ordered states with the arrival number
_INT32 = pa.int32()

# Partials drained from a store: start, end and group of each, the fields of every state with a fixed size, and lists of
# values of the others.
Drained = tuple[Ints, Ints, Ints, dict[StateKey, tuple[Ints, Floats]], dict[StateKey, DrainedLists]]


# -- writing ---------------------------------------------------------------------------------------------------------


@dataclass
class Packed:
    """A batch of partials, with the ids of its groups and the codes of its strings by pool, ascending."""

    batch: pa.RecordBatch
    groups: Ints
    codes: dict[Expression, Ints]


def packed(drained: Drained, groups: Groups) -> Packed:
    """Drained partials as a batch."""
    starts, ends, ids, states, lists = drained
    columns: dict[str, pa.Array] = {START: wrapped(starts), END: wrapped(ends)}
    live = np.empty(0, np.int64)
    if groups.keys:
        live, places = compacted(ids, len(groups))
        for i, keys in enumerate(groups.keys_of(live)):
            columns[f"key_{i}"] = _dictionary(places, None, keys)
    codes: dict[Expression, list[Ints]] = {}
    for key, (ints, floats) in states.items():
        strings = dict(key.code_fields)
        for field, values in enumerate([*ints, *floats]):
            if field in strings:
                argument = strings[field]
                present = _has_code(key, field, ints)
                columns[f"{key.name}_{field}"], used = _strings(values, present, groups.pool(argument))
                codes.setdefault(argument, []).append(used)
            else:
                columns[f"{key.name}_{field}"] = wrapped(values)
    for key, found in lists.items():
        values_name, counts_name = list_names(key)
        columns[values_name], columns[counts_name] = list_columns(found, groups.pool_of(key))
        if key.kind.feeds[0] is Feed.CODE:
            codes.setdefault(key.arguments[0], []).append(np.unique(found.values))
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return Packed(batch, live, {argument: np.unique(np.concatenate(used)) for argument, used in codes.items()})


def compacted(numbers: Ints, size: int) -> tuple[Ints, NDArray[np.int32]]:
    """The distinct numbers below `size`, ascending, and the place of each number among them.

    >>> [part.tolist() for part in compacted(np.array([7, 3, 7]), 9)]
    [[3, 7], [1, 0, 1]]
    """
    if size > 8 * len(numbers) + 1024:
        live, places = np.unique(numbers, return_inverse=True)
        return live, places.reshape(-1).astype(np.int32)
    there = np.zeros(size, np.bool_)
    there[numbers] = True
    live = np.flatnonzero(there)
    renumbered = np.zeros(size, np.int32)
    renumbered[live] = np.arange(len(live), dtype=np.int32)
    return live, renumbered[numbers]


def _has_code(key: StateKey, field: int, ints: Ints) -> NDArray[np.bool_]:
    """Where a field of codes holds a code; elsewhere its value means nothing (identity or NULL)."""
    operation = key.kind.operation
    there: NDArray[np.bool_]
    if operation in (Operation.MIN_STRING, Operation.MAX_STRING):
        there = ints[field] >= 0
    elif operation in (Operation.EARLIEST, Operation.LATEST):
        there = ints[ARRIVAL] != key.kind.int_identity[ARRIVAL]
    else:
        there = ints[3] == 1 if field == 2 else ints[3] >= 0
    return there


def _strings(codes: Ints, present: NDArray[np.bool_], pool: StringPool) -> tuple[pa.Array, Ints]:
    """A column of codes as strings, and the distinct codes in it."""
    live, places = compacted(codes[present], len(pool))
    if present.all():
        return _dictionary(places, None, pool.strings(live)), live
    indices = np.zeros(len(codes), np.int32)
    indices[present] = places
    return _dictionary(indices, ~present, pool.strings(live)), live


def _dictionary(indices: NDArray[np.int32], nulls: NDArray[np.bool_] | None, values: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(wrapped(indices, nulls), values, safe=False)


# -- reading ---------------------------------------------------------------------------------------------------------


class Partials:
    """A batch of partials, read with the group ids and string codes of the family that merges it."""

    def __init__(self, batch: pa.RecordBatch, groups: Groups, arrival_base: int) -> None:
        self.starts: Ints = integers(batch.column(START))
        self.names = set(batch.schema.names)
        self._batch = batch
        self._groups = groups
        self._arrival_base = arrival_base

    def spans(self) -> tuple[Ints, Ints]:
        """The starts and ends of its distinct slices."""
        return distinct_spans(self.starts, integers(self._batch.column(END)))

    def ids(self) -> Ints:
        """The group of each partial. Keys that are only in the dictionary do not become groups."""
        columns = [self._batch.column(f"key_{i}") for i in range(len(self._groups.keys))]
        if not columns:
            return np.empty(0, np.int64)
        if all(pa.types.is_dictionary(column.type) for column in columns):
            indices = [_indices(column) for column in columns]
            if all(np.array_equal(indices[0], other) for other in indices[1:]):
                live, places = compacted(indices[0], len(columns[0].dictionary))
                ids = self._groups.table.ids([column.dictionary.take(wrapped(live)) for column in columns])
                result: Ints = ids[places]
                return result
            columns = [column.dictionary_decode() for column in columns]
        return self._groups.table.ids(columns)

    def source(self, key: StateKey) -> StateKey | None:
        """The state in the batch from which a state of the family is read; None if there is none."""
        if f"{key.name}_0" in self.names:
            return key
        return ROW_COUNT if key.kind == COUNT else None

    def fields(self, key: StateKey) -> tuple[Ints, Floats]:
        """The fields of one state, in new arrays."""
        batch = self._batch
        ints, floats = identity(key.kind, batch.num_rows)
        strings = dict(key.code_fields)
        for field in range(key.kind.int_fields):
            column = batch.column(f"{key.name}_{field}")
            if field in strings:
                _set_codes(ints[field], column, self._groups.pool(strings[field]))
            else:
                ints[field] = values_of(column, np.int64)
        for field in range(key.kind.float_fields):
            floats[field] = values_of(batch.column(f"{key.name}_{key.kind.int_fields + field}"), np.float64)
        if key.ordered and self._arrival_base:
            # The identities of EARLIEST and LATEST are the ends of int64 and must not be shifted.
            counted = ints[ARRIVAL] != key.kind.int_identity[ARRIVAL] if len(ints) == 3 else np.True_
            ints[ARRIVAL] += np.where(counted, self._arrival_base, 0)
        return ints, floats

    def has_lists(self, key: StateKey) -> bool:
        return list_names(key)[0] in self.names

    def lists(self, key: StateKey) -> tuple[Ints, Ints, Ints]:
        """The values of a state without a fixed size: the partial of each value, the values, and their counts."""
        return listed_pairs(self._batch, key, self._groups.pool_of(key))


def distinct_spans(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The starts and ends of distinct slices, ascending. If a slice has several ends, the least is right."""
    first = np.flatnonzero(np.append(True, starts[1:] != starts[:-1]) | np.append(True, ends[1:] != ends[:-1]))
    found, places = np.unique(starts[first], return_inverse=True)
    least = np.full(len(found), np.iinfo(np.int64).max)
    np.minimum.at(least, places.reshape(-1), ends[first])
    return found, least


def _indices(column: pa.DictionaryArray) -> NDArray[Any]:
    indices = column.indices
    assert not indices.null_count, "NULL keys stand in the dictionary"
    return values_of(indices, np.int32) if indices.type == _INT32 else integers(indices)


def _set_codes(target: Ints, column: pa.DictionaryArray, pool: StringPool) -> None:
    """Writes the codes of the strings; where the column is NULL, the target keeps its value."""
    codes = pool.intern(column.dictionary)
    indices = column.indices
    if not indices.null_count:
        target[:] = codes[values_of(indices, np.int32)]
        return
    there = flags(indices.is_valid())
    target[there] = codes[values_of(indices, np.int32)[there]]


def from_point(batch: pa.RecordBatch, point: int) -> pa.RecordBatch:
    """The partials of slices that begin at a point or later."""
    starts = integers(batch.column(START))
    if not len(starts) or int(starts.min()) >= point:
        return batch
    return batch.take(wrapped(np.flatnonzero(starts >= point)))
