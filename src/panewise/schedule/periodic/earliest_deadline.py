"""Earliest deadline first: of the tasks that may run, the one whose deadline is nearest or longest past.

Pure: what may run, with its updates until deadline, to what runs next. Of tasks that are all available it misses a
deadline only where every order does, and its greatest lateness is the least of all orders. Ties go to the task that
comes first, so that a schedule can be repeated. O(n). Golab 2006, section 8.4.2, algorithm 9.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.schedule.periodic.periodic_tasks import Task


def earliest_deadline(waiting: Mapping[Task, int]) -> tuple[Task, ...]:
    """One task, or none where none waits."""
    return (min(waiting, key=waiting.__getitem__),) if waiting else ()
