"""Periodic queries over synopses on one processor, in simulated time: Golab 2006, section 8.5.1.

The synopses are updated once a second, as soon as the processor is free; an update, a one-time query and an execution
are never interrupted, and go in this order where several wait. An execution takes its cost in work by the speed of the
processor. So one seed gives one result on every machine.

Work is counted in counters. An interval of the synopsis holds one for each distinct value among its rows; a scan merges
those of all intervals of the longest window, then every query goes once more through the counters of its own window
to find its top k or quantile. The thesis speaks of eight groups of queries and names six attributes; the last
two are ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task, joint_cost
from panewise.schedule.periodic.sharing_techniques import Choice
from papers.golab2006.timetable import SlideReading, Timetable

ADDRESSES, SMALL = 1_000, 100  # distinct values of either address, and of protocols and ports, at 1,500 rows a second
BASE_RATE = 1_500
GROUPS: dict[str, int] = {
    "source": ADDRESSES,
    "destination": ADDRESSES,
    "source, destination": ADDRESSES**2,
    "protocol": SMALL,
    "port": SMALL,
    "protocol, port": SMALL**2,
    "source, protocol": ADDRESSES * SMALL,
    "destination, port": ADDRESSES * SMALL,
}
FINISH_WORK = 0.1  # of looking at a counter of a window, relative to merging one
WINDOWS = (20, 100)


@dataclass(frozen=True)
class ScheduleWorkload:
    """Queries, and the work of one update of all synopses and of a one-time query."""

    queries: tuple[PeriodicQuery, ...]
    update: float
    one_time: float


def random_workload(rate: int, per_group: int, seed: int = 1, finish_work: float = FINISH_WORK) -> ScheduleWorkload:
    """Windows of 20 to 100 updates, slides of one to half of that; at twice the rate twice the distinct values."""
    random = Random(seed)
    scale = rate / BASE_RATE
    queries, update = [], 0.0
    for group, values in GROUPS.items():
        distinct = values * scale ** (2 if "," in group else 1)
        per_interval = distinct_values(distinct, rate)
        update += per_interval
        for number in range(per_group):
            window = random.randint(*WINDOWS)
            slide = random.randint(1, window // 2)
            finish = finish_work * distinct_values(distinct, rate * window)
            queries.append(PeriodicQuery(f"{group} {number}", group, slide, window * per_interval, finish))
    return ScheduleWorkload(tuple(queries), update, one_time=ADDRESSES * scale)


def distinct_values(values: float, rows: float) -> float:
    """How many of equally frequent values occur among so many rows."""
    return float(values * (1 - (1 - 1 / values) ** rows))


@dataclass
class MeasuredSchedule:
    """What was executed, query by query: how often, and by how many updates too late in all."""

    seconds: float = 0.0
    executions: dict[str, int] = field(default_factory=dict)
    late_updates: dict[str, int] = field(default_factory=dict)
    tasks: int = 0

    @property
    def throughput(self) -> float:
        """Executions of queries per second."""
        return sum(self.executions.values()) / self.seconds

    @property
    def latency(self) -> float:
        """Updates beyond the slide between executions of a query: the mean over its executions, then over queries."""
        means = [late / max(self.executions[name], 1) for name, late in self.late_updates.items()]
        return sum(means) / len(means)


def simulate(
    workload: ScheduleWorkload, tasks: Iterable[Task], choose: Choice, speed: float, seconds: int
) -> MeasuredSchedule:
    """Runs tasks of the queries for so long on a processor that merges `speed` counters a second."""
    simulation = _Simulation(workload, tasks, choose, speed)
    while simulation.time < seconds:
        simulation.step()
    return simulation.finish()


class _Simulation:
    def __init__(self, workload: ScheduleWorkload, tasks: Iterable[Task], choose: Choice, speed: float) -> None:
        own = list(tasks)
        self.time = 0.0
        self._workload, self._choose, self._speed = workload, choose, speed
        self._timetable = Timetable(own, SlideReading.AT_MOST)
        self._random = Random(2)
        self._next_one_time = self._random.expovariate(1)
        names = [query.name for query in workload.queries]
        self._shown = dict.fromkeys(names, 0)
        self._measured = MeasuredSchedule(0.0, dict.fromkeys(names, 0), dict.fromkeys(names, 0), tasks=len(own))

    def step(self) -> None:
        """What comes next: an update, a one-time query, an execution, or nothing until one of the first two."""
        next_update = self._timetable.now + 1.0
        if next_update <= self.time:
            self.time += self._workload.update / self._speed
            self._timetable.update()
        elif self._next_one_time <= self.time:
            self.time += self._workload.one_time / self._speed
            self._next_one_time += self._random.expovariate(1)
        elif chosen := self._choose(self._timetable.due()):
            self.time += joint_cost(chosen) / self._speed
            self._timetable.execute(chosen)
            for task in chosen:
                self._count(task)
        else:
            self.time = min(next_update, self._next_one_time)

    def _count(self, task: Task) -> None:
        measured, now = self._measured, self._timetable.now
        for query in task.queries:
            measured.executions[query.name] += 1
            measured.late_updates[query.name] += max(0, now - self._shown[query.name] - query.slide)
            self._shown[query.name] = now

    def finish(self) -> MeasuredSchedule:
        """What is late at the end counts too, as if it were executed there."""
        for query in self._workload.queries:
            late = self._timetable.now - self._shown[query.name] - query.slide
            self._measured.late_updates[query.name] += max(0, late)
        self._measured.seconds = self.time
        return self._measured
