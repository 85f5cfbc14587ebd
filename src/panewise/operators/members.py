"""Members of a tree, and the first report that a member can answer exactly.

A query that joins in mid-stream starts with history where the slices held answer it exactly, otherwise with its first
whole window: one whose rows were all seen, whose states were kept all along, and whose ends straddle no slice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panewise.operators.aggregation import Aggregation
from panewise.slicing.pairs import Cadence

if TYPE_CHECKING:
    from panewise.operators.periodic import PeriodicTree

Ints = NDArray[np.int64]
CANDIDATES = 1000


@dataclass
class Member:
    """A query in a tree. Reports up to `reported` are out; windows that begin before `held_from` are not whole."""

    aggregation: Aggregation
    cadence: Cadence
    reported: int
    held_from: int | None = None
    begun: bool = False  # an ungrouped query reports every window from the first one with a row on
    suspended: bool = False
    passing: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    touched: list[Ints] = field(default_factory=list)


def first_answerable(tree: PeriodicTree, member: Member) -> int:
    """The first report whose window is whole: the last one due, if the slices held answer it."""
    cadence, since = member.cadence, member.held_from
    report = cadence.next_report(tree.watermark)
    if cadence.range is None:
        return report
    reach = cadence.range + cadence.offset
    candidates = [report - cadence.slide]
    if since is not None:
        report = max(report, cadence.next_report(since + reach - 1))
    # Past the newest cut every window of a member begins and ends at an edge.
    certain = max(report, cadence.next_report(tree.cut + reach - 1))
    candidates.extend(range(report, min(certain, report + CANDIDATES * cadence.slide), cadence.slide))
    return next((e for e in candidates if is_whole(tree, cadence, e, since)), certain)


def is_whole(tree: PeriodicTree, cadence: Cadence, report: int, since: int | None) -> bool:
    """Whether slices held, and those to come, answer this report exactly; `since`: rows before it were not all seen."""
    start, end = cadence.start(report), report - cadence.offset
    if start is None:
        return True
    if since is not None and start < since:
        return False
    if tree.evicted_to is not None and start < tree.evicted_to:
        return False
    starts = np.concatenate([tree.store.starts, tree.store.open.starts])
    ends = np.concatenate([tree.store.ends, tree.store.open.ends])
    if any(((starts < edge) & (edge < ends)).any() for edge in (start, end)):
        return False
    # Rows yet to come before the newest cut fall into slices of the edges before it.
    return all(tree.store.open.is_edge(edge) for edge in (start, end) if tree.watermark < edge < tree.cut)
