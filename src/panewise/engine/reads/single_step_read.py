"""A one-time query that cannot be answered from parts of time: a transaction of one step.

Its sources are pinned inside a turn (`pinned_sources`), and the answer is computed outside all turns. The whole window
is one sub-window, and every move that would change the answer is a conflict. If the query has to answer as of its
commit, and such a move has come, it is aborted and begins again. After a few attempts it is computed inside the turn,
so that it ends, if that takes a few milliseconds. If it takes longer, it answers as of its last begin, so that nobody
waits; the watermark of the answer says which instant that is.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import pyarrow as pa

from panewise.engine.reads.pinned_sources import PinnedSources
from panewise.engine.reads.published_answers import with_watermark
from panewise.engine.reads.read_isolation import ReadIsolation
from panewise.operators.read_budget import ReadBudget
from panewise.schedule.isolation.transactions import Priority, WindowRead

TRIES = 3  # attempts outside all turns, of which each costs as much as the whole query


class SingleStepRead:
    """One SELECT. It begins inside the turn in which it is made."""

    def __init__(
        self,
        isolation: ReadIsolation,
        pinned: PinnedSources,
        pin: Callable[[], PinnedSources],
        compute: Callable[[PinnedSources], pa.Table],
        budget: ReadBudget,
    ) -> None:
        """`pinned`: the sources as of now. `pin` pins them in a later turn. `compute` answers from either."""
        self._isolation = isolation
        self._pinned = pinned
        self._pin = pin
        self._compute = compute
        self._budget = budget
        self._number = isolation.numbered()

    def finish(self) -> pa.Table:
        """The answer. Called outside all turns."""
        try:
            return self._attempts()
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Releases the sources; the answer is not wanted any more."""
        self._pinned.close()

    def _attempts(self) -> pa.Table:
        """The answer of the first attempt that no move has invalidated, or of the last one, as said above."""
        took_s = 0.0
        for attempt in range(1, TRIES + 1):
            name = f"Q{self._number}_{attempt}"
            scheduler = self._isolation.scheduler(1)
            scheduler.begin(WindowRead(name, 1, Priority.ONE_TIME))
            scheduler.next_step(name)
            began = monotonic()
            answer = self._answer()
            took_s = monotonic() - began
            self._isolation.pause()
            if not self._isolation.latest:
                scheduler.commit(name)
                self._isolation.committed(inside=False)
                return answer
            with self._isolation.turns:
                if self._pinned.moved():
                    scheduler.move()
                    self._isolation.aborted()
                    self._begin_again()
                    continue
                scheduler.commit(name)
                self._isolation.committed(inside=False)
                return answer
        if took_s > self._isolation.inside_s:
            answer = self._answer()
            self._isolation.committed(inside=False)
            return answer
        with self._isolation.turns:
            if self._pinned.moved():
                self._begin_again()
            self._isolation.committed(inside=True)
            return self._answer()

    def _begin_again(self) -> None:
        self._pinned.close()
        self._budget.begin_again()
        self._pinned = self._pin()

    def _answer(self) -> pa.Table:
        return with_watermark(self._compute(self._pinned), self._pinned.watermark)
