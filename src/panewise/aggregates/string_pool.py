"""A pool that gives every distinct string a small integer, its code, in order of first appearance.

States and group keys hold codes, never strings. Interning is one compiled pass over Arrow's buffers, expected O(1) per
string. A string of up to fifteen bytes is its own key: its bytes and length fill two words, which the hash table stores
beside the code, so that a lookup touches one cache line. For a longer string the table has two hashes, and the string
is compared byte by byte.

    table[slot]: word, word, code + 1            arena[starts[code] : starts[code + 1]]: the bytes

`ranks` has the order of the codes by their strings' UTF-8 bytes. It is sorted on demand, if there are new strings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panewise.aggregates.columns import integers, read_only, wrapped
from panewise.arrays import Ints
from panewise.loops import compiled_loop

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SECOND = np.uint64(0xBF58476D1CE4E5B9)
LONG = np.uint64(255) << np.uint64(56)
MASKS = np.array([256**length - 1 for length in range(9)], np.uint64)  # MASKS[n] keeps the first n bytes of a word
BLOCK = 1024
WORD = 8  # bytes


@compiled_loop
def _packed(data: Bytes, start: np.int64, stop: np.int64) -> np.uint64:
    """Up to eight bytes packed into one word."""
    word = np.uint64(0)
    for i in range(stop - start):
        word |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return word


@compiled_loop
def _words(data: Bytes, start: np.int64, stop: np.int64) -> tuple[np.uint64, np.uint64]:
    """The two words of a string: its bytes and length if it is short, otherwise two hashes."""
    length = stop - start
    if length <= 8:
        return _packed(data, start, stop), np.uint64(length) << np.uint64(56)
    if length <= 15:
        rest = _packed(data, start + 8, stop)
        return _packed(data, start, start + 8), rest | (np.uint64(length) << np.uint64(56))
    first, second = np.uint64(length), MULTIPLIER
    position = start
    while position < stop:
        part = _packed(data, position, min(position + 8, stop))
        first = (first ^ part) * SECOND
        first ^= first >> np.uint64(29)
        second = (second + part) * MULTIPLIER
        second ^= second >> np.uint64(32)
        position += 8
    return first, second | LONG


@compiled_loop
def _same(data: Bytes, start: np.int64, stop: np.int64, arena: Bytes, held: np.int64, held_stop: np.int64) -> bool:
    if stop - start != held_stop - held:
        return False
    j = 0
    while j < stop - start and arena[held + j] == data[start + j]:
        j += 1
    return bool(j == stop - start)


@compiled_loop
def _home(first: np.uint64, second: np.uint64, mask: np.uint64) -> np.uint64:
    mixed = (first ^ (second * SECOND)) * MULTIPLIER
    return (mixed ^ (mixed >> np.uint64(32))) & mask


@compiled_loop
def _intern(
    offsets: NDArray[np.int32], data: Bytes, eights: Words, valid: Bytes, begin: int, table: Words, arena: Bytes,
    starts: Ints, size: Ints, codes: Ints,
) -> int:  # fmt: skip
    """Sets the codes of the strings from `begin` on. Returns the first row whose new string has no room, or the count.

    It works in blocks: first the words of all strings, then all lookups, so that their cache misses overlap.
    """
    mask = np.uint64(table.shape[0] - 1)
    checked = valid.shape[0] > 0
    words = np.empty((BLOCK, 3), np.uint64)
    count = offsets.shape[0] - 1
    block = begin
    while block < count:
        stop = min(block + BLOCK, count)
        for i in range(block, stop):
            first = np.int64(offsets[i])
            length = np.int64(offsets[i + 1]) - first
            # Nearly all strings are short and not at the end of the data. A call would cost more than their words.
            if length <= 8 and first < eights.shape[0]:
                word, second = eights[first] & MASKS[length], np.uint64(length) << np.uint64(56)
            elif 8 < length <= 15 and first + 8 < eights.shape[0]:
                word = eights[first]
                second = (eights[first + 8] & MASKS[length - 8]) | (np.uint64(length) << np.uint64(56))
            else:
                word, second = _words(data, first, first + length)
            words[i - block, 0] = word
            words[i - block, 1] = second
            words[i - block, 2] = _home(word, second, mask)
        for i in range(block, stop):
            if checked and valid[i] == 0:
                codes[i] = 0
                continue
            word, second, slot = words[i - block, 0], words[i - block, 1], words[i - block, 2]
            first, last = np.int64(offsets[i]), np.int64(offsets[i + 1])
            while True:
                code = np.int64(table[slot, 2]) - 1
                if code < 0:
                    break
                found = table[slot, 0] == word and table[slot, 1] == second
                if found and (second < LONG or _same(data, first, last, arena, starts[code], starts[code + 1])):
                    break
                slot = (slot + np.uint64(1)) & mask
            if code < 0:
                code = size[0]
                used = starts[code]
                if code + 1 >= starts.shape[0] or used + (last - first) > arena.shape[0]:
                    return i
                table[slot, 0] = word
                table[slot, 1] = second
                table[slot, 2] = np.uint64(code + 1)
                for j in range(last - first):
                    arena[used + j] = data[first + j]
                starts[code + 1] = used + (last - first)
                size[0] = code + 1
            codes[i] = code
        block = stop
    return len(codes)


@compiled_loop
def _rehash(old: Words, table: Words) -> None:
    mask = np.uint64(table.shape[0] - 1)
    for i in range(old.shape[0]):
        if old[i, 2] != 0:
            slot = _home(old[i, 0], old[i, 1], mask)
            while table[slot, 2] != 0:
                slot = (slot + np.uint64(1)) & mask
            for part in range(3):
                table[slot, part] = old[i, part]


class StringPool:
    """Codes for strings.

    >>> pool = StringPool()
    >>> pool.intern(pa.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    >>> pool.ranks().tolist(), pool.strings(np.array([1])).to_pylist()
    ([1, 0], ['a'])
    """

    def __init__(self) -> None:
        self._clear(1024, 16384)

    def _clear(self, strings: int, size: int) -> None:
        self._table: Words = np.zeros((2 * strings, 4), np.uint64)
        self._arena: Bytes = np.zeros(size, np.uint8)
        self._starts: Ints = np.zeros(strings + 1, np.int64)
        self._size: Ints = np.zeros(1, np.int64)
        self._ranks: Ints = np.empty(0, np.int64)

    def __len__(self) -> int:
        return int(self._size[0])

    @property
    def bytes_held(self) -> int:
        return sum(a.nbytes for a in (self._table, self._arena, self._starts, self._ranks))

    def intern(self, strings: pa.Array) -> Ints:
        """Codes of an Arrow array of strings, plain or dictionary-encoded. NULL has code 0, see its validity."""
        if pa.types.is_dictionary(strings.type):
            codes = self._interned(strings.dictionary)
            indices = strings.indices.fill_null(0) if strings.indices.null_count else strings.indices
            if len(codes) == 0:
                return np.zeros(len(strings), np.int64)
            result: Ints = codes[integers(indices)]
            return result
        return self._interned(strings)

    def _interned(self, strings: pa.Array) -> Ints:
        if strings.type != pa.string():
            strings = strings.cast(pa.string())
        _, offsets, data = strings.buffers()
        first = strings.offset
        if len(strings) == 0:
            return np.empty(0, np.int64)
        offset_values = read_only(np.frombuffer(offsets, np.int32)[first : first + len(strings) + 1])
        data_values = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        if len(data_values) < 2 * WORD:  # with a single word, NumPy would flag `eights` as contiguous
            data_values = np.concatenate([data_values, np.zeros(2 * WORD, np.uint8)])
        data_values = read_only(data_values)
        valid = read_only(np.empty(0, np.uint8))
        if strings.null_count:
            valid = read_only(pc.is_valid(strings).cast(pa.uint8()).to_numpy())
        # The eight bytes from each byte position on. They overlap, so reading a word is one unaligned load.
        eights = np.ndarray((len(data_values) - WORD + 1,), np.uint64, data_values, strides=(1,))
        codes = np.empty(len(strings), np.int64)
        done = 0
        while True:
            done = _intern(
                offset_values, data_values, eights, valid, done, self._table, self._arena, self._starts, self._size,
                codes,
            )  # fmt: skip
            if done == len(strings):
                return codes
            self._grow(int(offset_values[done + 1] - offset_values[done]))

    def _grow(self, length: int) -> None:
        count = len(self)
        if count + 1 >= len(self._starts):
            self._starts = np.concatenate([self._starts, np.zeros(len(self._starts), np.int64)])
            old, self._table = self._table, np.zeros((2 * len(self._table), 4), np.uint64)
            _rehash(old, self._table)
        if int(self._starts[count]) + length > len(self._arena):
            self._arena = np.concatenate([self._arena, np.zeros(len(self._arena) + length, np.uint8)])

    def _view(self) -> pa.LargeStringArray:
        """All strings by code, without copying: the bytes and offsets of existing codes never change."""
        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(self._starts), pa.py_buffer(self._arena))

    def all_strings(self) -> pa.StringArray:
        return self._view().cast(pa.string())

    def strings(self, codes: Ints) -> pa.StringArray:
        return self._view().take(wrapped(codes)).cast(pa.string())

    def ranks(self) -> Ints:
        """The rank of every code in the order of the strings' bytes."""
        count = len(self)
        if len(self._ranks) != count:
            order = pc.sort_indices(self.all_strings().cast(pa.binary())).to_numpy()
            self._ranks = np.empty(count, np.int64)
            self._ranks[order] = np.arange(count)
        return self._ranks

    def keep(self, live: Ints) -> Ints:
        """Forgets all but the codes in `live`; returns the new code of each old one (-1: forgotten)."""
        renamed = np.full(len(self), -1, np.int64)
        renamed[live] = np.arange(len(live))
        self.load(self.strings(live))
        return renamed

    def load(self, strings: pa.StringArray) -> None:
        """Replaces the content by these distinct strings with the codes 0, 1, ..."""
        self._clear(max(1024, 1 << (2 * len(strings) + 2).bit_length()), 16384)
        codes = self.intern(strings)
        assert len(self) == len(strings) == len(codes)
