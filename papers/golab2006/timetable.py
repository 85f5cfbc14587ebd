"""When each task has to run next, and which instant its answers show.

    update        0    1    2    3    4    5    6    7
    period 3      .    .    .    due  late late run  .    .      until deadline: 3, 2, 1, 0, -1, -2, then
                                                                 AT_MOST 3 (due at 9), EXACT 0 (due at 6)

The synopses were updated `now` times. A task is *due* when it has 0 updates until its deadline, *late* when it has
fewer; it is on time if it is done while it has 0 or more, before the next update that is. There are two readings of a
slide, and everything else about scheduling is the same under both:

- EXACT, that of panewise: there is a report for every multiple of the slide; it shows the state at that instant however
  late it is computed, and is computed once. Schedules decide when, never what. A task that was late keeps its rhythm.
- AT_MOST, that of the thesis: the slide bounds how many updates lie between two executions. An execution shows the
  state of now, reports that were missed are not made up for, and the next deadline counts from here.

Invariant: a task is executed only when it is due; under EXACT its reports leave in order, each once. (Algorithm 9 as
printed executes tasks early rather than be idle: that refreshes what nobody waits for, and under EXACT there is nothing
yet to report.) O(1) an execution, O(n) for what is due. Golab 2006, sections 8.4.1, 8.4.2 (d(T) is `until_deadline`)
and 8.5.1 (deadlines are stored, and not decremented).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from panewise.schedule.periodic.periodic_tasks import Task


class SlideReading(Enum):
    """What a slide says; see the module."""

    EXACT = "exact"
    AT_MOST = "at_most"


class Timetable:
    """Tasks that come and go, each with its next deadline."""

    def __init__(self, tasks: Iterable[Task] = (), reading: SlideReading = SlideReading.EXACT, now: int = 0) -> None:
        self.reading = reading
        self.now = now
        self._deadlines: dict[Task, int] = {}
        for task in tasks:
            self.add(task)

    def add(self, task: Task) -> None:
        """Its first deadline lies a period from now; under EXACT, at the next multiple of its period."""
        assert task not in self._deadlines
        begun = self.now if self.reading is SlideReading.AT_MOST else self.now // task.period * task.period
        self._deadlines[task] = begun + task.period

    def remove(self, task: Task) -> None:
        del self._deadlines[task]

    def update(self) -> None:
        """The synopses have been updated once more."""
        self.now += 1

    def until_deadline(self, task: Task) -> int:
        return self._deadlines[task] - self.now

    def due(self) -> dict[Task, int]:
        """The tasks that are due or late, with their updates until deadline, 0 or less."""
        return {task: deadline - self.now for task, deadline in self._deadlines.items() if deadline <= self.now}

    def execute(self, tasks: Collection[Task]) -> list[tuple[Task, int]]:
        """These tasks are executed together now; returns, for each, the instant that its answers show."""
        shown = []
        for task in tasks:
            assert self._deadlines[task] <= self.now, f"due at {self._deadlines[task]}, executed at {self.now}"
            instant = self.shows(task)
            shown.append((task, instant))
            self._deadlines[task] = instant + task.period
        return shown

    def shows(self, task: Task) -> int:
        """The instant that the next answers of a task show, if it is executed now: what they cover is to be held."""
        return self._deadlines[task] if self.reading is SlideReading.EXACT else self.now
