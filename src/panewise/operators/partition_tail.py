"""The last rows of every partition, which count windows are computed from.

Rows are ordered by partition, and by the stream within a partition. Each has its number in the partition, from 1:

    partition   0   0   0 | 1   1 | 2   2   2
    number      4   5   6 | 1   2 | 8   9  10        sequence: the row's number in the whole stream, from 0

A call costs O(held + new) and a stable sort by partition. Without PARTITION BY there is one partition, 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.arrays import Ints
from panewise.operators.row_batch import Rows
from panewise.schema import Schema
from panewise.state.group_table import GroupTable

Mask = NDArray[np.bool_]
_SMALL = 1 << 16


def grouped_order(groups: Ints) -> Ints:
    """The stable order by group number."""
    if len(groups) and int(groups.max()) < _SMALL:
        # NumPy sorts 16-bit integers by radix, many times faster.
        return np.argsort(groups.astype(np.uint16), kind="stable")
    return np.argsort(groups, kind="stable")


def segment_starts(groups: Ints) -> Ints:
    """The position at which each run of equal numbers starts."""
    if not len(groups):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))


@dataclass(frozen=True)
class RowCounts:
    """The number of rows in each partition, by its key columns. Partitions that are not listed have no rows."""

    keys: list[pa.Array]
    counts: Ints


class PartitionTail:
    """The last `length` rows of each partition, with their numbers.

    Rows that came before the first one seen are counted too, if their number is known (`begin_after`). `held_from`: not
    all rows before that instant were seen, so rows before it are only counted.

    `extend` appends rows, and returns the order in which the owner must rearrange its payload (held rows, then new
    ones). `trim` returns the rows that stay. Between the two calls all held and new rows are visible.
    """

    def __init__(
        self, schema: Schema, partition_by: tuple[str, ...], length: int, held_from: int | None = None
    ) -> None:
        columns = [schema[name] for name in partition_by]
        self._names = [column.name for column in columns]
        self._table = GroupTable(tuple(column.type for column in columns))
        self._length = length
        self._held_from = held_from
        # By partition: the number of rows so far, and how many of the first ones were not seen.
        self._counts: Ints = np.zeros(len(self._table), np.int64)
        self._missed: Ints = np.zeros(len(self._table), np.int64)
        self.partitions: Ints = np.empty(0, np.int64)
        self.numbers: Ints = np.empty(0, np.int64)
        self.times: Ints = np.empty(0, np.int64)
        self.sequences: Ints = np.empty(0, np.int64)
        self.next_sequence = 0

    @property
    def bytes_held(self) -> int:
        return 4 * self.partitions.nbytes + 2 * self._counts.nbytes + self._table.bytes_held

    # -- rows that were not seen -----------------------------------------------------------------------------------

    @property
    def missed(self) -> Ints:
        """For every held row, how many of the first rows of its partition were not seen."""
        return self._missed[self.partitions]

    @property
    def misses_some(self) -> bool:
        return bool(self._missed.any())

    def begin_after(self, gone: RowCounts) -> None:
        """Rows that came before and were not seen; to be called before any row."""
        ids = self._ids(gone.keys, len(gone.counts))
        self._counts[ids] = self._missed[ids] = gone.counts

    def counted(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """The number of rows of each partition, as far as known; None if it is partitioned by other columns."""
        if list(partition_by) != self._names:
            return None
        return RowCounts(self._table.keys(np.arange(len(self._table))), self._counts.copy())

    def seen(self, rows: Rows) -> Rows:
        """The rows from `held_from` on; earlier rows are only counted."""
        if self._held_from is None or not len(rows) or rows.times[0] >= self._held_from:
            return rows
        early = int(np.searchsorted(rows.times, self._held_from))
        ids = self._partitions_of(rows.slice(0, early))
        self._counts += np.bincount(ids, minlength=len(self._counts))
        self._missed[ids] = self._counts[ids]
        self.next_sequence += early
        return rows.slice(early, len(rows))

    def _partitions_of(self, rows: Rows) -> Ints:
        return self._ids([rows.batch.column(name) for name in self._names], len(rows))

    def _ids(self, keys: list[pa.Array], count: int) -> Ints:
        ids = self._table.ids(keys) if self._names else np.zeros(count, np.int64)
        new = np.zeros(len(self._table) - len(self._counts), np.int64)
        self._counts, self._missed = np.append(self._counts, new), np.append(self._missed, new)
        return ids

    # -- rows that are held ----------------------------------------------------------------------------------------

    def extend(self, rows: Rows) -> Ints:
        """Appends new rows; returns the order of (held rows, new rows) by partition."""
        new = self._partitions_of(rows)
        held = len(self.partitions)
        partitions = np.concatenate([self.partitions, new])
        order = grouped_order(partitions)
        self.partitions = partitions[order]
        self.times = np.concatenate([self.times, rows.times])[order]
        fresh = np.arange(self.next_sequence, self.next_sequence + len(rows))
        self.sequences = np.concatenate([self.sequences, fresh])[order]
        self.next_sequence += len(rows)
        # The first row of a segment is held and has a number, or it is the first one after the rows only counted.
        first_numbers = np.concatenate([self.numbers, self._counts[new] + 1])[order]
        self._counts += np.bincount(new, minlength=len(self._counts))
        starts = segment_starts(self.partitions)
        lengths = np.diff(np.append(starts, held + len(rows)))
        self.numbers = np.repeat(first_numbers[starts] - starts, lengths) + np.arange(held + len(rows))
        return order

    def ends(self) -> Ints:
        """For every row, the position after the last row of its partition."""
        starts = segment_starts(self.partitions)
        bounds = np.append(starts, len(self.partitions))[1:]
        return np.repeat(bounds, bounds - starts)

    def trim(self) -> Mask:
        """Drops all but the last rows of every partition; returns the mask of those that stay."""
        kept = self.ends() - np.arange(len(self.partitions)) <= self._length
        if not kept.all():
            self.partitions, self.numbers = self.partitions[kept], self.numbers[kept]
            self.times, self.sequences = self.times[kept], self.sequences[kept]
        return kept

    def snapshot(self) -> dict[str, Any]:
        return {
            "table": self._table.snapshot(),
            "counts": self._counts,
            "missed": self._missed,
            "held_from": self._held_from,
            "partitions": self.partitions.copy(),
            "numbers": self.numbers.copy(),
            "times": self.times.copy(),
            "sequences": self.sequences.copy(),
            "next_sequence": self.next_sequence,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._table.restore(snapshot["table"])
        self.partitions, self.numbers = snapshot["partitions"], snapshot["numbers"]
        if "counts" in snapshot:
            self._counts, self._missed = snapshot["counts"].copy(), snapshot["missed"].copy()
            self._held_from = snapshot["held_from"]
        else:  # written by an earlier panewise, which counted from the first row that it saw
            self._counts, self._missed = np.zeros((2, len(self._table)), np.int64)
            np.maximum.at(self._counts, self.partitions, self.numbers)
        self.times, self.sequences = snapshot["times"], snapshot["sequences"]
        self.next_sequence = snapshot["next_sequence"]
