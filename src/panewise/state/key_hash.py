"""Hashes of keys that are the same in every process and on every machine, and division of batches by them.

Buckets of state outlive processes, so a key's bucket must not depend on the process. Keys are compared as in
`GroupTable`: NULL is a value of its own, -0.0 equals 0.0, and all NaNs are equal. A value has the same hash in a plain
and in a dictionary column; each value of a dictionary is hashed once.

    hash(key) = mixed over its columns;   bucket = hash mod buckets

One compiled pass over Arrow's buffers per column, O(1) a row, strings O(length). The hash functions must never change:
the layout of state on disk depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.aggregates.columns import flags, integers, values_of, wrapped
from panewise.arrays import Ints
from panewise.loops import compiled_loop

Hashes = NDArray[np.uint64]
SEED = np.uint64(0x2545F4914F6CDD1D)
NULL = np.uint64(0xD6E8FEB86659FD93)
FIRST = np.uint64(0xFF51AFD7ED558CCD)
SECOND = np.uint64(0xC4CEB9FE1A85EC53)
_STRING, _INT32, _FLOAT64 = pa.string(), pa.int32(), pa.float64()
_NUMBERS = {_INT32: np.int32, pa.int64(): np.int64, _FLOAT64: np.float64}


@compiled_loop
def _mixed(word: np.uint64) -> np.uint64:
    """MurmurHash3's finaliser: every bit of the word affects every bit of the result."""
    word = (word ^ (word >> np.uint64(33))) * FIRST
    word = (word ^ (word >> np.uint64(33))) * SECOND
    return word ^ (word >> np.uint64(33))


@compiled_loop
def _hash_words(words: Hashes, valid: NDArray[np.bool_], hashes: Hashes) -> None:
    checked = valid.shape[0] > 0
    for i in range(words.shape[0]):
        hashes[i] = NULL if checked and not valid[i] else _mixed(words[i] + SEED)


@compiled_loop
def _hash_strings(
    offsets: NDArray[np.int32], data: NDArray[np.uint8], valid: NDArray[np.bool_], hashes: Hashes
) -> None:
    """Hashes eight bytes at a time. The length is mixed in, so that padding does not make two strings equal."""
    checked = valid.shape[0] > 0
    for i in range(hashes.shape[0]):
        if checked and not valid[i]:
            hashes[i] = NULL
            continue
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        mixed = SEED ^ (np.uint64(stop - start) * FIRST)
        word = np.uint64(0)
        for j in range(stop - start):
            word |= np.uint64(data[start + j]) << np.uint64(8 * (j & 7))
            if j & 7 == 7 or start + j + 1 == stop:
                mixed = _mixed(mixed ^ word) * SECOND
                word = np.uint64(0)
        hashes[i] = _mixed(mixed)


@compiled_loop
def _join(hashes: Hashes, more: Hashes) -> None:
    """Mixes in the next column of a key. The order of columns matters."""
    for i in range(hashes.shape[0]):
        hashes[i] = _mixed(hashes[i] * FIRST + more[i])


@compiled_loop
def _by_bucket(hashes: Hashes, buckets: int, ends: Ints, order: Ints) -> None:
    """Orders positions by bucket, within a bucket as they come. `ends[b]` is where bucket b ends."""
    chosen = np.empty(hashes.shape[0], np.int32)
    ends[:] = 0
    for i in range(hashes.shape[0]):
        bucket = hashes[i] % np.uint64(buckets)
        chosen[i] = bucket
        ends[bucket] += 1
    before = 0 * buckets
    for b in range(buckets):
        before, ends[b] = before + ends[b], before
    for i in range(hashes.shape[0]):
        order[ends[chosen[i]]] = i
        ends[chosen[i]] += 1


def key_hash(columns: Sequence[pa.Array]) -> Hashes:
    """The hash of every row's key, of one column or more.

    >>> import pyarrow as pa
    >>> hashes = key_hash([pa.array(["a", None, "a"])])
    >>> bool(hashes[0] == hashes[2]), bool(hashes[0] == hashes[1])
    (True, False)
    """
    assert columns, "a key has at least one column"
    hashes = _column_hash(columns[0])
    for column in columns[1:]:
        _join(hashes, _column_hash(column))
    return hashes


