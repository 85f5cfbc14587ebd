"""Four ways to compute periodic queries, as plans of the copies that a re-execution touches: Golab 2006, section 7.2.1.

    WINDOW                  all rows of the window, from the youngest sub-window to the oldest; a shorter window's
                            answer is there on the way to a longer one's, so a group of queries needs one scan
    INCREMENTAL             all rows of the sub-windows that came or went since the last time, for each query
    SYNOPSIS                as WINDOW, over one summary per sub-window
    INCREMENTAL_SYNOPSIS    as INCREMENTAL, over summaries

The incremental ones need queries that can subtract, a stored answer per query, and copies that have expired from the
whole window to be kept until every query has subtracted them (`ScanPlan.kept`). They read no sub-window that a move may
replace, so they need no isolation from moves; the other two do, and are what the schedulers schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from panewise.schedule.isolation.transactions import check_length, copies_of_window


class ScanMethod(Enum):
    WINDOW = "window scan"
    INCREMENTAL = "incremental scan"
    SYNOPSIS = "synopsis scan"
    INCREMENTAL_SYNOPSIS = "incremental synopsis scan"

    @property
    def is_incremental(self) -> bool:
        return self in (ScanMethod.INCREMENTAL, ScanMethod.INCREMENTAL_SYNOPSIS)

    @property
    def reads_summaries(self) -> bool:
        return self in (ScanMethod.SYNOPSIS, ScanMethod.INCREMENTAL_SYNOPSIS)

    @property
    def needs_isolation(self) -> bool:
        return not self.is_incremental


@dataclass(frozen=True)
class ScanStep:
    """One copy is scanned once, added to the answers of some queries and subtracted from those of others."""

    copy: int
    sub_window: int
    added_to: tuple[str, ...]
    subtracted_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScanPlan:
    scan: ScanMethod
    steps: tuple[ScanStep, ...]
    kept: frozenset[int] = frozenset()
    """Copies that the circular array has no more, and that the plan reads all the same."""
    afresh: frozenset[str] = frozenset()
    """Queries that begin from nothing and not from their stored answer."""

    def values_read(self, rows_per_sub_window: int) -> int:
        """Rows, or summaries where those are read."""
        return len(self.steps) * (1 if self.scan.reads_summaries else rows_per_sub_window)


def plan_scan(
    scan: ScanMethod, lengths: Mapping[str, int], sub_windows: int, last_move: int, previous_move: int | None = None
) -> ScanPlan:
    """The plan of a group of queries, by the lengths of their windows; `previous_move` is the last one they reflect.

    >>> plan = plan_scan(
    ...     ScanMethod.INCREMENTAL, {"sum1": 6, "sum2": 10}, sub_windows=10, last_move=20, previous_move=19
    ... )
    >>> [(step.copy, step.added_to, step.subtracted_from) for step in plan.steps]
    [(20, ('sum1', 'sum2'), ()), (14, (), ('sum1',)), (10, (), ('sum2',))]
    >>> sorted(plan.kept)
    [10]
    """
    for length in lengths.values():
        check_length(length, sub_windows)
    if not scan.is_incremental or previous_move is None:
        return _whole(scan, lengths, sub_windows, last_move)
    added: dict[int, list[str]] = {}
    subtracted: dict[int, list[str]] = {}
    afresh = set()
    for name, length in lengths.items():
        now, before = copies_of_window(last_move, length), copies_of_window(previous_move, length)
        # Where nothing of the old window is left, reading the new one costs half of reading both.
        if now.start > previous_move:
            afresh.add(name)
            before = range(0)
        for copy in now:
            if copy not in before:
                added.setdefault(copy, []).append(name)
        for copy in before:
            if copy not in now:
                subtracted.setdefault(copy, []).append(name)
    steps = tuple(
        ScanStep(copy, copy % sub_windows, tuple(added.get(copy, ())), tuple(subtracted.get(copy, ())))
        for copy in sorted(added.keys() | subtracted.keys(), reverse=True)
    )
    kept = frozenset(step.copy for step in steps if step.copy <= last_move - sub_windows)
    return ScanPlan(scan, steps, kept, frozenset(afresh))


def _whole(scan: ScanMethod, lengths: Mapping[str, int], sub_windows: int, last_move: int) -> ScanPlan:
    steps = tuple(
        ScanStep(
            copy,
            copy % sub_windows,
            tuple(name for name, length in lengths.items() if copy in copies_of_window(last_move, length)),
        )
        for copy in reversed(copies_of_window(last_move, max(lengths.values(), default=0)))
    )
    return ScanPlan(scan, steps, afresh=frozenset(lengths))
