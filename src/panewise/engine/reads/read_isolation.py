"""How one-time queries run while batches arrive: their level of isolation, their steps, and how they ended.

    isolation           scheduler of each read                            a SELECT answers as of   pushes wait for
    latest (default)    LatestWindowScheduler, youngest first (TTU)       its commit               a few milliseconds
    latest-in-order     LatestWindowScheduler, by sub-window (LWS)        its commit               a few milliseconds
    window              WindowScheduler (WS)                              its begin                nothing
    serial              SerialScheduler                                   both: one turn           the whole query

See Golab 2006, sections 7.4 and 7.5.1.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from panewise.engine.channels.turns import Turns
from panewise.errors import PlanError, did_you_mean
from panewise.schedule.isolation.recorded_scheduler import RecordedScheduler
from panewise.schedule.isolation.scheduler_names import SCHEDULERS
from panewise.schedule.isolation.schedulers import Scheduler

LEVELS = {"latest": "TTU", "latest-in-order": "LWS", "window": "WS", "serial": "Serial"}
"""The scheduler of each level, by its name in `SCHEDULERS`."""


class SourceGone(Exception):
    """A source of a read was dropped. The statement is bound again, and is refused or reads another source."""


class ReadIsolation:
    """The isolation of the reads of one engine.

    `sub_window_rows`: about how many rows a step scans. `rows_inside`: how many rows may be scanned inside a turn. Both
    are for a short SELECT, and are fewer if a row takes longer. `inside_s`: the longest time inside a turn of a read
    that was aborted again and again. `tries`: how often a read tries to commit before it scans all that is left inside
    the turn. `look_every_s`: how often it looks for moves between steps.
    """

    def __init__(self, turns: Turns, level: str) -> None:
        if not isinstance(level, str):
            raise PlanError(f"the name of an isolation is a text, not a {type(level).__name__}")
        if level not in LEVELS:
            raise PlanError(
                f"there is no isolation '{level}'",
                hint=did_you_mean(level, LEVELS) or f"it is {', '.join(list(LEVELS)[:-1])} or {list(LEVELS)[-1]}",
            )
        self.turns = turns
        self.level = level
        self.sub_window_rows = 65_536
        self.rows_inside = 65_536
        self.inside_s = 0.05
        self.tries = 8
        self.look_every_s = 0.02
        self.between_steps: Callable[[], None] | None = None  # called outside all turns, before each step
        self.recorded: list[RecordedScheduler] | None = None  # decisions of schedulers, if they are recorded
        self._counts = {"begun": 0, "committed": 0, "aborted": 0, "inside_the_turn": 0}
        self._counts_lock = threading.Lock()

    @property
    def latest(self) -> bool:
        """Whether reads answer as of their commit."""
        return self.level.startswith("latest")

    @property
    def ends_inside(self) -> bool:
        """Whether the read that begins now has to end in the same turn."""
        return self.turns.nested or self.level == "serial"

    @property
    def recording(self) -> bool:
        return self.recorded is not None

    def scheduler(self, sub_windows: int) -> Scheduler | RecordedScheduler:
        """A new scheduler for one read."""
        scheduler = SCHEDULERS[LEVELS[self.level]].make(sub_windows)
        if self.recorded is None:
            return scheduler
        self.recorded.append(RecordedScheduler(scheduler))
        return self.recorded[-1]

    def pause(self) -> None:
        """A read is between two steps, outside all turns."""
        if self.between_steps is not None:
            self.between_steps()

    # -- how reads end ---------------------------------------------------------------------------------------------

    def begun(self) -> None:
        """A read has begun."""
        self._count("begun")

    def numbered(self) -> int:
        """The number of the read that has begun last."""
        return self._counts["begun"]

    def committed(self, inside: bool) -> None:
        """A read has committed. `inside`: it ran, or had to end, inside the turn."""
        self._count("committed")
        if inside:
            self._count("inside_the_turn")

    def aborted(self) -> None:
        """A read was aborted, and begins again."""
        self._count("aborted")

    def _count(self, what: str) -> None:
        with self._counts_lock:
            self._counts[what] += 1

    def stats(self) -> dict[str, Any]:
        """How many reads have begun, committed, and been aborted, and how many of the committed ones ended inside the
        turn."""
        return {"isolation": self.level, **self._counts}
