"""The timeline of a family: where edges lie, what is held from where, and when a member's reports begin.

All these decisions are made here only. The axis is integers: event times in microseconds, or row numbers.

    rows not all seen |      evicted slices       |     closed slices      |   open slices   |  no row yet
    ------------------+---------------------------+------------------------+-----------------+------------->
                  held_from                  evicted_to                watermark          greatest
                                                                                       cut (edges of all members)

- `held_from`: not all rows before it were seen; None: all rows were seen. States that were added later have their own
  points.
- `evicted_to`: where the last evicted slice ended. It depends on the rows only, not on the steps of eviction.
- `needed_from`: no report to come needs a slice that begins before it.
- `watermark`: reports up to it are out, and slices that end at or before it are closed.
- `greatest`: the greatest point of any row.
- `cut`: from here on, the edges are those of all members. No row had reached it when it was set. Before it, slices may
  extend over the ends of a newer member's windows.

Invariant: a window is *whole* if all its rows were seen, the states that answer it were kept during all of it, and no
slice extends over its ends. A member reports whole windows only, and once it has begun, all of them. So it begins with
the first report from which on all windows are whole.

A host that gives the cuts (`by_cuts`) runs several families for the same members, each with a part of the groups. They
must agree on a member's first report whatever rows they hold. Therefore only edges and marks decide in that case, and
not slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from panewise.arrays import INT64_MAX, INT64_MIN, Ints
from panewise.operators.family.first_reports import first_whole
from panewise.operators.family.members import Members
from panewise.plan.aggregation import StateKey
from panewise.slicing.open_slices import OpenSlices
from panewise.slicing.pairs import Cadence, without_covered
from panewise.slicing.window_set import WindowSet

CANDIDATES = 1000  # reports to try before the first one that is known to be whole
# The fields in a snapshot, by their names there.
MARKS = ("watermark", "greatest", "held_from", "cut", "by_cuts", "needed_from", "evicted_to")


class HeldSlices(Protocol):
    """The slices of a family, as its timeline needs them."""

    open: OpenSlices

    @property
    def starts(self) -> Ints: ...

    @property
    def ends(self) -> Ints: ...

    def passed(self, cadence: Cadence, report: int) -> bool: ...


class Timeline:
    """The marks of a family, which only move forward."""

    def __init__(self, held_from: int | None) -> None:
        self.held_from = held_from
        self.watermark = INT64_MIN
        self.greatest = INT64_MIN
        self.cut = INT64_MIN
        self.by_cuts = False
        self.needed_from = INT64_MIN
        self.evicted_to: int | None = None
        self.states: dict[StateKey, int | None] = {}  # the point from which each is whole; None: from the beginning
        self._followed: list[Ints] = []  # the edges of other families that `edges_of` last saw

    # -- what is told --------------------------------------------------------------------------------------------

    def hold_from(self, point: int | None) -> None:
        """Rows before the point were not seen (None: all were)."""
        self.held_from = point

    def hold_back(self, point: int) -> None:
        """Not all rows before the point were seen, after all. The point is later than all reports so far."""
        self.held_from = point if self.held_from is None else max(point, self.held_from)

    def see(self, latest: int) -> None:
        """Rows up to this point have come."""
        self.greatest = max(self.greatest, latest)

    def move_to(self, watermark: int) -> None:
        self.watermark = watermark

    # -- what is held from where ---------------------------------------------------------------------------------

    def begin_state(self, key: StateKey, cut: int | None) -> None:
        """A state is kept from now on: it is whole from the next point that no row has reached."""
        since = self.held_from if self.greatest == INT64_MIN else self.greatest + 1
        if cut is not None:
            since = None if cut == INT64_MIN else cut
        self.states[key] = since

    def end_state(self, key: StateKey) -> None:
        del self.states[key]

    def held_since(self, keys: tuple[StateKey, ...]) -> int | None:
        """The point from which windows over these states are whole; None: from the beginning."""
        points = [self.held_from, *(self.states[key] for key in keys)]
        return max((point for point in points if point is not None), default=None)

    def release(self, members: Members, slices: HeldSlices) -> int:
        """The number of closed slices, counted from the oldest, that no report to come needs; moves the marks."""
        starts, ends = slices.starts, slices.ends
        schedule, needed = members.schedule, len(starts)
        held_to = reach = INT64_MAX
        if len(schedule):
            following = schedule.next_reports(np.maximum(schedule.column("reported"), self.watermark))
            bounded = schedule.column("range") > 0
            first = (following - schedule.column("offset") - schedule.column("range"))[bounded]
            if len(first):
                held_to = reach = int(first.min())
            for row in np.flatnonzero(~bounded):
                member = members.in_order[row]
                start = min(int(following[row]) - member.cadence.offset, self.watermark)
                number = int(np.searchsorted(ends, start, side="right"))
                if number:
                    member.hold_for_ever()
                needed = min(needed, number)
                reach = min(reach, start)
        self.needed_from = max(self.needed_from, min(reach, self.watermark))
        if not len(starts):
            return 0
        needed = min(needed, int(np.searchsorted(starts, held_to, side="left")))
        if needed:
            self.evicted_to = int(ends[needed - 1])
        return needed

    @property
    def edges_needed_from(self) -> int:
        """Edges before this point are not needed. Those of the past are needed only if several families must agree."""
        return self.needed_from if self.by_cuts else self.watermark

    # -- where edges lie -----------------------------------------------------------------------------------------

    def follow_cuts(self, cut: int | None) -> None:
        """A member is added. A host that has given a cut once must give one whenever a member is added."""
        self.by_cuts = self.by_cuts or cut is not None

    def edges_change(self, windows: WindowSet, open_slices: OpenSlices, cut: int | None) -> int | None:
        """The point from which the edges of these windows are used; None if slices to come have these edges already.

        If a host gives the cuts, edges change at these points only, in all its families.
        """
        if cut is not None:
            return cut
        if self.by_cuts or not len(windows) or open_slices.has_edges_of(windows):
            return None
        return max(cut_behind(None if self.greatest == INT64_MIN else self.greatest), self.watermark)

    def cut_at(self, point: int) -> None:
        """Edges change at a point that no row has reached."""
        self.cut = point

    def edges_of(self, others: Sequence[OpenSlices]) -> dict[str, list[int]] | None:
        """The edges of slices that each lie within one slice of every other family; None if they have not changed."""
        arrays = [part for other in others for part in other.edge_arrays()]
        if len(arrays) == len(self._followed) and all(a is b for a, b in zip(arrays, self._followed, strict=True)):
            return None
        self._followed = arrays
        edges = [other.edges() for other in others]
        return edges[0] if len(edges) == 1 else common_edges(edges)

    # -- when reports begin --------------------------------------------------------------------------------------

    def reported_at_joining(self, cadence: Cadence, since: int | None, slices: HeldSlices) -> int:
        """The point up to which reports of a new member count as out; `since`: windows before it are not whole."""
        if self.watermark != INT64_MIN:
            return self._first_answerable(cadence, since, slices) - cadence.slide
        if cadence.range is not None and self.cut != INT64_MIN and self.by_cuts:
            # Slices before the cut may extend over the ends of its windows, and there is no watermark yet.
            return first_whole(cadence, self.cut) - cadence.slide
        return INT64_MIN

    def _first_answerable(self, cadence: Cadence, since: int | None, slices: HeldSlices) -> int:
        """The first report from which on all windows are whole; the last report due, if the slices held answer it."""
        soonest = cadence.next_report(self.watermark) - cadence.slide
        if cadence.range is None:
            return soonest + cadence.slide
        # After the newest cut, every window begins and ends at an edge; after `evicted_to`, all slices are held. From
        # there, go back report by report until one is not whole: reports before that one are useless.
        marks = self.cut, since, None if self.by_cuts else self.evicted_to
        seen = max(mark for mark in marks if mark is not None)
        report = max(soonest + cadence.slide, first_whole(cadence, seen))
        for _ in range(CANDIDATES):
            if report == soonest or not self.is_whole(cadence, report - cadence.slide, since, slices):
                break
            report -= cadence.slide
        return report

    def is_whole(self, cadence: Cadence, report: int, since: int | None, slices: HeldSlices) -> bool:
        """Whether slices held and slices to come answer this report; `since`: not all rows before it were seen."""
        start, end = cadence.start(report), report - cadence.offset
        if start is None:
            return True
        if since is not None and start < since:
            return False
        if self.by_cuts:
            return start >= self.needed_from and slices.open.is_edge(start) and slices.open.is_edge(end)
        if self.evicted_to is not None and start < self.evicted_to:
            return False
        if slices.passed(cadence, report):
            return False
        if any(_straddled(held.starts, held.ends, edge) for held in (slices, slices.open) for edge in (start, end)):
            return False
        if end <= self.watermark:
            return True
        # Rows to come before the newest cut fall into slices with the edges before it, of which the first may begin
        # before the watermark.
        opens = slices.open.slice_start(self.watermark)
        return all(slices.open.is_edge(edge) for edge in (start, end) if opens < edge < self.cut)

    # -- snapshots -----------------------------------------------------------------------------------------------

    @property
    def marks(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in MARKS}

    def set_marks(self, saved: dict[str, Any]) -> None:
        for name in MARKS:
            setattr(self, name, saved[name])

    def set_states(self, since: dict[StateKey, int | None]) -> None:
        """Sets the order of the states and the points from which they are whole."""
        assert set(since) == set(self.states)
        self.states = since


def cut_behind(reached: int | None) -> int:
    """Where edges may change: the point after the last one that a row has reached; None: there are no rows yet."""
    return INT64_MIN if reached is None else reached + 1


def common_edges(edges: Sequence[Mapping[str, list[int]]]) -> dict[str, list[int]]:
    """The edges of slices that each lie within one slice of every family: all edges of all families, epoch by epoch.

    >>> old = {"epochs": [-9], "firsts": [0, 1], "slides": [4], "phases": [0]}
    >>> new = {"epochs": [-9, 5], "firsts": [0, 1, 2], "slides": [6, 2], "phases": [0, 0]}
    >>> common_edges([old, new])
    {'epochs': [-9, 5], 'firsts': [0, 2, 3], 'slides': [4, 6, 2], 'phases': [0, 0, 0]}
    """
    epochs = sorted({epoch for one in edges for epoch in one["epochs"]})
    firsts, slides, phases = [0], [], []
    for epoch in epochs:
        classes: set[tuple[int, int]] = set()
        for one in edges:
            place = int(np.searchsorted(one["epochs"], epoch, side="right")) - 1
            held = slice(one["firsts"][place], one["firsts"][place + 1])
            classes.update(zip(one["slides"][held], one["phases"][held], strict=True))
        own_slides, own_phases = without_covered(classes)
        slides += own_slides.tolist()
        phases += own_phases.tolist()
        firsts.append(len(slides))
    return {"epochs": epochs, "firsts": firsts, "slides": slides, "phases": phases}


def _straddled(starts: Ints, ends: Ints, point: int) -> bool:
    """Whether the point lies inside a slice; slices are in order of time."""
    place = int(starts.searchsorted(point)) - 1
    return place >= 0 and bool(ends[place] > point)
