"""The last rows of every partition: what count windows are measured on.

Rows are kept by partition, within it in stream order, each with its number since the partition began (from 1):

    partition   0   0   0 | 1   1 | 2   2   2
    number      4   5   6 | 1   2 | 8   9  10        sequence: the row's number in the whole stream, from 0

A call costs O(held + new) but for the stable sort by partition. Without PARTITION BY there is one partition, 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from panewise.operators.rows import Rows
from panewise.schema import Schema
from panewise.state.group_table import GroupTable

Ints = NDArray[np.int64]
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


class PartitionTail:
    """The last `length` rows of each partition, by number.

    `extend` appends and gives the order in which a payload (held rows, then new ones) has to be rearranged; `trim` says
    which rows stay. Between the two all held and new rows are visible.
    """

    def __init__(self, schema: Schema, partition_by: tuple[str, ...], length: int) -> None:
        columns = [schema[name] for name in partition_by]
        self._names = [column.name for column in columns]
        self._table = GroupTable(tuple(column.type for column in columns))
        self._length = length
        self.partitions: Ints = np.empty(0, np.int64)
        self.numbers: Ints = np.empty(0, np.int64)
        self.times: Ints = np.empty(0, np.int64)
        self.sequences: Ints = np.empty(0, np.int64)
        self.next_sequence = 0

    @property
    def bytes_held(self) -> int:
        return 4 * self.partitions.nbytes + self._table.bytes_held

    def extend(self, rows: Rows) -> Ints:
        """Takes new rows; returns the order of (held rows, new rows) by partition."""
        if self._names:
            new = self._table.ids([rows.batch.column(name) for name in self._names])
        else:
            new = np.zeros(len(rows), np.int64)
        held = len(self.partitions)
        partitions = np.concatenate([self.partitions, new])
        order = grouped_order(partitions)
        self.partitions = partitions[order]
        self.times = np.concatenate([self.times, rows.times])[order]
        fresh = np.arange(self.next_sequence, self.next_sequence + len(rows))
        self.sequences = np.concatenate([self.sequences, fresh])[order]
        self.next_sequence += len(rows)
        # The first row of a segment is held with its number, or it is the partition's first.
        first_numbers = np.concatenate([self.numbers, np.ones(len(rows), np.int64)])[order]
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
            "partitions": self.partitions.copy(),
            "numbers": self.numbers.copy(),
            "times": self.times.copy(),
            "sequences": self.sequences.copy(),
            "next_sequence": self.next_sequence,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._table.restore(snapshot["table"])
        self.partitions, self.numbers = snapshot["partitions"], snapshot["numbers"]
        self.times, self.sequences = snapshot["times"], snapshot["sequences"]
        self.next_sequence = snapshot["next_sequence"]
