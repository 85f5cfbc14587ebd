"""The past rows of a channel that an archive knows: those in its files, and held rows, which are not in them yet.

A stretch of time is answered whole or not at all. It is known if the archive has taken every row from its first instant
on, or if it has taken every row that ever came and none of them has expired.

    times      ...|......|..........|.....      |: covered_from, held_from and the last cut, in this order
                         [ in files )[held)

Cost: one scan of the files for the times that are needed, and one sort.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers
from panewise.arrays import INT64_MIN
from panewise.engine.channels.channel import Channel
from panewise.errors import ArchiveError
from panewise.operators.row_batch import Rows, concatenated

if TYPE_CHECKING:
    from panewise.archive.snapshot import Snapshot


@dataclass(frozen=True)
class ArchivedPast:
    """The past at one moment. `channel`: the archived channel, as it was then; `names`: the archived columns.

    `held_from` and `covered_from`: see `Keeper`. `taken_rows`: the number of rows that were taken, and `held_count` of
    those that are not in the files. `snapshot`: gives a version of the files; `held`: gives the rows that are not in
    files with this last cut. `each`: called with every batch that is read from files.
    """

    channel: Channel
    names: tuple[str, ...]
    held_from: int
    covered_from: int
    taken_rows: int
    held_count: int
    snapshot: Callable[[], AbstractContextManager[Snapshot]]
    held: Callable[[int | None], Rows]
    each: Callable[[pa.RecordBatch], None] | None = None

    def rows_between(self, start: int, end: int) -> Rows | None:
        """All rows from `start` (INT64_MIN: all rows that ever came) to before `end`, in order of time; None if some
        may be missing, or if `end` is after the watermark."""
        channel = self.channel
        if end > channel.watermark or start >= end:
            return None
        names = list(channel.schema.names)
        if set(names) != set(self.names):
            return None  # The stream sheds rows, and the column with their excess is not archived.
        reaches = start >= self.held_from
        if not reaches and self.covered_from != INT64_MIN:
            return None
        since, until = (start, end) if reaches else (INT64_MIN, channel.watermark)
        try:
            with self.snapshot() as snapshot:
                there = sum(file.rows for file in snapshot.manifest.files) + self.held_count
                if not reaches and there < self.taken_rows:
                    return None  # Some rows have expired.
                written_to = snapshot.manifest.now_us
                archived = snapshot.scan(
                    inserted=(None if since == INT64_MIN else since, until - 1), columns=names, each=self.each
                )
        except ArchiveError:
            return None
        held = self.held(written_to)
        held = held.take((held.times >= since) & (held.times < until))
        if not reaches and archived.num_rows + len(held) != self.taken_rows:
            return None
        batch = archived.cast(channel.schema.to_arrow()).combine_chunks().to_batches()
        parts = [Rows(part, integers(part.column(channel.timestamp)), 0) for part in batch]
        rows = concatenated([*parts, held]) if parts or len(held) else channel.empty_rows()
        order = np.argsort(rows.times, kind="stable")
        order = order[slice(*np.searchsorted(rows.times[order], (start, end)))]
        # Numbers from 0 on are at most those that the rows had on arrival, and less than those of rows to come.
        return Rows(rows.batch.take(pa.array(order)), rows.times[order], 0, ascends=True)
