"""The timeline of a family: where edges lie, what is held from where, and when a member's reports begin.

All of it is decided here and nowhere else. The axis is integers: event times in microseconds, or row numbers.

    rows not all seen |   slices that have gone   |     closed slices      |   open slices   |  no row yet
    ------------------+---------------------------+------------------------+-----------------+------------->
                  held_from                  evicted_to                watermark          greatest
                                                                                       cut (edges of all members)

- `held_from`: rows before it were not all seen; None where all were. States that joined later have points of their own.
- `evicted_to`: the last slice that has gone ended here. It follows from the rows, and not from the steps in which
  slices go. `needed_from`: no report to come needs a slice that begins before it.
- `watermark`: reports up to it are out, slices that end at or before it are closed.
- `greatest`: the greatest point of any row.
- `cut`: from here on edges are those of all members; no row had reached it when it was made. Before it, slices may
  reach over the ends of a newer member's windows.

Invariant: a window is *whole* when all its rows were seen, the states that answer it were kept over all of it, and none
of its slices reaches over its ends. A member reports whole windows only, and once it has begun, all of them: so it
begins with the first report from which on all windows are whole.

Where a host gives the cuts (`by_cuts`), it runs several families for one set of members, each with a part of the
groups. They must agree on a member's first report whatever rows they hold, so there edges and marks alone decide, and
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

CANDIDATES = 1000  # reports before the first sure one that are tried
# What is written down, under these names.
MARKS = ("watermark", "greatest", "held_from", "cut", "by_cuts", "needed_from", "evicted_to")


class HeldSlices(Protocol):
    """What a timeline asks of the slices of its family."""

    open: OpenSlices

    @property
    def starts(self) -> Ints: ...

    @property
    def ends(self) -> Ints: ...

    def passed(self, cadence: Cadence, report: int) -> bool: ...


class Timeline:
    """The marks of a family; they move by what is told here, and only forward."""

    def __init__(self, held_from: int | None) -> None:
        self.held_from = held_from
        self.watermark = INT64_MIN
        self.greatest = INT64_MIN
        self.cut = INT64_MIN
        self.by_cuts = False
        self.needed_from = INT64_MIN
        self.evicted_to: int | None = None
        self.states: dict[StateKey, int | None] = {}  # from where each is whole; None: from the beginning
        self._followed: list[Ints] = []  # the edges of other families, as its own were made of

    # -- what is told --------------------------------------------------------------------------------------------

    def hold_from(self, point: int | None) -> None:
        """Rows before the point were not seen (None: all were)."""
        self.held_from = point

    def hold_back(self, point: int) -> None:
        """Rows before the point, which lies ahead of all reports so far, turn out not to have been seen all."""
        self.held_from = point if self.held_from is None else max(point, self.held_from)

    def see(self, latest: int) -> None:
        """Rows up to this point have come."""
        self.greatest = max(self.greatest, latest)

    def move_to(self, watermark: int) -> None:
        self.watermark = watermark

    # -- what is held from where ---------------------------------------------------------------------------------

    def begin_state(self, key: StateKey, cut: int | None) -> None:
        """Nobody kept this state so far: it is whole from the next point that no row has reached."""
        since = self.held_from if self.greatest == INT64_MIN else self.greatest + 1
        if cut is not None:
            since = None if cut == INT64_MIN else cut
        self.states[key] = since

    def end_state(self, key: StateKey) -> None:
        del self.states[key]

    def held_since(self, keys: tuple[StateKey, ...]) -> int | None:
        """From where on windows over these states are whole; None: from the beginning."""
        points = [self.held_from, *(self.states[key] for key in keys)]
        return max((point for point in points if point is not None), default=None)

    def release(self, members: Members, slices: HeldSlices) -> int:
        """How many of the closed slices, from the oldest on, no report to come needs."""
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
        """Nobody asks for edges of the past, but where several families must agree on what the slices held answer."""
        return self.needed_from if self.by_cuts else self.watermark

    # -- where edges lie -----------------------------------------------------------------------------------------

    def follow_cuts(self, cut: int | None) -> None:
        """Members come or go; a host that has given a cut once gives one always when a member comes."""
        self.by_cuts = self.by_cuts or cut is not None

    def edges_change(self, windows: WindowSet, open_slices: OpenSlices, cut: int | None) -> int | None:
        """From where on the edges of these windows hold; None: those of the slices to come are theirs already.

        Where a host gives the cuts, edges change there and nowhere else, in all its families alike.
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
        """Where slices are cut that lie within one slice of each of these; None where that is as it was."""
        arrays = [part for other in others for part in other.edge_arrays()]
        if len(arrays) == len(self._followed) and all(a is b for a, b in zip(arrays, self._followed, strict=True)):
            return None
        self._followed = arrays
        edges = [other.edges() for other in others]
        return edges[0] if len(edges) == 1 else common_edges(edges)

    # -- when reports begin --------------------------------------------------------------------------------------

    def reported_at_joining(self, cadence: Cadence, since: int | None, slices: HeldSlices) -> int:
        """Up to where a new member counts as having reported; `since`: windows before it are not whole."""
        if self.watermark != INT64_MIN:
            return self._first_answerable(cadence, since, slices) - cadence.slide
        if cadence.range is not None and self.cut != INT64_MIN and self.by_cuts:
            # Slices before the cut may straddle its windows, and nothing says yet which are due.
            return first_whole(cadence, self.cut) - cadence.slide
        return INT64_MIN

    def _first_answerable(self, cadence: Cadence, since: int | None, slices: HeldSlices) -> int:
        """The first report from which on all windows are whole: as early as the last one due, if slices held allow."""
        soonest = cadence.next_report(self.watermark) - cadence.slide
        if cadence.range is None:
            return soonest + cadence.slide
        # Past the newest cut every window of a member begins and ends at an edge; past `evicted_to` all slices are
        # held. Before that, back from there, each report is asked for by itself: one that is not whole makes those
        # before it useless.
        marks = self.cut, since, None if self.by_cuts else self.evicted_to
        seen = max(mark for mark in marks if mark is not None)
        report = max(soonest + cadence.slide, first_whole(cadence, seen))
        for _ in range(CANDIDATES):
            if report == soonest or not self.is_whole(cadence, report - cadence.slide, since, slices):
                break
            report -= cadence.slide
        return report

    def is_whole(self, cadence: Cadence, report: int, since: int | None, slices: HeldSlices) -> bool:
        """Whether slices held, and those to come, answer this report; `since`: rows before it were not all seen."""
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
        # Rows yet to come before the newest cut fall into slices of the edges before it, and the first of these slices
        # may begin before the watermark.
        opens = slices.open.slice_start(self.watermark)
        return all(slices.open.is_edge(edge) for edge in (start, end) if opens < edge < self.cut)

    # -- what is written down ------------------------------------------------------------------------------------

    @property
    def marks(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in MARKS}

    def set_marks(self, saved: dict[str, Any]) -> None:
        for name in MARKS:
            setattr(self, name, saved[name])

    def set_states(self, since: dict[StateKey, int | None]) -> None:
        """The same states, from these points on, in this order."""
        assert set(since) == set(self.states)
        self.states = since


def cut_behind(reached: int | None) -> int:
    """Where edges may change: at the point behind the last one that a row has reached; None: none has come."""
    return INT64_MIN if reached is None else reached + 1


def common_edges(edges: Sequence[Mapping[str, list[int]]]) -> dict[str, list[int]]:
    """Where slices are cut that lie within one slice of each of several families: wherever one of these is, epoch by
    epoch.

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
    """Whether the point lies within a slice, of slices in order of time."""
    place = int(starts.searchsorted(point)) - 1
    return place >= 0 and bool(ends[place] > point)
