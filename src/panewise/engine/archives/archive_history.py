"""The past rows with which a new query begins, so that its windows are whole at once.

A new query over archived channels begins with the rows that its windows show already, so that its first report is the
last one that was due. All rows that it needs must be known for every input: from the archive, or from the rows that the
channel retains. Otherwise the query begins as if there were no archive.

    rows        ..a..b.c....d..e.|f..          |: the watermark; f has not been released, and comes by itself
    due                      *                 the last report; the watermark if every instant counts
    [RANGE r]          c....d..e               held_from = due - r
    [ROWS 2]             .  d..e               two rows before `due`, and all that follow
    [UNBOUNDED]   a..b.c....d..e               only if no row has ever expired

An archive keeps rows in order of time, not of arrival. If an answer depends on which of two rows with equal times came
first, the archive is used only if no two rows have equal times. This concerns windows of rows, at their edges and
within a partition, and aggregates such as FIRST. Versions of tables are not archived, so queries over tables begin
without past rows.

Cost: one scan of the times that are needed, one sort, and the operators' work for these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panewise.arrays import INT64_MIN, Ints
from panewise.engine.archives.past_rows import Known, known_rows, last_rows, numbered_rows, rows_back
from panewise.engine.channels.channel import Channel
from panewise.language.statements import Emission
from panewise.operators.partition_tail import RowCounts
from panewise.operators.row_batch import Rows
from panewise.plan.blocks import Block
from panewise.plan.inputs import of_block, report_window, table_inputs, windowed_inputs
from panewise.plan.nodes import Aggregate, Emit
from panewise.temporal import RowsWindow, TimeWindow, Window

IN_ORDER = ("FIRST", "LAST", "ARG_MIN", "ARG_MAX")  # Which of equal rows they choose depends on the order.


@dataclass(frozen=True)
class ArchivedHistory:
    """The rows with which a query over one channel begins, in order of time.

    `held_from`: earlier rows are missing; None: no row that matters is. `begins`: earlier rows count as of this
    instant. `gone`: for a window of rows with SLIDE, the number of rows before the first of these, by partition.
    `silent_rows`: the results of this many rows were due long ago, and are not shown.
    """

    rows: Rows
    held_from: int | None = None
    begins: int | None = None
    gone: RowCounts | None = None
    silent_rows: int = 0

    @property
    def first(self) -> int:
        """Number of rows before the first of these, without PARTITION BY."""
        return 0 if self.gone is None else int(self.gone.counts[0])


@dataclass(frozen=True)
class PlanHistory:
    """The rows with which a plan over several inputs begins, by input; `begins`: the first instant of its results."""

    begins: int
    rows: list[Rows]
    held_from: list[int | None]


def history_of(block: Block, channel: Channel) -> ArchivedHistory | None:
    """The rows that a new query over one channel needs to give its last report at once; None if they are not known."""
    window, watermark = block.window, channel.watermark
    if watermark == INT64_MIN or window is None or not (channel.past or _retains_partitions(window, channel)):
        return None
    if isinstance(window, RowsWindow):
        return _of_counted(block, window, channel) if window.periodic else _of_last_rows(block, window, channel)
    if window.range_us is None:
        return _of_everything(block, window, channel)
    due = _due(window, watermark)
    if block.restore:  # The last report contains rows that came and went since the report before it.
        assert window.slide_us is not None
        due -= window.slide_us
    start = due - window.range_us - window.offset_us
    known = known_rows(channel, start, watermark)
    if known is None or not is_exact(block, known):
        return None
    history = ArchivedHistory(known.rows, start)
    if block.aggregate is None or block.aggregate.keys or (window.periodic and not block.restore):
        return history
    # An ungrouped answer has results from its first row on.
    old = int(np.searchsorted(known.rows.times, due - window.offset_us))
    if block.restore:
        return history if old else None
    return history if channel.released_now() > len(known.rows) - old else ArchivedHistory(known.rows)


def _retains_partitions(window: Window, channel: Channel) -> bool:
    """Whether a channel retains all rows, for a partitioned window of rows, which could not begin right otherwise."""
    partitioned = isinstance(window, RowsWindow) and bool(window.partition_by)
    return partitioned and channel.retain_us > 0 and channel.retains(None)


def _due(window: TimeWindow, watermark: int) -> int:
    return watermark if window.slide_us is None else window.last_report(watermark)


def _of_everything(block: Block, window: TimeWindow, channel: Channel) -> ArchivedHistory | None:
    """[UNBOUNDED]: all rows that ever came; None if each row is a result by itself, at its own time."""
    if block.rows_stand_alone or block.restore:
        return None
    known = known_rows(channel, INT64_MIN, channel.watermark)
    if known is None or not is_exact(block, known):
        return None
    return ArchivedHistory(known.rows, begins=_due(window, channel.watermark))


def _of_last_rows(block: Block, window: RowsWindow, channel: Channel) -> ArchivedHistory | None:
    """[ROWS n], row by row."""
    rows = last_rows(window, channel, channel.watermark, channel.watermark)
    if rows is None or not is_exact(block, Known(rows, arrived=False)):
        return None
    return ArchivedHistory(rows, begins=channel.watermark)


def _of_counted(block: Block, window: RowsWindow, channel: Channel) -> ArchivedHistory | None:
    """[ROWS n SLIDE m]: reports are numbered by their last rows, so the rows begin after a multiple of m."""
    assert window.slide is not None
    reach, slide, watermark = window.rows + window.offset, window.slide, channel.watermark
    if window.partition_by:
        known, before = known_rows(channel, INT64_MIN, watermark), 0
    else:
        released = channel.released_now()
        first = int(_firsts(np.array([released]), reach, slide)[0])
        known = rows_back(channel, released - first + 1, watermark, watermark)
        before = 0 if known is None else released - len(known.rows)
    if known is None:
        return None
    numbered = numbered_rows(known.rows, channel, window, before)
    firsts = _firsts(numbered.totals, reach, slide)
    kept = numbered.numbers > firsts[numbered.owners]
    rows = known.rows.take(kept)
    if not known.arrived and (numbered.tied(known.rows.times, kept) or not is_exact(block, Known(rows, arrived=False))):
        return None
    if not window.partition_by:
        return ArchivedHistory(rows, gone=RowCounts([], firsts))
    causes = np.flatnonzero((numbered.numbers[kept] % slide == 0) & (numbered.numbers[kept] > window.offset))
    if not known.arrived and len(rows.times[causes]) > 1 and np.ptp(rows.times[causes[-2:]]) == 0:
        return None  # It is not known which report is the last one.
    shows_last = len(causes) and block.emission is Emission.RSTREAM
    return ArchivedHistory(
        rows, gone=RowCounts(numbered.keys, firsts), silent_rows=int(causes[-1]) if shows_last else len(rows)
    )


def _firsts(totals: Ints, reach: int, slide: int) -> Ints:
    """Number of rows of each partition to leave out: a multiple of the slide, and none of the last report."""
    result: Ints = np.maximum(totals // slide * slide - reach, 0) // slide * slide
    return result


def is_exact(block: Block, known: Known) -> bool:
    """Whether the order of rows with equal times is known, or makes no difference to the block's results."""
    minds = block.aggregate is not None and _minds_order(block.aggregate)
    return not minds or known.arrived or not bool((known.rows.times[1:] == known.rows.times[:-1]).any())


