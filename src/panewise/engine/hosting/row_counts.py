"""How many rows have gone by that a new window of rows counts and will not see.

Of a stream that is known, and of a query that was there from the first row on, or that hands rows on from its creation
on. Others that came in mid-stream may begin earlier beside queries that hold what they need than alone: their results
have no numbers. On Spark the copy of a query that is made later has none either. Of each partition somebody must have
counted: a query over the same channel and partitions that has been there from the first row on, or that began with the
counts of another one.

    released by the channel      7
    counted by a query           a: 4, b: 3        all of them, so that these are the partitions' counts
    by one that came later       a: 2, b: 1        not all: it does not know what came before it
"""

from __future__ import annotations

import numpy as np

from panewise.engine.channels.channel import Channel
from panewise.operators.partition_tail import RowCounts
from panewise.temporal import RowsWindow


def rows_gone(window: RowsWindow, channel: Channel) -> RowCounts | None:
    """The rows that the watermark has passed, by partition; None where nobody has counted them."""
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
