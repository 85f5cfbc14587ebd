"""A pool that gives every distinct string a small integer, its code, in order of first appearance.

States and group keys hold codes, never strings. Interning is one compiled pass over Arrow's buffers: O(1) a string,
expected. A string of up to seven bytes is its own hash key (bytes and length in one word), so most symbols, hosts and
flags are found by comparing one integer. `ranks` is the order of the codes by their strings' UTF-8 bytes, sorted anew
only when asked for after new strings came.

    table: open addressing, slot -> code         words[code]: 7 bytes + length, or a hash
                                                 arena[starts[code] : starts[code + 1]]: the bytes
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from panewise.loops import compiled_loop

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
ENCODE_FROM = 4096
SECOND = np.uint64(0xBF58476D1CE4E5B9)


@compiled_loop
def _word(data: Bytes, start: np.int64, stop: np.int64) -> np.uint64:
    """The bytes and length of a short string, exactly; a hash of a longer one (its top byte is 255)."""
    length = stop - start
    word = np.uint64(0)
    if length <= 7:
        for i in range(length):
            word |= np.uint64(data[start + i]) << np.uint64(8 * i)
        return word | (np.uint64(length) << np.uint64(56))
    position = start
    word = np.uint64(length)
    while position < stop:
        part = np.uint64(0)
        i = 0
        while i < 8 and position + i < stop:
            part |= np.uint64(data[position + i]) << np.uint64(8 * i)
            i += 1
        word = (word ^ part) * SECOND
        word ^= word >> np.uint64(29)
        position += 8
    return word | (np.uint64(255) << np.uint64(56))


@compiled_loop
def _intern(
    offsets: NDArray[np.int32],
    data: Bytes,
    valid: Bytes,
    begin: int,
    table: Ints,
    words: NDArray[np.uint64],
    arena: Bytes,
    starts: Ints,
    size: Ints,
    codes: Ints,
) -> int:
    """Codes of the strings from `begin` on; stops where a new string has no room, and says at which row."""
    mask = np.uint64(table.shape[0] - 1)
    checked = valid.shape[0] > 0
    for i in range(begin, offsets.shape[0] - 1):
        if checked and valid[i] == 0:
            codes[i] = 0
            continue
        first, last = np.int64(offsets[i]), np.int64(offsets[i + 1])
        word = _word(data, first, last)
        mixed = word * MULTIPLIER
        slot = (mixed ^ (mixed >> np.uint64(32))) & mask
        while True:
            code = table[slot]
            if code < 0:
                break
            if words[code] == word:
                if last - first <= 7:
                    break
                same = starts[code + 1] - starts[code] == last - first
                if same:
                    held = starts[code]
                    for j in range(last - first):
                        if arena[held + j] != data[first + j]:
                            same = False
                            break
                if same:
                    break
            slot = (slot + np.uint64(1)) & mask
        if code < 0:
            code = size[0]
            used = starts[code]
            if code + 1 >= words.shape[0] or used + (last - first) > arena.shape[0]:
                return i
            table[slot] = code
            words[code] = word
            for j in range(last - first):
                arena[used + j] = data[first + j]
            starts[code + 1] = used + (last - first)
            size[0] = code + 1
        codes[i] = code
    return len(offsets) - 1


@compiled_loop
def _rehash(words: NDArray[np.uint64], count: int, table: Ints) -> None:
    mask = np.uint64(table.shape[0] - 1)
    table[:] = -1
    for code in range(count):
        mixed = words[code] * MULTIPLIER
        slot = (mixed ^ (mixed >> np.uint64(32))) & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = code


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
        self._table: Ints = np.full(2 * strings, -1, np.int64)
        self._words = np.zeros(strings, np.uint64)
        self._arena: Bytes = np.zeros(size, np.uint8)
        self._starts: Ints = np.zeros(strings + 1, np.int64)
        self._size: Ints = np.zeros(1, np.int64)
        self._ranks: Ints = np.empty(0, np.int64)

    def __len__(self) -> int:
        return int(self._size[0])

    @property
    def bytes_held(self) -> int:
        return sum(a.nbytes for a in (self._table, self._words, self._arena, self._starts, self._ranks))

    def intern(self, strings: pa.Array) -> Ints:
        """Codes of an Arrow array of strings, plain or dictionary-encoded; NULL gets 0, see its validity."""
        if pa.types.is_dictionary(strings.type):
            codes = self._intern_distinct(strings.dictionary)
            indices = strings.indices.fill_null(0) if strings.indices.null_count else strings.indices
            if len(codes) == 0:
                return np.zeros(len(strings), np.int64)
            result: Ints = codes[indices.to_numpy(zero_copy_only=False)]
            return result
        if len(strings) > ENCODE_FROM:
            # Arrow's own dictionary encoding meets each repeated string faster than we do.
            return self.intern(strings.dictionary_encode())
        return self._intern_distinct(strings)

    def _intern_distinct(self, strings: pa.Array) -> Ints:
        """Codes by the compiled pass alone: right for any strings, meant for those that repeat little."""
        if strings.type != pa.string():
            strings = strings.cast(pa.string())
        _, offsets, data = strings.buffers()
        first = strings.offset
        if len(strings) == 0:
            return np.empty(0, np.int64)
        offset_values = np.frombuffer(offsets, np.int32)[first : first + len(strings) + 1]
        data_values = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        valid = np.empty(0, np.uint8)
        if strings.null_count:
            valid = pc.is_valid(strings).cast(pa.uint8()).to_numpy()
        codes = np.empty(len(strings), np.int64)
        done = 0
        while True:
            done = _intern(
                offset_values, data_values, valid, done, self._table, self._words, self._arena, self._starts,
                self._size, codes,
            )  # fmt: skip
            if done == len(strings):
                return codes
            self._grow(int(offset_values[done + 1] - offset_values[done]))

    def _grow(self, length: int) -> None:
        count = len(self)
        if count + 1 >= len(self._words):
            self._words = np.concatenate([self._words, np.zeros_like(self._words)])
            self._starts = np.concatenate([self._starts, np.zeros(len(self._words) + 1 - len(self._starts), np.int64)])
            self._table = np.full(2 * len(self._words), -1, np.int64)
            _rehash(self._words, count, self._table)
        if int(self._starts[count]) + length > len(self._arena):
            self._arena = np.concatenate([self._arena, np.zeros(len(self._arena) + length, np.uint8)])

    def _view(self) -> pa.LargeStringArray:
        """Every string by code, without copying: bytes and offsets of given codes never change in place."""
        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(self._starts), pa.py_buffer(self._arena))

    def all_strings(self) -> pa.StringArray:
        return self._view().cast(pa.string())

    def strings(self, codes: Ints) -> pa.StringArray:
        return self._view().take(pa.array(codes)).cast(pa.string())

    def ranks(self) -> Ints:
        """The place of every code in the order of the strings' bytes."""
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
        """Starts anew with these distinct strings under the codes 0, 1, ..."""
        self._clear(max(1024, 1 << (2 * len(strings) + 2).bit_length()), 16384)
        codes = self.intern(strings)
        assert len(self) == len(strings) == len(codes)
