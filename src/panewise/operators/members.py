"""Members of a tree, and the first report that a member can answer exactly.

A query that joins in mid-stream starts with history where the slices held answer it exactly, otherwise with its first
whole window: one whose rows were all seen, whose states were kept all along, and whose ends straddle no slice.

Where a host gives the cuts, it runs several trees for one set of members, each with a part of the groups. They must
agree on a member's first report whatever rows they hold, so there edges and marks alone decide, not slices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panewise.operators.aggregation import Aggregation
from panewise.operators.sparse_slices import SparseSlices
from panewise.slicing.pairs import Cadence

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

Ints = NDArray[np.int64]
CANDIDATES = 1000
INT64_MIN = -(2**63)


@dataclass
class Member:
    """A query in a tree. Reports up to `reported` are out; windows that begin before `held_from` are not whole."""

    aggregation: Aggregation
    cadence: Cadence
    reported: int
    held_from: int | None = None
    # An ungrouped query reports every window from the first one that holds a row, before any WHERE, on.
    first_report: int | None = None
    begun: bool = False
    endless: bool = False  # a window without a beginning holds rows by now, and always will
    suspended: bool = False
    timed: bool = True  # the axis is event time
    window: int = 0  # its number among the windows of the tree; 0 is nobody's
    shape: int = 0  # equal for members that select and aggregate alike
    passing: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    touched: list[Ints] = field(default_factory=list)


def note_rows(member: Member, points: Ints, least: int) -> None:
    """Rows of the stream, before any WHERE: an ungrouped query begins with the first whole window that holds one.

    `least` is the least of the points. It decides, unless its window is not one.
    """
    cadence = member.cadence
    first = cadence.next_report(least + cadence.offset)
    if member.first_report is not None and first >= member.first_report:
        return
    start = cadence.start(first)
    if start is None or (start <= least and (member.held_from is None or start >= member.held_from)):
        member.first_report = first
        return
    reports = points + cadence.offset
    reports = reports - (reports - cadence.align) % cadence.slide + cadence.slide
    assert cadence.range is not None
    starts = reports - (cadence.range + cadence.offset)
    # A row may lie between two windows, or in one that is not whole: that is the next one's business.
    reports = reports[(starts <= points) & (starts >= (INT64_MIN if member.held_from is None else member.held_from))]
    if len(reports):
        first = int(reports.min())
        member.first_report = first if member.first_report is None else min(first, member.first_report)


def first_answerable(tree: PeriodicTree, member: Member) -> int:
    """The first report from which on all windows are whole: as early as the last one due, if slices held allow."""
    cadence, since = member.cadence, member.held_from
    soonest = cadence.next_report(tree.watermark) - cadence.slide
    if cadence.range is None:
        return soonest + cadence.slide
    # Past the newest cut every window of a member begins and ends at an edge. Before it, back from there, each report
    # is asked for by itself: one that is not whole makes those before it useless.
    seen = tree.cut if since is None else max(tree.cut, since)
    report = max(soonest + cadence.slide, cadence.next_report(seen + cadence.range + cadence.offset - 1))
    for _ in range(CANDIDATES):
        if report == soonest or not is_whole(tree, cadence, report - cadence.slide, since):
            break
        report -= cadence.slide
    return report


def is_whole(tree: PeriodicTree, cadence: Cadence, report: int, since: int | None) -> bool:
    """Whether slices held, and those to come, answer this report exactly; `since`: rows before it were not all seen."""
    start, end = cadence.start(report), report - cadence.offset
    if start is None:
        return True
    if since is not None and start < since:
        return False
    if tree.by_cuts:
        return start >= tree.needed_from and tree.store.open.is_edge(start) and tree.store.open.is_edge(end)
    if tree.evicted_to is not None and start < tree.evicted_to:
        return False
    if isinstance(tree.store, SparseSlices) and tree.store.passed(cadence, report):
        return False
    starts = np.concatenate([tree.store.starts, tree.store.open.starts])
    ends = np.concatenate([tree.store.ends, tree.store.open.ends])
    if any(((starts < edge) & (edge < ends)).any() for edge in (start, end)):
        return False
    # Rows yet to come before the newest cut fall into slices of the edges before it.
    return all(tree.store.open.is_edge(edge) for edge in (start, end) if tree.watermark < edge < tree.cut)
