"""The six techniques by their names in Golab 2006, table 8.1: how queries become tasks, and which run together.

If slides are exact (`papers/golab2006/timetable.py`), only the techniques that do not change periods apply: a query
executed at instants that are not multiples of its slide would give reports that were not requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from panewise.schedule.periodic.aggressive import aggressive_tasks
from panewise.schedule.periodic.conservative import same_deadline
from panewise.schedule.periodic.earliest_deadline import earliest_deadline
from panewise.schedule.periodic.hybrid import hybrid_tasks
from panewise.schedule.periodic.late_sharing import late_and_pending_together, late_together
from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task, sub_groups

Choice = Callable[[Mapping[Task, int]], tuple[Task, ...]]
"""Takes the waiting tasks with their updates until deadline; returns those that run next, together."""


@dataclass(frozen=True)
class SharingTechnique:
    """`tasks_of` turns queries into tasks; `choose` chooses the waiting tasks that run next."""

    name: str
    tasks_of: Callable[[Iterable[PeriodicQuery]], list[Task]]
    choose: Choice


TECHNIQUES: dict[str, SharingTechnique] = {
    "No-S": SharingTechnique("no sharing", sub_groups, earliest_deadline),
    "AS": SharingTechnique("aggressive", aggressive_tasks, earliest_deadline),
    "CS": SharingTechnique("conservative", sub_groups, same_deadline),
    "HS": SharingTechnique("hybrid", hybrid_tasks, same_deadline),
    "H-LS": SharingTechnique("hybrid with late sharing", hybrid_tasks, late_together),
    "H-LP": SharingTechnique("hybrid with late-pending sharing", hybrid_tasks, late_and_pending_together),
}
