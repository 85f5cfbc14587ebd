"""Arrow columns that grow at the end, are read at any places, and are compacted now and then.

A column is a NumPy buffer with room to grow, so appending a batch costs O(its rows), amortised, however small the batch
is. After the first NULL, one byte per row says whether the value is NULL. Strings are offsets and bytes, as in Arrow.

    append(batch)      adds rows at places count, count + 1, ...
    taken(i, places)   reads column i at these places: a compiled gather, or Arrow's own for strings
    keep(places)       the rows at these places become rows 0, 1, ...; unused memory is freed
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags, wrapped
from panewise.aggregates.matrix import validity
from panewise.loops import compiled_loop

Places = NDArray[np.int32]
Bytes = NDArray[np.uint8]
ROOM_MIN = 1024
# The NumPy type that moves a value, by the width of the value in bytes.
_WIDTHS: dict[int, Any] = {1: np.uint8, 4: np.int32, 8: np.int64, 16: np.complex128}


@compiled_loop
def _gather(values: NDArray[Any], places: Places, result: NDArray[Any]) -> None:
    for i in range(len(places)):
        result[i] = values[places[i]]


def pooled(count: int, type_: Any) -> NDArray[Any]:
    """An uninitialised array in Arrow's memory pool.

    Every step returns large arrays in its results. The pool keeps their pages for the next step; NumPy would ask the
    system for new pages, which costs more than filling them.
    """
    if count == 0:
        return np.empty(0, type_)
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(type_).itemsize), type_)


def gathered(values: NDArray[Any], places: Places) -> NDArray[Any]:
    """The values at these places."""
    result = pooled(len(places), values.dtype)
    _gather(values, places, result)
    return result


def appended(buffer: NDArray[Any], count: int, new: NDArray[Any]) -> NDArray[Any]:
    """The buffer with new values after the first `count`; a larger one if there is no room."""
    needed = count + len(new)
    if needed > len(buffer):
        larger = np.empty(max(ROOM_MIN, 2 * needed), buffer.dtype)
        larger[:count] = buffer[:count]
        buffer = larger
    buffer[count:needed] = new
    return buffer


def trimmed(buffer: NDArray[Any], count: int) -> NDArray[Any]:
    """The buffer, or a smaller one if less than a quarter of it is used."""
    if len(buffer) <= ROOM_MIN or 4 * count >= len(buffer):
        return buffer
    smaller = np.empty(max(ROOM_MIN, 2 * count), buffer.dtype)
    smaller[:count] = buffer[:count]
    return smaller


class _Column:
    """The part that all columns share: `_valid` says which rows are not NULL; None before the first NULL."""

    def __init__(self, type_: pa.DataType) -> None:
        self.type = type_
        self._valid: Bytes | None = None

    def append_validity(self, column: pa.Array, count: int) -> None:
        valid = validity(column)
        if len(valid) == 0 and self._valid is None:
            return
        if self._valid is None:
            self._valid = np.ones(count, np.uint8)
        self._valid = appended(self._valid, count, valid if len(valid) else np.ones(len(column), np.uint8))

    def bitmap(self, places: Places) -> pa.Buffer | None:
        if self._valid is None:
            return None
        return pa.py_buffer(np.packbits(gathered(self._valid, places), bitorder="little"))

    def keep_validity(self, places: Places) -> None:
        if self._valid is None:
            return
        kept = gathered(self._valid, places)
        self._valid = None if kept.all() else trimmed(appended(self._valid, 0, kept), len(kept))

    @property
    def bytes_held(self) -> int:
        return 0 if self._valid is None else self._valid.nbytes


class _FixedColumn(_Column):
    """Values of a fixed width; a boolean takes one byte."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._boolean = pa.types.is_boolean(type_)
        self._values = np.empty(0, _WIDTHS[1 if self._boolean else type_.bit_width // 8])

    def append(self, column: pa.Array, count: int) -> None:
        self.append_validity(column, count)
        self._values = appended(self._values, count, self._raw(column))

    def _raw(self, column: pa.Array) -> NDArray[Any]:
        if self._boolean:
            return flags(column).view(np.uint8)
        data = column.buffers()[1]
        if data is None:
            return np.zeros(len(column), self._values.dtype)
        width = self._values.dtype.itemsize
        begin, end = column.offset * width, (column.offset + len(column)) * width
        return np.frombuffer(data, np.uint8)[begin:end].view(self._values.dtype)

    def taken_bytes(self, places: Places) -> int:
        return int(len(places) * self._values.dtype.itemsize)

    def taken(self, places: Places) -> pa.Array:
        values = gathered(self._values, places)
        if self._boolean:
            values = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(self.type, len(places), [self.bitmap(places), pa.py_buffer(values)])

    def keep(self, places: Places) -> None:
        self.keep_validity(places)
        self._values = trimmed(appended(self._values, 0, gathered(self._values, places)), len(places))

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self._values.nbytes


class _StringColumn(_Column):
    """Offsets and bytes: string i is data[offsets[i] : offsets[i + 1]]."""

    def __init__(self, type_: pa.DataType) -> None:
        super().__init__(type_)
        self._count = 0
        self._offsets: Places = np.zeros(1, np.int32)
        self._data: Bytes = np.empty(0, np.uint8)

    def append(self, column: pa.Array, count: int) -> None:
        self.append_validity(column, count)
        self._write(column, count)

    def _write(self, column: pa.Array, count: int) -> None:
        _, offsets, data = column.buffers()
        if offsets is None or len(column) == 0:
            new = np.zeros(len(column) + 1, np.int32)
        else:
            new = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
        used = int(self._offsets[count])
        assert used + int(new[-1] - new[0]) < 2**31, "the strings of a column that is held exceed two gigabytes"
        self._offsets = appended(self._offsets, count + 1, new[1:] - new[0] + np.int32(used))
        if data is not None:
            self._data = appended(self._data, used, np.frombuffer(data, np.uint8)[new[0] : new[-1]])
        self._count = count + len(column)

    def taken_bytes(self, places: Places) -> int:
        lengths = np.diff(self._offsets[: self._count + 1])
        return 4 * len(places) + int(lengths[places].sum(dtype=np.int64))

    def taken(self, places: Places) -> pa.Array:
        held = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        strings = pa.Array.from_buffers(self.type, self._count, held).take(wrapped(places))
        _, offsets, data = strings.buffers()
        return pa.Array.from_buffers(self.type, len(places), [self.bitmap(places), offsets, data])

    def keep(self, places: Places) -> None:
        strings = self.taken(places)
        self.keep_validity(places)
        self._offsets, self._data = np.zeros(1, np.int32), np.empty(0, np.uint8)
        self._write(strings, 0)

    @property
    def bytes_held(self) -> int:
        return super().bytes_held + self._offsets.nbytes + self._data.nbytes


class StoredColumns:
    """Rows of one schema.

    >>> rows = StoredColumns(pa.schema([("a", pa.int64()), ("s", pa.string())]))
    >>> rows.append(pa.record_batch({"a": [1, 2, None], "s": ["x", None, "zz"]}))
    >>> rows.keep(np.array([1, 2], np.int32))
    >>> rows.batch().to_pydict()
    {'a': [2, None], 's': [None, 'zz']}
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.count = 0
        self._columns = [
            _StringColumn(field.type) if pa.types.is_string(field.type) else _FixedColumn(field.type)
            for field in schema
        ]  # fmt: skip

    @property
    def bytes_held(self) -> int:
        return sum(column.bytes_held for column in self._columns)

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends rows. The batch must have columns with the names of the schema, and may have others."""
        for field, column in zip(self.schema, self._columns, strict=True):
            values = batch.column(field.name)
            column.append(values if values.type == field.type else values.cast(field.type), self.count)
        self.count += len(batch)

    def taken(self, position: int, places: Places) -> pa.Array:
        """The values of the column at that position of the schema."""
        return self._columns[position].taken(places)

    def taken_bytes(self, position: int, places: Places) -> int:
        """The number of bytes that `taken` would return."""
        return self._columns[position].taken_bytes(places)

    def keep(self, places: Places) -> None:
        """Keeps only the rows at these places, in this order."""
        for column in self._columns:
            column.keep(places)
        self.count = len(places)

    def batch(self) -> pa.RecordBatch:
        """All rows."""
        places = np.arange(self.count, dtype=np.int32)
        return pa.RecordBatch.from_arrays([column.taken(places) for column in self._columns], schema=self.schema)
