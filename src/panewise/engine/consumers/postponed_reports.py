"""Reports of a family that have come due while its stream is behind, and are answered later, in one pass.

Invariant: while the family's watermark trails that of its channel, this object is among `channel.postponed`. Slices
stay open until the family follows, so each report is the same as if it had been answered when it came due.
`report_schedule.py` chooses which family is answered next.
"""

from __future__ import annotations

from typing import Protocol

from panewise.aggregates.states import UserStateKind
from panewise.arrays import INT64_MIN
from panewise.engine.channels.channel import Channel
from panewise.engine.channels.failures import Fallible, guarded
from panewise.engine.consumers.family_results import FamilyResults
from panewise.operators.family.family import Family

TRAILED_SLIDES_MAX = 128  # A family trails its channel by at most this many of its shortest slides.
OPEN_SLICES_MAX = 1024  # A family with more open slices is not postponed.
COST_WEIGHT = 0.25  # Weight of the last catch-up in the average `answer_seconds`.


class ReportsOwner(Fallible, Protocol):
    """The consumer that answers a family's reports."""

    def advance(self) -> None:
        """Answers all reports that are due at the channel's watermark."""

    def adapt(self) -> None:
        """Weaves the family anew if its measurements say so."""


class PostponedReports:
    """The postponed reports of one family; keeps the contract `Postponed`."""

    def __init__(self, owner: ReportsOwner, channel: Channel, family: Family, results: FamilyResults) -> None:
        self.answer_seconds = 0.0  # Moving average of the seconds that a catch-up takes.
        self._owner = owner
        self._channel = channel
        self._family = family
        self._results = results
        # The last catch-up: the watermarks before and after it, and the clock at its end.
        self._answered: tuple[int, int, float] | None = None

    @property
    def are_waiting(self) -> bool:
        """Whether the family is postponed now."""
        return self in self._channel.postponed

    @property
    def can_wait(self) -> bool:
        """Whether reports that have come due may be answered later; see the invariants in `report_schedule.py`."""
        family, watermark = self._family, self._channel.watermark
        if not family.timed or family.watermark == INT64_MIN or family.shortest_slide is None:
            return False
        if self._results.read_queries:
            return False
        trailed = watermark - family.watermark
        if trailed > TRAILED_SLIDES_MAX * family.shortest_slide or family.open_slice_count > OPEN_SLICES_MAX:
            return False
        # An error in a user's function fails its query at once, after all reports before it are out.
        return not any(isinstance(key.kind, UserStateKind) for key in family.states)

    def postpone(self) -> None:
        """The family has folded rows, and answers reports later."""
        self._channel.postpone(self)

    def drop(self) -> None:
        """The family has failed: nothing is answered any more."""
        self._channel.end_postponement(self)

    # -- what the schedule asks ----------------------------------------------------------------------------------

    @property
    def postponed_reports(self) -> int:
        """How many reports have come due and are not answered; reports of empty windows count."""
        return self._family.due_count(self._channel.watermark) if self.are_waiting else 0

    @property
    def first_postponed(self) -> tuple[int, int] | None:
        report, slide = self._family.next_due(), self._family.shortest_slide
        return None if slide is None or report > self._channel.watermark else (report, slide)

    @property
    def first_name(self) -> str:
        return min(self._results.queries, default="")

    def catch_up(self) -> None:
        """Answers all postponed reports in one pass."""
        self._channel.end_postponement(self)
        guarded(self._owner, self._catch_up)

    def _catch_up(self) -> None:
        before, begun = self._family.watermark, self._channel.clock()
        self._owner.advance()
        now = self._channel.clock()
        self.answer_seconds += (now - begun - self.answer_seconds) * (COST_WEIGHT if self.answer_seconds else 1.0)
        self._answered = before, self._channel.watermark, now
        self._owner.adapt()

    def answered_at(self, report: int) -> float | None:
        """The clock when the last catch-up answered a report; None if that did not answer it."""
        if self._answered is None:
            return None
        after, upto, at = self._answered
        return at if after < report <= upto else None
