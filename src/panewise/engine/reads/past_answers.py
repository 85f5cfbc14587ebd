"""Lookups of the past: what a query answered, or would have answered, at an instant that it does not hold any more.

An archive of the query has its reports. Otherwise the answer is computed like that of a one-time query, from the rows
that were in the windows then, if all of them are archived or retained (`archive_history`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from panewise.arrays import INT64_MIN
from panewise.engine.archives.archive_history import is_exact, is_recomputable
from panewise.engine.archives.past_rows import Known, known_rows, shown_rows
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.hosted_query import HostedQuery
from panewise.engine.reads.one_time_inputs import answer_from
from panewise.language.statements import Emission
from panewise.operators.once.one_time import relation
from panewise.operators.row_batch import Rows
from panewise.plan.blocks import Block
from panewise.plan.inputs import has_several_inputs, of_block, report_window, windowed_inputs
from panewise.plan.nodes import Aggregate, Scan
from panewise.temporal import RowsWindow, TimeWindow, Window

TIME = pa.timestamp("us", tz="UTC")
ChannelOf = Callable[[str], Channel]


def past_answer(query: HostedQuery, at: int, channel_of: ChannelOf) -> pa.Table | None:
    """The answer at an instant that the query has passed; None if it is not known."""
    block = query.block
    if has_several_inputs(query.plan):
        window = report_window(query.plan)
        reported = _reported(query, window, at)
        return reported if reported is not None else _from_inputs(query, window, at, channel_of)
    if block.restore:
        return None
    if isinstance(block.window, TimeWindow):
        reported = _reported(query, block.window, at)
        if reported is not None:
            return reported
    return _recomputed(query, block, at, channel_of) if isinstance(block.source, Scan) else None


def _reported(query: HostedQuery, window: TimeWindow | None, at: int) -> pa.Table | None:
    """The answer from an archive of the query's results; None if it has no rows, as there may have been no report."""
    if query.plan.emission is not Emission.RSTREAM or query.plan.restore or window is None or window.slide_us is None:
        return None
    report = window.last_report(at)
    rows = query.history(report, report + 1)
    return pa.Table.from_batches([rows.batch]).cast(query.arrow) if rows is not None and len(rows) else None


def _recomputed(query: HostedQuery, block: Block, at: int, channel_of: ChannelOf) -> pa.Table | None:
    """The answer computed from the rows of the input."""
    assert block.window is not None and isinstance(block.source, Scan)
    until = _until(block.window, at)
    known = None if until is None else _rows_in(block.window, channel_of(block.source.name), until)
    if until is None or known is None or not is_exact(block, known):
        return None
    if block.aggregate is not None and not block.aggregate.keys and not len(known.rows):
        return None  # whether the query had begun by then is not known
    return _stamped(query, block.window, until, relation(block, known.rows))


def _from_inputs(query: HostedQuery, window: TimeWindow | None, at: int, channel_of: ChannelOf) -> pa.Table | None:
    """The answer computed from the rows of several inputs."""
    plan, inputs = query.plan, windowed_inputs(query.plan)
    until = at + 1 if window is None else _until(window, at)
    if until is None or plan.restore or not is_recomputable(plan):
        return None
    held: dict[int, Rows] = {}
    for node in inputs:
        known = _rows_in(node.window, channel_of(node.input.name), until) if isinstance(node.input, Scan) else None
        if known is None:
            return None
        held[id(node)] = known.rows
    ungrouped = any(isinstance(node, Aggregate) and not node.keys for node in of_block(plan.input))
    if ungrouped and not any(map(len, held.values())):
        return None  # whether the query had begun by then is not known
    table = answer_from(plan, held, {}, until)
    return table if window is None else _stamped(query, window, until, table)


def _until(window: Window, at: int) -> int | None:
    """The instant just before which the answer is asked for; None if the window reports by numbers of rows."""
    if isinstance(window, RowsWindow):
        return None if window.periodic else at + 1
    return at + 1 if window.slide_us is None else window.last_report(at)


def _rows_in(window: Window, channel: Channel, until: int) -> Known | None:
    """The rows that a window shows just before an instant; None if they are not known."""
    if until > channel.watermark:
        return None
    if isinstance(window, RowsWindow):
        return shown_rows(window, channel, until)
    end = until - window.offset_us
    return known_rows(channel, INT64_MIN if window.range_us is None else end - window.range_us, end)


def _stamped(query: HostedQuery, window: Window, report: int, table: pa.Table) -> pa.Table:
    """The table with `window_start` and `window_end`, if the window has SLIDE."""
    if not isinstance(window, TimeWindow) or window.slide_us is None:
        return table
    start = None if window.range_us is None else report - window.offset_us - window.range_us
    for name, instant in (("window_end", report), ("window_start", start)):
        if instant is None:
            column = pa.nulls(table.num_rows, TIME)
        else:
            column = pa.array(np.full(table.num_rows, instant, np.int64), pa.int64()).cast(TIME)
        table = table.add_column(0, name, column)
    return table.cast(query.arrow)
