"""Leads: a query that joins a family in mid-stream begins no later than it would alone.

The family has folded rows that the watermark has not passed, in slices that may straddle the windows of a new query.
Its slices serve the query only from the first point that no row has reached (the *cut*). Alone, the query would begin
at the watermark, because the channel still has those rows. So the windows that begin between the two are answered by
another family, the *lead*, which begins with the rows that the channel has:

    rows       x x    x  |x   x x|                    watermark, cut
    the lead             [-------------)              windows that begin before the cut
                             [-------------)
    the family                   [-------------)      and all that follow
                                     [-------------)

Queries that join at one moment share a lead. A lead folds every row once more until the last of its windows has closed.
So there are at most `LEADS_MOST` leads; a query that joins then begins at the cut.
"""

from __future__ import annotations

from typing import Any

from panewise.arrays import INT64_MIN
from panewise.engine.channels.channel import Channel
from panewise.operators.family.family import Family
from panewise.operators.family.first_reports import first_candidate, first_showing
from panewise.operators.reports import Piece
from panewise.operators.row_batch import Rows

LEADS_MOST = 16  # Bounds the cost of a row while queries are created and dropped.


class Lead:
    """One lead. `until`: the last report of each member here; the shared family goes on from there."""

    def __init__(self, shared: Family, held_from: int | None, moment: object, recent: Rows | None) -> None:
        self.family = shared.anew_from(held_from)
        self.until: dict[str, int] = {}
        self.moment = moment
        self._shared = shared
        self._recent = recent  # The rows that it begins with; None when no more members can join.

    @property
    def begun(self) -> bool:
        return self._recent is None

    def add(self, name: str, until: int) -> None:
        member = self._shared.members[name]
        self.family.add(name, member.aggregation, member.cadence)
        self.until[name] = until

    def rename(self, name: str, to: str) -> None:
        if name in self.until:
            self.until[to] = self.until.pop(name)
            self.family.rename(name, to)

    def drop(self, name: str) -> None:
        if self.until.pop(name, None) is not None:
            self.family.remove(name)

    def begin(self) -> None:
        """Folds the first rows; no more members can join."""
        if self._recent is not None:
            rows, self._recent = self._recent, None
            self.family.fold(rows)

    def advance(self, watermark: int) -> dict[str, list[Piece]]:
        """The reports that have come due, by member. Members leave after their last report."""
        self.begin()
        found: dict[str, list[Piece]] = {}
        while self.until:
            point = min(watermark, *self.until.values())
            for name, pieces in self.family.advance(point).items():
                found.setdefault(name, []).extend(pieces)
            self._shared.take_troubles_of(self.family)
            done = [name for name, until in self.until.items() if until <= point]
            for name in done:
                self._shared.take_over(name, self.family)
                self.drop(name)
            if not done:
                break
        return found


class Leads:
    """The leads of one family, in the order in which they began."""

    def __init__(self, channel: Channel, shared: Family) -> None:
        self._channel = channel
        self._shared = shared
        self._leads: list[Lead] = []
        self._uncovered: set[str] = set()  # members that begin at the cut, because there were too many leads

    def cover(self, name: str) -> None:
        """A member has joined the family: a lead answers its whole windows that begin before the cut."""
        channel, shared = self._channel, self._shared
        member, since = shared.members[name], channel.missed_before
        cadence = member.cadence
        if channel.cut is not None or not shared.timed or shared.folds_only:
            return  # Rows are not kept, or the watermark has passed every row that the family has folded.
        if cadence.range is None or channel.held_from is None or shared.watermark == INT64_MIN:
            return
        # Alone it would begin with the windows of all rows, if the watermark has passed none; more may come behind it.
        oldest = channel.watermark if since is None else INT64_MIN
        if first_candidate(cadence, since, oldest) > member.reported:
            return
        lead = self._leads[-1] if self._leads else None
        if lead is None or lead.begun or lead.moment != channel.moment:
            if len(self._leads) == LEADS_MOST:
                self._uncovered.add(name)
                return
            lead = Lead(shared, since, channel.moment, channel.recent())
            self._leads.append(lead)
        lead.add(name, member.reported)

    def note_recent(self, name: str) -> None:
        """Rows that the watermark has not passed begin the reports of an ungrouped member, even if WHERE drops them."""
        shared = self._shared
        if shared.keys or not shared.timed or shared.watermark == INT64_MIN:
            return  # A family without rows notices them when it takes them.
        times = self._channel.recent_times()
        if not len(times):
            return
        member = shared.members[name]
        shown = first_showing(member.cadence, member.held_from, times, int(times.min()), int(times.max()))
        if shown is not None:
            shared.note({name: shown})

    def covers(self, name: str) -> bool:
        """Whether a member begins no later than it would alone."""
        return name not in self._uncovered

    def note(self, first: dict[str, int]) -> None:
        """Sets the first reports of members of an ungrouped family."""
        for lead in self._leads:
            lead.family.note(first)

    def begin(self) -> None:
        """No more members can join the present leads."""
        for lead in self._leads:
            lead.begin()

    def fold(self, rows: Rows) -> None:
        for lead in self._leads if len(rows) else ():
            lead.begin()
            lead.family.fold(rows)

    def advance(self, watermark: int) -> dict[str, list[Piece]]:
        """The reports that have come due, by member. Called before the family itself advances."""
        found: dict[str, list[Piece]] = {}
        for lead in self._leads:
            found |= lead.advance(watermark)
        self._leads = [lead for lead in self._leads if lead.until]
        return found

    def rename(self, name: str, to: str) -> None:
        for lead in self._leads:
            lead.rename(name, to)

    def drop(self, name: str) -> None:
        for lead in self._leads:
            lead.drop(name)
        self._uncovered.discard(name)
        self._leads = [lead for lead in self._leads if lead.until]

    def next_due(self, otherwise: int) -> int:
        """The first point at which a report of a lead is due, or `otherwise` if that is earlier."""
        return min([otherwise, *(lead.family.next_due() if lead.begun else INT64_MIN for lead in self._leads)])

    @property
    def bytes_held(self) -> int:
        return sum(lead.family.bytes_held for lead in self._leads)

    def snapshot(self) -> list[dict[str, Any]]:
        self.begin()
        return [{"until": dict(lead.until), "tree": lead.family.snapshot()} for lead in self._leads]

    def restore(self, snapshot: list[dict[str, Any]]) -> None:
        """Called when the family has its members."""
        self._leads = []
        for saved in snapshot:
            lead = Lead(self._shared, None, None, None)
            for name, until in saved["until"].items():
                lead.add(name, until)
            lead.family.restore(saved["tree"])
            self._leads.append(lead)
