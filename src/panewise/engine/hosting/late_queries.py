"""Queries that come too late: what would have to be answered from a part of the rows is refused.

A query that comes in mid-stream begins when its windows are whole. Some never are, unless archives know all that was
before (`archive_history`): windows without an end under aggregates, joins, reports and lookups, windows of rows beside
other inputs, and windows of the rows of each partition whose reports are numbered or compared, or which an aggregate
takes all together. Over a query that came in mid-stream itself: windows that number its results, whose first one
depends on what others held, and windows of time while nobody knows when its windows of rows will be whole.
"""

from __future__ import annotations

from panewise.engine.channels.channel import Channel
from panewise.engine.hosting.row_counts import rows_gone
from panewise.engine.tables.table import Table
from panewise.errors import PlanError
from panewise.language.expressions import ColumnRef
from panewise.language.statements import Emission
from panewise.plan.blocks import Block
from panewise.temporal import RowsWindow, TimeWindow, Window


def needs_all(block: Block, channel: Channel) -> bool:
    """Whether it comes too late, unless all rows there ever were are known."""
    endless = isinstance(block.window, TimeWindow) and block.window.range_us is None
    if endless and not block.rows_stand_alone:
        return channel.held_from is not None
    return _unknown_counts(block, channel) is not None


def whole_from(block: Block, held_from: int | None) -> int | None:
    """The time of the first result for certain, where rows before `held_from` have gone by. Of windows of rows it is
    not known (`check_begun`)."""
    window = block.window
    if held_from is None or not isinstance(window, TimeWindow) or window.range_us is None:
        return held_from
    return held_from + window.range_us + window.offset_us - (not block.periodic)


def check_begun(window: Window | None, channel: Channel, alone: bool) -> None:
    """Refuses windows of time that would be put together from a part of a query's results. `alone` as below."""
    if not alone and not isinstance(window, RowsWindow) and channel.is_to_begin:
        raise PlanError(
            f"{channel.called} came in mid-stream and begins when enough rows have come: until then, or until all its "
            "partitions have begun, a window of time over it would hold a part of its results",
            hint="create both before the first row, or this query when that one, without partitions, has results",
        )


def check_numbers(window: Window | None, channel: Channel) -> None:
    """Refuses to number the results of a query whose first one is not known: whatever is kept of them."""
    if not isinstance(window, RowsWindow) or not window.periodic:
        return
    if not channel.counts_all:
        raise PlanError(
            f"{window} numbers the results of {channel.called} from the first one on, and those are not known: it came "
            "in mid-stream, or (on Spark) is computed anew for new readers",
            hint="create both before the first row, or use a window of time",
        )


def check_counts(block: Block, channel: Channel) -> None:
    """Refuses a window of rows that would begin with numbers, or with partitions, missing."""
    unknown = _unknown_counts(block, channel)
    if unknown is not None:
        raise PlanError(
            f"'{channel.name}' has had rows already, and {unknown}",
            hint="create the query before the first row, or have all rows kept: by the stream's option 'retain' or by "
            "an archive, from the first row on",
        )


def _unknown_counts(block: Block, channel: Channel) -> str | None:
    """What a window of rows has to know of those that have gone by, and cannot; None where it can."""
    window = block.window
    if not isinstance(window, RowsWindow):
        return None
    gone = rows_gone(window, channel)
    if window.periodic and gone is None:
        of = "of each partition" if window.partition_by else "from the first one on"
        return f"{window} numbers the rows {of}"
    none_gone = gone is not None and not gone.counts.any()
    if window.periodic:
        if not window.partition_by or none_gone or block.emission is Emission.RSTREAM:
            return None
        return f"{block.emission.value} over {window} compares successive reports, of whatever partition they are"
    keys = () if block.aggregate is None else block.aggregate.keys
    grouped = {key.name for key in keys if isinstance(key, ColumnRef)}
    if not window.partition_by or block.aggregate is None or grouped.issuperset(window.partition_by):
        return None  # it begins when enough rows have come, each partition by itself
    return None if none_gone else f"an aggregate over several partitions of {window} needs the last rows of all of them"


def check_window(window: Window | None, channel: Channel, alone: bool) -> None:
    """`alone`: each row is a result by itself, so that one that was not seen is missing in no other one's."""
    endless = isinstance(window, TimeWindow) and window.range_us is None
    if endless and not alone and channel.held_from is not None:
        raise PlanError(
            f"'{channel.name}' has had rows already, and a report, lookup or join over [UNBOUNDED] needs all of them",
            hint="create the query before the first row, or give its window a RANGE",
        )


def check_source(channel: Channel) -> None:
    """Refuses results that are older than the watermark when they come."""
    if channel.comes_late:
        raise PlanError(
            f"'{channel.name}' reports windows of rows of the past (OFFSET), which no window can take in any more",
            hint="leave out its OFFSET",
        )


def check_rows_seen(window: Window, channel: Channel) -> None:
    """A window of rows is whole when enough of them have come, and nothing says when that is for other inputs."""
    if isinstance(window, RowsWindow) and channel.held_from is not None:
        raise PlanError(
            f"'{channel.name}' has had rows already, and a window of rows cannot join other inputs in mid-stream",
            hint="create the query before the first row, or use a window of time",
        )


def check_versions(table: Table, windows: list[Window]) -> None:
    """Rows of a window without end may be older than what is known of a table that keeps no versions."""
    endless = next((w for w in windows if isinstance(w, TimeWindow) and w.range_us is None), None)
    if endless is not None and table.held_from is not None and not table.definition.retroactive:
        raise PlanError(
            f"'{table.name}' has had changes already, and rows of {endless} may be older than what is known of it",
            hint="create the query before the first change, or give its window a RANGE",
        )
