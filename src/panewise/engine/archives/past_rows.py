"""The rows of a channel's past, from whoever has them: what it retains, or an archive.

An archive keeps rows in order of time and not of arrival. So the last n rows of a channel, or of each partition, are
known from it only where no two of them have the same time, nor the first of them and the one before it.

    times      ..3..5..5..6..8        the last 2 rows are known; the last 3 are not, for it may be either of the two

Cost: a scan of the times that are looked at; the last rows are looked for ever further back, in all at most about four
times what is needed.
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
STEP = 60_000_000  # how far back the last rows of a channel are looked for at first


@dataclass(frozen=True)
class Known:
    """All rows of a stretch of time, in order of time; `arrived`: those of equal times as they came."""

    rows: Rows
    arrived: bool


def known_rows(channel: Channel, start: int, end: int) -> Known | None:
    """All rows from `start` (INT64_MIN: all there ever were) to before `end`, from whoever has them; None: nobody."""
    if not channel.rows_seen and not channel.of_query:
        return Known(channel.empty_rows(), arrived=True)
    if channel.retain_us and channel.retains(None if start == INT64_MIN else start):
        rows = channel.retained()
        rows = rows.take((rows.times >= start) & (rows.times < end))
        return Known(rows.take(np.lexsort((rows.arrivals, rows.times))), arrived=True)
    archived = channel.history(start, end)
    return None if archived is None else Known(archived, arrived=False)


def rows_back(channel: Channel, count: int, before: int, end: int) -> Known | None:
    """So many rows before an instant, at least, and all from there to before `end`; fewer where there were no more."""
    for start in _further_back(channel, before):
        known = known_rows(channel, start, end)
        if known is not None and (start == INT64_MIN or np.searchsorted(known.rows.times, before) >= count):
            return known
    return None


def _further_back(channel: Channel, before: int) -> Iterator[int]:
    """Instants at which to begin to look: ever further back, as far as the channel is known, and all of it."""
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
    """Rows by partition, each with its number in it, from 1 on; by partition, its key and how many rows it has."""

    owners: Ints
    numbers: Ints
    keys: list[pa.Array]
    totals: Ints

    def tied(self, times: Ints, kept: Mask, for_good: bool = True) -> bool:
        """Whether which rows are kept depends on the order of two in a partition that have the same time; `for_good`:
        or which of those that are kept will go first."""
        order = np.argsort(self.owners, kind="stable")
        owners, times, kept = self.owners[order], times[order], kept[order]
        same = (owners[1:] == owners[:-1]) & (times[1:] == times[:-1])
        return bool((same & (kept[1:] if for_good else kept[1:] != kept[:-1])).any())


def numbered_rows(rows: Rows, channel: Channel, window: RowsWindow, before: int = 0) -> Numbered:
    """`before`: how many rows, without PARTITION BY, have come before these."""
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
    """The rows that a window of rows holds just before `due`, or will hold by its OFFSET, and all that follow to before
    `end`; None where they are not known, or not their order."""
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
    """The rows that a window of rows shows just before an instant; None where it is not known which they are."""
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
        return known_rows(channel, INT64_MIN, end)  # a partition may have had its last row at any time
    # One more, which may be as old as the first of them.
    return rows_back(channel, window.rows + window.offset + 1, due, end)
