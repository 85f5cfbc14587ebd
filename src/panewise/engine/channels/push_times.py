"""When rows were pushed, and so the lateness of a report: how long the rows that completed it had waited by then.

Pushes are collected and processed together, in a queue's thread or when somebody reads. So a report appears some time
after the push that brought the watermark to its instant e. A stream does not note the time of every row, but only of a
row with which the watermark crosses an eighth of the shortest slide. Other rows cost one comparison.

    pushed     |--- 1 s ---|--- 2 s ---|       notes: (watermark with the row, clock)
    processed                     ^            how long rows up to here had waited: (watermark, seconds, clock of push)

The lateness of a report at e is that of the first note at e or later. Invariant: both lists ascend. At most `NOTES_MAX`
notes of processed rows are kept. Old notes are thinned out to one per 1/`AGES` of their age, so that a report of an
hour ago is told from one 15 seconds later. Snapshots contain no notes. After the lateness of tasks in Golab 2006,
section 8.4.2, by the clock instead of by updates.
"""

from __future__ import annotations

from bisect import bisect_left
from math import gcd

from panewise.arrays import INT64_MAX

NOTES_MAX = 8_192
AGES = 256
NOTES_PER_SLIDE = 8


class PushTimes:
    """The notes of one stream."""

    def __init__(self, delay: int) -> None:
        self.noted_from = INT64_MAX  # A row of this time or later has to be noted.
        self._delay = delay
        self._step: int | None = None
        self._waiting: list[tuple[int, float]] = []
        self._processed: list[tuple[int, float, float]] = []

    def set_slide(self, slide: int | None, newest: int | None) -> None:
        """Sets the shortest slide of the reports of the stream's rows; None: there are no reports, so nothing is
        noted."""
        self._step = None if slide is None else slide // gcd(slide, NOTES_PER_SLIDE)
        self.noted_from = INT64_MAX if self._step is None else -INT64_MAX if newest is None else self._after(newest)

    def _after(self, newest: int) -> int:
        assert self._step is not None
        return newest + self._step - (newest - self._delay) % self._step

    def note(self, newest: int, at: float) -> None:
        """Rows up to this time, which is at least `noted_from`, were pushed when the clock showed `at`."""
        self._waiting.append((newest - self._delay, at))
        self.noted_from = self._after(newest)

    def processed(self, watermark: int, at: float) -> None:
        """The stream has come to this watermark, and due reports are out."""
        done = bisect_left(self._waiting, (watermark + 1,))
        if not done:
            return
        self._processed.extend((reached, max(at - pushed, 0.0), pushed) for reached, pushed in self._waiting[:done])
        del self._waiting[:done]
        if len(self._processed) > NOTES_MAX:
            self._thin_out()

    def _thin_out(self) -> None:
        newest = self._processed[-1][0]
        kept = [self._processed[0]]
        for note in self._processed:
            if (note[0] - kept[-1][0]) * AGES > newest - note[0]:
                kept.append(note)
        # Over a span of a billion steps, this keeps half of the notes; over more, the oldest are dropped.
        self._processed = kept[-NOTES_MAX // 2 :]

    def advanced(self, watermark: int, since: float, at: float) -> None:
        """A punctuation brought the stream to this watermark. It took from `since` to `at` by the clock."""
        if self._step is not None and (not self._processed or watermark > self._processed[-1][0]):
            self._processed.append((watermark, at - since, since))

    def lateness(self, instant: int, answered: float | None = None) -> float | None:
        """How long the rows that completed a report at this instant had waited; None if that is not known.

        They waited until the clock showed `answered`, or, if that is None, until they were processed.
        """
        place = bisect_left(self._processed, (instant,))
        if place == len(self._processed):  # It is less than a step beyond the last note.
            place -= 1
        if place < 0:
            return None
        _, seconds, pushed = self._processed[place]
        return seconds if answered is None else max(answered - pushed, 0.0)
