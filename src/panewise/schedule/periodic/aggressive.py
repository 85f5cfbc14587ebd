"""Aggressive scheduling: a group is one task, with the shortest slide of its queries.

Whatever may share an execution always does, at the price of executing queries more often than they ask for: only for
queries whose slide is an upper bound. The tasks are then scheduled by earliest deadline. Golab 2006, section 8.4.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task, groups


def aggressive_tasks(queries: Iterable[PeriodicQuery]) -> list[Task]:
    return [
        Task(members[0].group, min(query.slide for query in members), tuple(members)) for members in groups(queries)
    ]
