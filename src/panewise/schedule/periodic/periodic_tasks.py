"""Periodic queries over synopses as tasks: what runs together, how often, and at what cost.

Time is counted in updates of the synopses: a period of 3 is three updates. The queries of a *group* can be computed
together when they are due together (rules CS1 to CS7 in `optimize/sharing/rules.py` say which): one scan of a basic
interval synopsis, from the youngest interval to the oldest, answers all windows on its way. Tasks of a group that run
together thus cost their longest scan, once, plus what each query does afterwards (such as sorting counters for a top
k).

A *sub-group* is a task with all queries of a group that have one slide; they are always executed together. Golab 2006,
sections 8.4.2 and 8.4.3.

>>> quick, slow = PeriodicQuery("quick", "max", 2, scan=9), PeriodicQuery("slow", "max", 3, scan=14)
>>> tasks = sub_groups([quick, slow])
>>> [task.period for task in tasks], joint_cost(tasks)
([2, 3], 14)
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class PeriodicQuery:
    """A query: its slide in updates, the cost of scanning its window in the synopsis, and the cost after the scan."""

    name: str
    group: Hashable
    slide: int
    scan: float
    finish: float = 0

    def __post_init__(self) -> None:
        assert self.slide >= 1, f"the slide of {self.name} is {self.slide} updates"


@dataclass(frozen=True, eq=False)
class Task:
    """Queries of one group that are always executed together, at least every `period` updates. Compared by identity."""

    group: Hashable
    period: int
    queries: tuple[PeriodicQuery, ...]

    def __post_init__(self) -> None:
        assert self.queries and all(query.group == self.group for query in self.queries)

    @property
    def scan(self) -> float:
        return max(query.scan for query in self.queries)

    @property
    def finish(self) -> float:
        return sum(query.finish for query in self.queries)


def joint_cost(tasks: Collection[Task]) -> float:
    """The cost of executing tasks of one group together."""
    assert len({task.group for task in tasks}) == 1, "only tasks of one group share an execution"
    return max(task.scan for task in tasks) + sum(task.finish for task in tasks)


def groups(queries: Iterable[PeriodicQuery]) -> list[list[PeriodicQuery]]:
    """The queries by group, in the order in which the groups were first seen."""
    found: dict[Hashable, list[PeriodicQuery]] = {}
    for query in queries:
        found.setdefault(query.group, []).append(query)
    return list(found.values())


def sub_groups(queries: Iterable[PeriodicQuery]) -> list[Task]:
    """A task for every slide of every group, as in no sharing and in conservative scheduling."""
    return [
        Task(members[0].group, slide, tuple(query for query in members if query.slide == slide))
        for members in groups(queries)
        for slide in sorted({query.slide for query in members})
    ]
