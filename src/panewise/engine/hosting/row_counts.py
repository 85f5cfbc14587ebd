"""How many rows have passed already that a new window of rows counts, although it does not see them.

The total is known for a stream, for a query that has run from the first row on, and for a query that hands rows on from
its creation on. Results of other queries have no numbers: a query that came in mid-stream begins earlier if others hold
the rows that it needs. On Spark, a copy of a query that is made later has no numbers either.

Counts by partition are known only if a query over the same channel and partitions has counted all rows: because it has
run from the first row on, or because it began with the counts of another one.

    released by the channel      7
    counted by a query           a: 4, b: 3        all rows: these are the counts of the partitions
    counted by a later query     a: 2, b: 1        not all rows: earlier ones are missing
"""

from __future__ import annotations

import numpy as np

from panewise.engine.channels.channel import Channel
from panewise.operators.partition_tail import RowCounts
from panewise.temporal import RowsWindow


def rows_gone(window: RowsWindow, channel: Channel) -> RowCounts | None:
    """How many rows the watermark has passed, by partition; None if nobody has counted them."""
    if not channel.counts_all:
        return None
    gone = channel.released_now()
    if not window.partition_by:
        return RowCounts([], np.array([gone]))
    if not gone:
        empty = channel.empty_rows().batch
        return RowCounts([empty.column(name) for name in window.partition_by], np.empty(0, np.int64))
    for consumer in channel.consumers:
        counted = consumer.counted_rows(window.partition_by)
        if counted is not None and int(counted.counts.sum()) == gone:
            return counted
    return None
