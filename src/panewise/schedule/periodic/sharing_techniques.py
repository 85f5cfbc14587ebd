"""The six techniques by their names in Golab 2006, table 8.1: how queries become tasks, and which run together.

Under the exact reading of slides (`papers/golab2006/timetable.py`) only those apply that leave periods alone: a query
that is executed at instants that are no multiples of its slide would report what nobody asked for.
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
"""Of the tasks that wait, with their updates until deadline, those that run next, together; none where none waits."""


@dataclass(frozen=True)
class SharingTechnique:
    """`tasks_of` makes tasks of queries, `choose` says which of those that wait run next."""

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
