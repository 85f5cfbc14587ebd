"""Aggressive scheduling: a group is one task, with the shortest slide of its queries.

Queries that can share an execution always do, but run more often than their slides require. This is only for queries
whose slide is an upper bound. The tasks are scheduled by earliest deadline. Golab 2006, section 8.4.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task, groups


def aggressive_tasks(queries: Iterable[PeriodicQuery]) -> list[Task]:
    return [
        Task(members[0].group, min(query.slide for query in members), tuple(members)) for members in groups(queries)
    ]
