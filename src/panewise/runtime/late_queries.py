"""Queries that come too late: what would have to be answered from a part of the rows is refused.

A query that comes in mid-stream begins when its windows are whole. Some never are, unless archives know all that was
before (`archive_history`): windows without an end over aggregates and joins, and windows of rows beside other inputs.
"""

from __future__ import annotations

from panewise.errors import PlanError
from panewise.plan.blocks import Block
from panewise.runtime.channel import Channel
from panewise.runtime.hosted_query import HostedQuery
from panewise.runtime.table import Table
from panewise.temporal import RowsWindow, TimeWindow, Window


def needs_all(block: Block, channel: Channel) -> bool:
    """Whether it comes too late, unless all rows there ever were are known."""
    endless = isinstance(block.window, TimeWindow) and block.window.range_us is None
    return endless and block.aggregate is not None and channel.held_from is not None


def check_window(window: Window | None, channel: Channel, alone: bool) -> None:
    """`alone`: each row is a result by itself, so that one that was not seen is missing in no other one's."""
    endless = isinstance(window, TimeWindow) and window.range_us is None
    if endless and not alone and channel.held_from is not None:
        raise PlanError(
            f"'{channel.name}' has had rows already, and an aggregate or join over [UNBOUNDED] needs all of them",
            hint="create the query before the first row, or give its window a RANGE",
        )


def check_source(channel: Channel) -> None:
    """Refuses results that are older than the watermark when they come."""
    if isinstance(channel, HostedQuery):
        inner = channel.block.window
        if isinstance(inner, RowsWindow) and inner.periodic and inner.offset:
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
