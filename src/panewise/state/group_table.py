"""Group ids: every distinct key, of any columns, gets the next small integer.

Ids are kept in an open-addressing hash table over the key's words (one int64 a column, and a bit mask of NULLs). For a
key of one column whose words lie close together, an array indexed by the word is tried first: one load a row.

    column -> words     BIGINT, TIMESTAMP, ...: itself; DOUBLE: its bits; STRING: its code in a pool of the table's own;
                        DECIMAL of more digits than a word holds: the code of its text
    words -> id         direct[word - base], else table[hash(words)]
    id -> words         words[column, id], nulls[id]

A row costs O(1), expected. `keep` drops groups that are no longer needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.aggregate_functions import feed_of
from panewise.aggregates.decoding import decoded
from panewise.aggregates.matrix import NO_BYTES, encoded
from panewise.aggregates.states import Feed
from panewise.aggregates.string_pool import StringPool
from panewise.arrays import Ints
from panewise.loops import compiled_loop
from panewise.schema import STRING, DataType

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
SPAN_MAX = 1 << 18  # Words that are further apart than this are looked up by hash.


@compiled_loop
def _hash(words: Ints, i: int, nulls: int) -> np.uint64:
    mixed = np.uint64(nulls)
    for column in range(words.shape[0]):
        mixed = (mixed ^ np.uint64(words[column, i])) * MULTIPLIER
        mixed ^= mixed >> np.uint64(32)
    return mixed


@compiled_loop
def _find(words: Ints, i: int, nulls: int, table: Ints, held: Ints, held_nulls: Ints) -> np.int64:
    """The slot of the table with the key's id, or the free slot for it."""
    mask = np.uint64(table.shape[0] - 1)
    slot = _hash(words, i, nulls) & mask
    while True:
        found = table[slot]
        if found < 0:
            return np.int64(slot)
        if held_nulls[found] == nulls:
            same = True
            for column in range(words.shape[0]):
                if held[column, found] != words[column, i]:
                    same = False
                    break
            if same:
                return np.int64(slot)
        slot = (slot + np.uint64(1)) & mask


@compiled_loop
def _assign(
    words: Ints, nulls: Ints, begin: int, base: int, direct: Ints, table: Ints, held: Ints, held_nulls: Ints, size:
    Ints, ids: Ints,
) -> int:  # fmt: skip
    """Writes the ids of the rows from `begin` on. Stops at a row that needs more room, and returns its number."""
    span = direct.shape[0]
    nullable = nulls.shape[0] > 0
    for i in range(begin, words.shape[1]):
        null = nulls[i] if nullable else 0
        place = -1
        if span > 0 and null == 0:
            place = words[0, i] - base
            if place < 0 or place >= span:
                return i
            if direct[place] >= 0:
                ids[i] = direct[place]
                continue
        slot = _find(words, i, null, table, held, held_nulls)
        found = table[slot]
        if found < 0:
            found = size[0]
            if found >= held_nulls.shape[0]:
                return i
            table[slot] = found
            for column in range(words.shape[0]):
                held[column, found] = words[column, i]
            held_nulls[found] = null
            size[0] = found + 1
        if place >= 0:
            direct[place] = found
        ids[i] = found
    return len(ids)


@compiled_loop
def _rehash(held: Ints, held_nulls: Ints, count: int, table: Ints) -> None:
    table[:] = -1
    for i in range(count):
        table[_find(held, i, held_nulls[i], table, held, held_nulls)] = i


