"""What archived rows know of the past: windows that reach further back than what the engine holds.

A window of time over an archived stream or query is answered from the archive where that has every row of it: for a new
query, whose first report is then right at once, for a lookup of the past, and for a one-time query. Rows of equal times
come in another order than they came in, so an aggregate that minds is answered from the archive only where no two rows
that it takes have the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panewise.aggregates.columns import integers
from panewise.errors import ArchiveError
from panewise.language.statements import Emit as Emission
from panewise.operators.one_time import relation
from panewise.operators.rows import Rows, concatenated
from panewise.plan.blocks import Block
from panewise.plan.inputs import has_several_inputs
from panewise.plan.nodes import Scan
from panewise.runtime.channel import INT64_MIN, Channel
from panewise.runtime.hosted_query import HostedQuery
from panewise.temporal import TimeWindow, Window

if TYPE_CHECKING:
    from panewise.runtime.archive_keeper import Keeper

TIME = pa.timestamp("us", tz="UTC")
IN_ORDER = ("FIRST", "LAST", "ARG_MIN", "ARG_MAX")  # which row they choose among equal ones depends on the order


@dataclass(frozen=True)
class History:
    """All rows of a channel from `start` to before its watermark, in order of time."""

    start: int
    rows: Rows


def rows_between(keeper: Keeper, start: int, end: int) -> Rows | None:
    """All rows from `start` to before `end`, in order of time; None where the archive may lack some.

    `end` is not past the watermark.
    """
    channel, archive = keeper.channel, keeper.archive
    if archive is None or start < keeper.held_from or end > channel.watermark or start >= end:
        return None
    names = list(channel.schema.names)
    if set(names) != set(keeper.definition.schema.names):
        return None  # the stream sheds rows, and what stands for them is not archived
    try:
        with archive.snapshot() as snapshot:
            archived = snapshot.scan(inserted=(start, end - 1), columns=names)
    except ArchiveError:
        return None
    held = keeper.held()
    held = held.take((held.times >= start) & (held.times < end))
    batch = archived.cast(channel.schema.to_arrow()).combine_chunks().to_batches()
    parts = [Rows(part, integers(part.column(channel.timestamp)), 0) for part in batch]
    rows = concatenated([*parts, held]) if parts or len(held) else channel.empty_rows()
    order = np.argsort(rows.times, kind="stable")
    # Each had a greater number when it came, and so has every row that is yet to come.
    return Rows(rows.batch.take(pa.array(order)), rows.times[order], 0, ascends=True)


def history_of(block: Block, channel: Channel) -> History | None:
    """What a new query needs to give its last report at once; None where it is not archived."""
    window, watermark = block.window, channel.watermark
    if not channel.past or watermark == INT64_MIN or not isinstance(window, TimeWindow) or window.range_us is None:
        return None
    due = watermark if window.slide_us is None else last_report(window, watermark)
    start = due - window.range_us - window.offset_us
    rows = channel.history(start, watermark)
    if rows is None or not is_exact(block, rows):
        return None
    ungrouped = block.aggregate is not None and not block.aggregate.keys
    if ungrouped and window.slide_us is None and not bool((rows.times < watermark - window.offset_us).any()):
        return None  # it says something from its first row on, and whether that has come is not known
    return History(start, rows)


def last_report(window: TimeWindow, instant: int) -> int:
    assert window.slide_us is not None
    return instant - (instant - window.align_us) % window.slide_us


def is_exact(block: Block, rows: Rows) -> bool:
    """Whether the order of rows with equal times cannot be seen in what the block says."""
    if block.aggregate is None:
        return True
    bound = [aggregated.bound for aggregated in block.aggregate.aggregates]
    minds = any(b.name in IN_ORDER or not all(part.kind.algebra.commutative for part in b.parts) for b in bound)
    return not minds or not bool((rows.times[1:] == rows.times[:-1]).any())


# -- lookups -----------------------------------------------------------------------------------------------------------


def past_answer(query: HostedQuery, at: int, channel_of: Callable[[str], Channel]) -> pa.Table | None:
    """What a query has said, or would have said, at an instant that is no longer held; None where nobody knows."""
    block = query.block
    if not isinstance(block.window, TimeWindow) or block.restore:
        return None
    reported = _report(query, block, block.window, at)
    if reported is not None or has_several_inputs(query.plan) or not isinstance(block.source, Scan):
        return reported
    return _recomputed(query, block, block.window, at, channel_of(block.source.name))


def _report(query: HostedQuery, block: Block, window: TimeWindow, at: int) -> pa.Table | None:
    """From an archive of the query's own results: of a report without rows it cannot be told whether there was one."""
    if block.emission is not Emission.RSTREAM or window.slide_us is None:
        return None
    report = last_report(window, at)
    rows = query.history(report, report + 1)
    return pa.Table.from_batches([rows.batch]).cast(query.arrow) if rows is not None and len(rows) else None


def _recomputed(query: HostedQuery, block: Block, window: TimeWindow, at: int, channel: Channel) -> pa.Table | None:
    """From the rows of an archived input."""
    if window.range_us is None:
        return None
    end = (at + 1 if window.slide_us is None else last_report(window, at)) - window.offset_us
    rows = channel.history(end - window.range_us, end)
    if rows is None or not is_exact(block, rows):
        return None
    if block.aggregate is not None and not block.aggregate.keys and not len(rows):
        return None  # whether the query had begun by then is not known
    table = relation(block, rows)
    if window.slide_us is None:
        return table
    for name, instant in (("window_end", end + window.offset_us), ("window_start", end - window.range_us)):
        column = pa.array(np.full(table.num_rows, instant, np.int64), pa.int64()).cast(TIME)
        table = table.add_column(0, name, column)
    return table.cast(query.arrow)


def archived_rows(window: Window, channel: Channel, start: int | None, end: int) -> Rows | None:
    """The rows of a one-time query's window, where they reach further back than what the channel retains."""
    return channel.history(start, end) if isinstance(window, TimeWindow) and start is not None else None
