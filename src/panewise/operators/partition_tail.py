"""The last rows of every partition: what count windows are measured on.

Rows are kept by partition, within it in stream order, each with its number since the partition began (from 1):

    partition   0   0   0 | 1   1 | 2   2   2
    number      4   5   6 | 1   2 | 8   9  10        sequence: the row's number in the whole stream, from 0

A call costs O(held + new) but for the stable sort by partition. Without PARTITION BY there is one partition, 0.
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
    """Where each run of equal numbers starts."""
    if not len(groups):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))


@dataclass(frozen=True)
class RowCounts:
    """How many rows each partition has had: its key, column by column, and the count. Others have had none."""

    keys: list[pa.Array]
    counts: Ints


class PartitionTail:
    """The last `length` rows of each partition, by number. Rows that came before the first one have numbers too, where
    it is known how many there were (`begin_after`). `held_from`: rows before that instant were not all seen, so that
    those that come are only counted.

    `extend` appends and gives the order in which a payload (held rows, then new ones) has to be rearranged; `trim` says
    which rows stay. Between the two all held and new rows are visible.
    """

    def __init__(
        self, schema: Schema, partition_by: tuple[str, ...], length: int, held_from: int | None = None
    ) -> None:
        columns = [schema[name] for name in partition_by]
        self._names = [column.name for column in columns]
        self._table = GroupTable(tuple(column.type for column in columns))
        self._length = length
        self._held_from = held_from
        # By partition: how many rows it has had, and how many of them, its first ones, were not seen.
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
        """For every row that is held, how many rows at the beginning of its partition were not seen."""
        return self._missed[self.partitions]

    @property
    def misses_some(self) -> bool:
        return bool(self._missed.any())

    def begin_after(self, gone: RowCounts) -> None:
        """Before any row: so many came before."""
        ids = self._ids(gone.keys, len(gone.counts))
        self._counts[ids] = self._missed[ids] = gone.counts

    def counted(self, partition_by: tuple[str, ...]) -> RowCounts | None:
        """How many rows each partition has had, as far as it was told or has seen them; None where it has others."""
        if list(partition_by) != self._names:
            return None
        return RowCounts(self._table.keys(np.arange(len(self._table))), self._counts.copy())

    def seen(self, rows: Rows) -> Rows:
        """The rows from `held_from` on; those before it are counted."""
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

    # -- rows that were --------------------------------------------------------------------------------------------

    def extend(self, rows: Rows) -> Ints:
        """Takes new rows; returns the order of (held rows, new rows) by partition."""
        new = self._partitions_of(rows)
        held = len(self.partitions)
        partitions = np.concatenate([self.partitions, new])
        order = grouped_order(partitions)
        self.partitions = partitions[order]
        self.times = np.concatenate([self.times, rows.times])[order]
        fresh = np.arange(self.next_sequence, self.next_sequence + len(rows))
        self.sequences = np.concatenate([self.sequences, fresh])[order]
        self.next_sequence += len(rows)
        # The first row of a segment is held with its number, or it is the first after those that are only counted.
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
        """Forgets all but the last rows of every partition; returns the mask of those that stay."""
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
        else:  # of an earlier panewise, which counted from the first row that it saw
            self._counts, self._missed = np.zeros((2, len(self._table)), np.int64)
            np.maximum.at(self._counts, self.partitions, self.numbers)
        self.times, self.sequences = snapshot["times"], snapshot["sequences"]
        self.next_sequence = snapshot["next_sequence"]