class GroupTable:
    """Ids for keys.

    >>> from panewise.schema import STRING
    >>> table = GroupTable((STRING,))
    >>> table.ids([pa.array(["b", None, "a", "b"])]).tolist()
    [0, 1, 2, 0]
    >>> table.keys(np.array([2, 1]))[0].to_pylist()
    ['a', None]
    """

    def __init__(self, types: tuple[DataType, ...]) -> None:
        self.types = types
        self._feeds = [Feed.CODE if type_.is_wide else feed_of(type_) for type_ in types]
        self._pools = [StringPool() if feed is Feed.CODE else None for feed in self._feeds]
        self._allocate(1024)
        self._size: Ints = np.zeros(1, np.int64)
        if not types:
            self._size[0] = 1  # Without key columns there is always one group.

    version = 0  # changes when groups are renumbered

    def _allocate(self, room: int) -> None:
        self.version += 1
        self._table: Ints = np.full(2 * room, -1, np.int64)
        self._held: Ints = np.zeros((len(self.types), room), np.int64)
        self._held_nulls: Ints = np.zeros(room, np.int64)
        # Indexed by word - base. It has one element before the first key, and none if it is not used.
        self._base = 0
        self._direct: Ints = np.full(1 if len(self.types) == 1 else 0, -1, np.int64)

    def __len__(self) -> int:
        return int(self._size[0])

    @property
    def bytes_held(self) -> int:
        arrays = (self._table, self._held, self._held_nulls, self._direct)
        return sum(a.nbytes for a in arrays) + sum(pool.bytes_held for pool in self._pools if pool is not None)

    def ids(self, columns: list[pa.Array]) -> Ints:
        """The id of every row's key; new keys get new ids."""
        return self.ids_of(*self.words(columns))

    def direct(self, words: Ints, nulls: Ints) -> tuple[int, Ints] | None:
        """The base and the direct array (-1: unknown word) if these words can be looked up in it."""
        return (self._base, self._direct) if len(words) == 1 and not len(nulls) and len(self._direct) else None

    def ids_of(self, words: Ints, nulls: Ints) -> Ints:
        """The ids of keys that `words` has encoded."""
        assert self.types, "a table without key columns has one group, 0"
        count = words.shape[1]
        ids = np.empty(count, np.int64)
        if not count:
            return ids
        done = 0
        direct = self._direct
        while True:
            done = _assign(
                words, nulls, done, self._base, direct, self._table, self._held, self._held_nulls, self._size, ids
            )
            if done == count:
                return ids
            if len(direct) and not 0 <= int(words[0, done]) - self._base < len(direct):
                direct = self._direct_span(words)
            else:
                self._grow()

    def words(self, columns: list[pa.Array]) -> tuple[Ints, Ints]:
        """Encodes keys: a row of words for each column, and the masks of NULLs (empty if there are none)."""
        words, nulls = [], np.empty(0, np.int64)
        for i, (column, feed, pool) in enumerate(zip(columns, self._feeds, self._pools, strict=True)):
            part = encoded(column.cast(pa.string()) if self.types[i].is_wide else column, feed, pool)
            values = part.values
            if feed is Feed.FLOAT:
                # One group for both zeros and one for all NaNs, as in SQL.
                values = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
            if part.valid is not NO_BYTES and len(part.valid):
                missing = part.valid == 0
                values = np.where(missing, 0, values)
                flags = missing.astype(np.int64) << i
                nulls = flags if not len(nulls) else nulls | flags
            words.append(values)
        if len(words) == 1:
            return words[0].reshape(1, -1), nulls
        return np.stack(words), nulls

    def _direct_span(self, words: Ints) -> Ints:
        """Moves and widens the direct array to cover these words; gives it up if they are too far apart."""
        low, high = int(words[0].min()), int(words[0].max())
        if len(self._direct) > 1:
            low, high = min(low, self._base), max(high, self._base + len(self._direct) - 1)
        # Codes of a pool have no gaps, so their span is never much larger than the number of groups.
        limit = max(SPAN_MAX, 8 * len(self))
        if high - low >= limit:
            self._direct = np.empty(0, np.int64)
        else:
            self._base = low
            # Extra room above, because codes and counters grow upwards.
            self._direct = np.full(min(limit, 2 * (high - low + 1) + 64), -1, np.int64)
        return self._direct

    def _grow(self) -> None:
        room = 2 * len(self._held_nulls)
        self._held = np.concatenate([self._held, np.zeros_like(self._held)], axis=1)
        self._held_nulls = np.concatenate([self._held_nulls, np.zeros_like(self._held_nulls)])
        self._table = np.full(2 * room, -1, np.int64)
        _rehash(self._held, self._held_nulls, len(self), self._table)

    def keys(self, ids: Ints, wanted: frozenset[int] | None = None) -> list[pa.Array]:
        """The key columns of these ids. Columns that are not `wanted` (None: all are) are NULL."""
        return [
            self._decoded(i, self._held[i][ids], self._held_nulls[ids])
            if wanted is None or i in wanted
            else pa.nulls(len(ids), type_.to_arrow())
            for i, type_ in enumerate(self.types)
        ]

    def _decoded(self, i: int, words: Ints, nulls: Ints) -> pa.Array:
        missing: Any = (nulls >> i) & 1 == 1
        mask = missing if missing.any() else None
        values = words.view(np.float64) if self._feeds[i] is Feed.FLOAT else words
        if self.types[i].is_wide:
            return decoded(values, mask, Feed.CODE, STRING, self._pools[i]).cast(self.types[i].to_arrow())
        return decoded(values, mask, self._feeds[i], self.types[i], self._pools[i])

    def keep(self, live: Ints) -> Ints:
        """Drops all ids but those in `live`. Returns the new id of each old one (-1: dropped)."""
        assert self.types
        renamed = np.full(len(self), -1, np.int64)
        renamed[live] = np.arange(len(live))
        held, nulls = self._held[:, live], self._held_nulls[live]
        for i, pool in enumerate(self._pools):
            if pool is not None:
                present = np.flatnonzero(np.bincount(held[i][(nulls >> i) & 1 == 0], minlength=len(pool)))
                codes = pool.keep(present)
                there = (nulls >> i) & 1 == 0
                held[i][there] = codes[held[i][there]]
                held[i][~there] = 0
        self._load(held, nulls)
        return renamed

    def _load(self, held: Ints, nulls: Ints) -> None:
        count = len(nulls)
        self._allocate(max(1024, 1 << (count + 1).bit_length()))
        self._held[:, :count] = held
        self._held_nulls[:count] = nulls
        self._size[0] = count
        _rehash(self._held, self._held_nulls, count, self._table)

    def snapshot(self) -> dict[str, Any]:
        count = len(self)
        return {
            "words": self._held[:, :count].reshape(-1).copy(),
            "nulls": self._held_nulls[:count].copy(),
            "strings": [
                pa.record_batch({"s": pool.all_strings()}) if pool is not None else None for pool in self._pools
            ],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        nulls = snapshot["nulls"]
        words = snapshot["words"].reshape(len(self.types), len(nulls)).copy()
        for i, (pool, strings) in enumerate(zip(self._pools, snapshot["strings"], strict=True)):
            if pool is not None and strings is not None:
                pool.load(strings.column(0))
            elif pool is not None:  # An earlier panewise wrote the digits of a wide DECIMAL, as far as a word has room.
                digits = decoded(words[i], None, feed_of(self.types[i]), self.types[i], None)
                codes = encoded(digits.cast(pa.string()), Feed.CODE, pool).values
                words[i] = np.where((nulls >> i) & 1 == 1, 0, codes)
        if self.types:
            self._load(words, nulls)
