"""Conservative scheduling: the tasks of a group that have the same deadline are executed together.

With the tasks of `periodic_tasks.sub_groups` no query runs more often than it must, and sub-groups run together when
their slides coincide. With the tasks of `hybrid` this choice is hybrid scheduling. A pure function, O(n). Golab 2006,
section 8.4.3, algorithm 10.
"""

from __future__ import annotations

from collections.abc import Mapping

from panewise.schedule.periodic.earliest_deadline import earliest_deadline
from panewise.schedule.periodic.periodic_tasks import Task


def same_deadline(waiting: Mapping[Task, int]) -> tuple[Task, ...]:
    """The task with the earliest deadline, and the tasks of its group with the same deadline."""
    return tuple(
        task
        for first in earliest_deadline(waiting)
        for task, until in waiting.items()
        if task.group == first.group and until == waiting[first]
    )
