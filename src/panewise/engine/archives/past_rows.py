"""The past rows of a channel, from the rows that it retains or from an archive.

An archive keeps rows in order of time, not of arrival. So it knows the last n rows of a channel, or of each partition,
only if no two of these rows, nor the first of them and the row before it, have equal times.

    times      ..3..5..5..6..8        the last 2 rows are known; the last 3 are not, as either row of time 5 may be one

Cost: a scan of the times that are searched. The search for the last rows goes back in growing steps, over at most about
four times the time that is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panewise.arrays import INT64_MIN, Ints
from panewise.engine.channels.channel import Channel
from panewise.operators.row_batch import Rows
from panewise.state.group_table import GroupTable
from panewise.temporal import INSTANT_MIN, RowsWindow

Mask = NDArray[np.bool_]
STEP = 60_000_000  # The search for the last rows of a channel goes back this far at first.


@dataclass(frozen=True)
class Known:
    """All rows of a stretch of time, in order of time; `arrived`: rows with equal times are in order of arrival."""

    rows: Rows
    arrived: bool


def known_rows(channel: Channel, start: int, end: int) -> Known | None:
    """All rows from `start` (INT64_MIN: all rows that ever came) to before `end`; None if they are not known."""
    if not channel.rows_seen and not channel.of_query:
        return Known(channel.empty_rows(), arrived=True)
    if channel.retain_us and channel.retains(None if start == INT64_MIN else start):
        rows = channel.retained()
        rows = rows.take((rows.times >= start) & (rows.times < end))
        return Known(rows.take(np.lexsort((rows.arrivals, rows.times))), arrived=True)
    archived = channel.history(start, end)
    return None if archived is None else Known(archived, arrived=False)


def rows_back(channel: Channel, count: int, before: int, end: int) -> Known | None:
    """At least the last `count` rows before an instant, or all if there were fewer, and all rows from there to before
    `end`; None if they are not known."""
    for start in _further_back(channel, before):
        known = known_rows(channel, start, end)
        if known is not None and (start == INT64_MIN or np.searchsorted(known.rows.times, before) >= count):
            return known
    return None


def _further_back(channel: Channel, before: int) -> Iterator[int]:
    """Instants at which a search may begin: further and further back, then as far as the past is known, then all."""
    reach = min([*(past.held_from for past in channel.past), channel.retained_from if channel.retain_us else before])
    step = STEP
    while before - step > max(reach, INSTANT_MIN):
        yield before - step
        step *= 4
    if reach != INT64_MIN:
        yield reach
    yield INT64_MIN


@dataclass(frozen=True)
class Numbered:
    """The partition of each row and its number there, from 1 on; the key and the number of rows of each partition."""

    owners: Ints
    numbers: Ints
    keys: list[pa.Array]
    totals: Ints

    def tied(self, times: Ints, kept: Mask, for_good: bool = True) -> bool:
        """Whether the order of two rows of a partition with equal times decides which rows are kept; `for_good`: or
        which of the kept rows will leave first."""
        order = np.argsort(self.owners, kind="stable")
        owners, times, kept = self.owners[order], times[order], kept[order]
        same = (owners[1:] == owners[:-1]) & (times[1:] == times[:-1])
        return bool((same & (kept[1:] if for_good else kept[1:] != kept[:-1])).any())


def numbered_rows(rows: Rows, channel: Channel, window: RowsWindow, before: int = 0) -> Numbered:
    """The numbers of rows. `before`: without PARTITION BY, the number of rows before these."""
    if not window.partition_by:
        numbers = np.arange(before + 1, before + len(rows) + 1)
        return Numbered(np.zeros(len(rows), np.int64), numbers, [], np.array([before + len(rows)]))
    types = tuple(channel.schema[name].type for name in window.partition_by)
    table = GroupTable(types)
    owners = table.ids([rows.batch.column(name) for name in window.partition_by])
    order, totals = np.argsort(owners, kind="stable"), np.bincount(owners)
    numbers = np.empty(len(rows), np.int64)
    numbers[order] = np.arange(len(rows)) - np.repeat(np.cumsum(totals) - totals, totals) + 1
    return Numbered(owners, numbers, table.keys(np.arange(len(table))), totals)


def last_rows(window: RowsWindow, channel: Channel, due: int, end: int) -> Rows | None:
    """The rows that a window of rows shows just before `due`, or will show because of its OFFSET, and all that follow
    to before `end`; None if the rows or their order are not known."""
    known = _candidates(window, channel, due, end)
    if known is None:
        return None
    old = int(np.searchsorted(known.rows.times, due))
    numbered = numbered_rows(known.rows.slice(0, old), channel, window)
    kept = np.ones(len(known.rows), np.bool_)
    kept[:old] = numbered.numbers > numbered.totals[numbered.owners] - (window.rows + window.offset)
    if not known.arrived and numbered_rows(known.rows, channel, window).tied(known.rows.times, kept):
        return None
    return known.rows.take(kept)


def shown_rows(window: RowsWindow, channel: Channel, until: int) -> Known | None:
    """The rows that a window of rows shows just before an instant; None if it is not known which they are."""
    known = _candidates(window, channel, until, until)
    if known is None:
        return None
    numbered = numbered_rows(known.rows, channel, window)
    later = numbered.totals[numbered.owners] - numbered.numbers
    shown = (later >= window.offset) & (later < window.offset + window.rows)
    if not known.arrived and numbered.tied(known.rows.times, shown, for_good=False):
        return None
    return Known(known.rows.take(shown), known.arrived)


def _candidates(window: RowsWindow, channel: Channel, due: int, end: int) -> Known | None:
    if window.partition_by:
        return known_rows(channel, INT64_MIN, end)  # The last row of a partition may be of any time.
    # One more row, whose time may equal that of the first.
    return rows_back(channel, window.rows + window.offset + 1, due, end)