def _column_hash(column: pa.Array) -> Hashes:
    """The hash of every value, in a new array."""
    if pa.types.is_dictionary(column.type):
        values = np.append(_column_hash(column.dictionary), NULL)
        places = integers(column.indices)
        if column.indices.null_count:
            places = np.where(flags(column.indices.is_valid()), places, len(values) - 1)
        result: Hashes = values[places]
        return result
    valid = flags(column.is_valid()) if column.null_count else np.empty(0, np.bool_)
    hashes = np.empty(len(column), np.uint64)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        if len(column):
            _hash_strings(*_text_buffers(column), valid, hashes)
        return hashes
    _hash_words(_words(column), valid, hashes)
    return hashes


def _text_buffers(column: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    column = column if column.type == _STRING else column.cast(_STRING)
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return places, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def _words(column: pa.Array) -> Hashes:
    """Each value as 64 bits; equal values have equal bits."""
    if not pa.types.is_floating(column.type):
        return integers(column).view(np.uint64)
    floats = values_of(column if column.type == _FLOAT64 else column.cast(_FLOAT64, safe=False), np.float64)
    return np.where(np.isnan(floats), np.nan, floats + 0.0).view(np.uint64)


def split_by_bucket(batch: pa.RecordBatch, key_columns: Sequence[str], buckets: int) -> list[pa.RecordBatch | None]:
    """The rows of each bucket in the order of the batch, None if there are none.

    Dictionaries shrink to the values in use.
    """
    return split_by_keys(batch, [batch.column(name) for name in key_columns], buckets)


def split_by_keys(batch: pa.RecordBatch, keys: Sequence[pa.Array], buckets: int) -> list[pa.RecordBatch | None]:
    """Like `split_by_bucket`, by the values of key columns that need not be in the batch."""
    if buckets == 1 or not keys:
        return [batch if batch.num_rows else None, *[None] * (buckets - 1)]
    ends, order = np.empty(buckets, np.int64), np.empty(batch.num_rows, np.int64)
    _by_bucket(key_hash(keys), buckets, ends, order)
    starts = [0, *ends.tolist()]
    return [
        _taken(batch, order[start:end]) if end > start else None
        for start, end in zip(starts, ends.tolist(), strict=False)
    ]


def _taken(batch: pa.RecordBatch, rows: Ints) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_taken_column(column, rows) for column in batch.columns], schema=batch.schema)


def _taken_column(column: pa.Array, rows: Ints) -> pa.Array:
    """The column's values at these rows. NumPy is faster for numbers without NULLs."""
    if pa.types.is_dictionary(column.type) and column.indices.type == _INT32:
        return _shrunk(_taken_column(column.indices, rows), column.dictionary)
    type_ = _NUMBERS.get(column.type)
    if type_ is None or column.null_count:
        return column.take(wrapped(rows))
    return wrapped(np.take(values_of(column, type_), rows))


def _shrunk(indices: pa.Array, dictionary: pa.Array) -> pa.DictionaryArray:
    """A dictionary column with a dictionary of the values in use, in their old order."""
    size = len(dictionary)
    if not size:
        return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)
    places = values_of(indices, np.int32)
    nulls = ~flags(indices.is_valid()) if indices.null_count else None
    there = np.zeros(size, np.bool_)
    there[places if nulls is None else places[~nulls]] = True
    if there.all():
        return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)
    live = np.flatnonzero(there)
    renumbered = np.zeros(size, np.int32)
    renumbered[live] = np.arange(len(live), dtype=np.int32)
    # A NULL's index has no meaning and may be any number.
    places = renumbered[places if nulls is None else np.where(nulls, 0, places)]
    return pa.DictionaryArray.from_arrays(wrapped(places, nulls), dictionary.take(wrapped(live)), safe=False)
