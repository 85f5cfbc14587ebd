"""Earliest deadline first: of the waiting tasks, the one whose deadline is nearest or longest past.

A pure function from the waiting tasks, each with its updates until deadline, to those that run next. If all tasks are
available, it misses a deadline only if every order does, and its greatest lateness is the least of all orders. Ties go
to the task that comes first, so that schedules are reproducible. O(n). Golab 2006, section 8.4.2, algorithm 9.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.schedule.periodic.periodic_tasks import Task


def earliest_deadline(waiting: Mapping[Task, int]) -> tuple[Task, ...]:
    """One task, or none if none waits."""
    return (min(waiting, key=waiting.__getitem__),) if waiting else ()
