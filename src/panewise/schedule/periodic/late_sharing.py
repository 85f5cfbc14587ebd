"""Late and late-pending sharing: in overload, tasks of a group run together although their deadlines differ.

Once tasks are late, conservative and hybrid scheduling would process one deadline after the other, with a scan of the
synopsis for each. Late sharing runs all late tasks of the group together. Late-pending sharing adds the tasks that are
just due and would be late at the next update. If no task is late, both choose as `conservative` does. They only change
when a task is executed, not the instant that its report shows.

"Choose any task" is read as the one with the earliest deadline, so that none waits for ever. Pure functions, O(n).
Golab 2006, section 8.4.5, algorithm 11.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.schedule.periodic.conservative import same_deadline
from panewise.schedule.periodic.earliest_deadline import earliest_deadline
from panewise.schedule.periodic.periodic_tasks import Task


def late_together(waiting: Mapping[Task, int]) -> tuple[Task, ...]:
    """All late tasks of the group with the latest task."""
    return _with_the_latest(waiting, -1)


def late_and_pending_together(waiting: Mapping[Task, int]) -> tuple[Task, ...]:
    """All late and due tasks of the group with the latest task."""
    return _with_the_latest(waiting, 0)


def _with_the_latest(waiting: Mapping[Task, int], until_max: int) -> tuple[Task, ...]:
    for first in earliest_deadline(waiting):
        if waiting[first] < 0:
            return tuple(task for task, until in waiting.items() if task.group == first.group and until <= until_max)
    return same_deadline(waiting)