def _minds_order(node: Aggregate) -> bool:
    bound = [aggregated.bound for aggregated in node.aggregates]
    return any(b.name in IN_ORDER or not all(part.kind.algebra.commutative for part in b.parts) for b in bound)


def is_recomputable(plan: Emit) -> bool:
    """Whether the results of a plan over several inputs do not depend on the order in which rows come."""
    if table_inputs(plan) or any(node.window.internal for node in windowed_inputs(plan)):
        return False
    return not minds_order(plan)


def minds_order(plan: Emit) -> bool:
    """Whether the order of rows with equal times makes a difference to a plan's results."""
    return any(isinstance(node, Aggregate) and _minds_order(node) for node in of_block(plan.input))


def plan_history(plan: Emit, channels: Sequence[Channel]) -> PlanHistory | None:
    """The rows that a new query over several inputs needs to give its last report at once; None if they are not
    known."""
    reached = min(channel.watermark for channel in channels)
    if reached == INT64_MIN or not any(channel.past for channel in channels) or not is_recomputable(plan):
        return None
    report = report_window(plan)
    due = reached if report is None else report.last_report(reached)
    if plan.restore:
        assert report is not None and report.slide_us is not None
        due -= report.slide_us
    found = []
    for node, channel in zip(windowed_inputs(plan), channels, strict=True):
        known = _of_input(node.window, channel, due)
        if known is None:
            return None
        found.append(known)
    return PlanHistory(due - 1, [rows for rows, _ in found], [held_from for _, held_from in found])


def _of_input(window: Window, channel: Channel, due: int) -> tuple[Rows, int | None] | None:
    """The rows that an input's window shows just before `due`, and all that follow; and the instant from which all rows
    are there."""
    watermark = channel.watermark
    if isinstance(window, RowsWindow):
        rows = None if window.periodic else last_rows(window, channel, due, watermark)
        return None if rows is None else (rows, None)
    start = INT64_MIN if window.range_us is None else due - window.range_us - window.offset_us
    known = known_rows(channel, start, watermark)
    if known is None:
        return None
    old = int(np.searchsorted(known.rows.times, due - window.offset_us))
    # If no row has ever been in the window, nothing is missing, and an ungrouped answer has not begun.
    has_begun = window.range_us is not None and channel.released_now() > len(known.rows) - old
    return known.rows, start if has_begun else None
