"""Refuses queries that come too late: those that would answer from a part of the rows.

A query that comes in mid-stream begins when its windows are whole. Unless archives know all earlier rows
(`archive_history`), some windows never are:

- endless windows under aggregates, joins, reports and lookups;
- windows of rows beside other inputs;
- windows of rows by partition, if their reports are numbered or compared, or if one aggregate reads all partitions;
- over a query that came in mid-stream itself: windows that number its results, because other queries decide which one
  is the first; and windows of time, while it is not known when its windows of rows will be whole.
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
    """Whether a query comes too late, unless all rows since the beginning are known."""
    endless = isinstance(block.window, TimeWindow) and block.window.range_us is None
    if endless and not block.rows_stand_alone:
        return channel.held_from is not None
    return _unknown_counts(block, channel) is not None


def whole_from(block: Block, held_from: int | None) -> int | None:
    """The instant from which results are complete if rows before `held_from` have passed; None if none have. For
    windows of rows nobody knows it (`check_begun`)."""
    window = block.window
    if held_from is None or not isinstance(window, TimeWindow) or window.range_us is None:
        return held_from
    return held_from + window.range_us + window.offset_us - (not block.periodic)


def check_begun(window: Window | None, channel: Channel, alone: bool) -> None:
    """Refuses windows of time over a part of a query's results. `alone`: each row is a result by itself."""
    if not alone and not isinstance(window, RowsWindow) and channel.is_to_begin:
        raise PlanError(
            f"{channel.called} came in mid-stream and begins when enough rows have come: until then, or until all its "
            "partitions have begun, a window of time over it would hold a part of its results",
            hint="create both before the first row; or, if that query has no partitions, this one when it has results",
        )


def check_numbers(window: Window | None, channel: Channel) -> None:
    """Refuses to number the results of a query whose first result is not known, even if all later ones are kept."""
    if not isinstance(window, RowsWindow) or not window.periodic:
        return
    if not channel.counts_all:
        raise PlanError(
            f"{window} numbers the results of {channel.called} from the first one on, and those are not known: it came "
            "in mid-stream, or (on Spark) is computed anew for new readers",
            hint="create both before the first row, or use a window of time",
        )


def check_counts(block: Block, channel: Channel) -> None:
    """Refuses a window of rows that would begin without its numbers or without some partitions."""
    unknown = _unknown_counts(block, channel)
    if unknown is not None:
        raise PlanError(
            f"'{channel.name}' has had rows already, and {unknown}",
            hint="create the query before the first row, or have all rows kept: by the stream's option 'retain' or by "
            "an archive, from the first row on",
        )


def _unknown_counts(block: Block, channel: Channel) -> str | None:
    """Why a window of rows cannot begin without the rows that have passed; None if it can."""
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
        return f"{block.emission.value} over {window} compares successive reports, also those of different partitions"
    keys = () if block.aggregate is None else block.aggregate.keys
    grouped = {key.name for key in keys if isinstance(key, ColumnRef)}
    if not window.partition_by or block.aggregate is None or grouped.issuperset(window.partition_by):
        return None  # Each partition begins when enough of its rows have come.
    return None if none_gone else f"an aggregate over several partitions of {window} needs the last rows of all of them"


def check_window(window: Window | None, channel: Channel, alone: bool) -> None:
    """Refuses an endless window over a stream that has had rows. `alone`: each row is a result by itself, so that no
    result depends on a row that was not seen."""
    endless = isinstance(window, TimeWindow) and window.range_us is None
    if endless and not alone and channel.held_from is not None:
        raise PlanError(
            f"'{channel.name}' has had rows already, and a report, lookup or join over [UNBOUNDED] needs all of them",
            hint="create the query before the first row, or give its window a RANGE",
        )


def check_source(channel: Channel) -> None:
    """Refuses to read a query whose results are older than the watermark when they come."""
    if channel.comes_late:
        raise PlanError(
            f"'{channel.name}' reports past windows of rows (OFFSET), which are too old for any window over it",
            hint="leave out its OFFSET",
        )


def check_rows_seen(window: Window, channel: Channel) -> None:
    """Refuses a window of rows beside other inputs in mid-stream: the others cannot know when it is whole."""
    if isinstance(window, RowsWindow) and channel.held_from is not None:
        raise PlanError(
            f"'{channel.name}' has had rows already, and a window of rows cannot join other inputs in mid-stream",
            hint="create the query before the first row, or use a window of time",
        )


def check_versions(table: Table, windows: list[Window]) -> None:
    """Refuses an endless window beside a table that has changed: its rows may be older than the version it knows."""
    endless = next((w for w in windows if isinstance(w, TimeWindow) and w.range_us is None), None)
    if endless is not None and table.held_from is not None and not table.definition.retroactive:
        raise PlanError(
            f"'{table.name}' has had changes already, and rows of {endless} may be older than its versions",
            hint="create the query before the first change, or give its window a RANGE",
        )
