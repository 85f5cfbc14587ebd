"""Hybrid scheduling: chooses the sub-groups that run more often than they must, in order to share executions.

A plan divides the sub-groups of a group into blocks. A block is a task with the shortest period in it. Blocks run
together when their periods coincide, as in conservative scheduling. An execution costs the longest scan of the tasks
that are due, so the cost of a plan per update is

    sum over sub-groups k of  scan_k * (share of instants where k is due and none with a longer scan is)
                              + finish_k / period_k

The dynamic program processes sub-groups by descending scans. The choices so far affect later ones only through the set
of periods in use, so it remembers the cheapest way to each such set. A first, narrow search gives a bound; ways that
cannot get below it are dropped. The result equals that of a search through all divisions (Bell's numbers: 5 for 3
sub-groups, 115,975 for 10) as long as at most `states_max` sets are remembered at a time. If there are more, those with
the lowest estimate (`cost_of_joining`) are kept, and `exact` is False. The plan is still never dearer than those of
conservative and aggressive scheduling. O(g**2 * states) for g sub-groups.

Golab 2006, section 8.4.4, which mentions dynamic programming and memorized costs but does not give the program.

>>> sub = [PeriodicQuery("Q1", "G1", 2, 9), PeriodicQuery("Q4", "G1", 3, 14), PeriodicQuery("Q7", "G1", 5, 29)]
>>> plan = hybrid_plan(sub_groups(sub))
>>> [task.period for task in plan.tasks], round(plan.cost, 2), plan.exact
([2, 5], 11.4, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from panewise.schedule.periodic.aggressive import aggressive_tasks
from panewise.schedule.periodic.due_share import due_share
from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task, groups, sub_groups

STATES_MAX = 256
FIRST_STATES_MAX = 16  # `states_max` of the first search, which gives the bound


@dataclass(frozen=True)
class Plan:
    """The tasks of one group and their cost per update. `exact`: no division is cheaper."""

    tasks: tuple[Task, ...]
    cost: float
    exact: bool


@dataclass(frozen=True)
class _Way:
    """The cheapest way to a set of periods: its cost, and the period of each sub-group so far."""

    cost: float
    periods: tuple[int, ...]


@dataclass(frozen=True)
class _Rest:
    """The sub-groups that have no period yet: their own periods, the one with the shortest, and the least cost of
    finishing."""

    subs: tuple[Task, ...]
    periods: frozenset[int]
    shortest: Task | None
    finish: float

    @classmethod
    def of(cls, subs: Sequence[Task]) -> _Rest:
        periods = frozenset(sub.period for sub in subs)
        shortest = min(subs, key=lambda sub: sub.period, default=None)
        return cls(tuple(subs), periods, shortest, sum(sub.finish / sub.period for sub in subs))

    def least_cost(self, used: frozenset[int]) -> float:
        """A lower bound of the cost of these sub-groups: the one with the shortest period of all must keep its own."""
        if self.shortest is None or (used and min(used) < self.shortest.period):
            return self.finish
        due = due_share(used | {self.shortest.period}) - due_share(used)
        return self.finish + self.shortest.scan * due

    def cost_of_joining(self, used: frozenset[int]) -> float:
        """The cost of one way, usually a good one: a sub-group joins the longest period in use, or keeps its own."""
        cost = 0.0
        for sub in self.subs:
            period = max((period for period in used if period <= sub.period), default=sub.period)
            cost += _added_cost(sub, period, used)
            used |= {period}
        return cost


def plan_cost(tasks: Sequence[Task]) -> float:
    """The cost per update of tasks of one group, when all that are due at an instant are executed together."""
    cost, used, share = 0.0, frozenset[int](), 0.0
    for task in sorted(tasks, key=lambda task: -task.scan):
        used |= {task.period}
        before, share = share, due_share(used)
        cost += task.scan * (share - before) + task.finish / task.period
    return cost


def hybrid_tasks(queries: Iterable[PeriodicQuery], states_max: int = STATES_MAX) -> list[Task]:
    """The tasks of all groups, each group by the cheapest plan."""
    return [
        task for members in groups(queries) for task in hybrid_plan(sub_groups(members), states_max=states_max).tasks
    ]


def hybrid_plan(subs: Sequence[Task], states_max: int = STATES_MAX) -> Plan:
    """The cheapest division of the sub-groups of one group into tasks. Their periods must differ."""
    order = sorted(subs, key=lambda sub: (-sub.scan, sub.period))
    assert len({sub.period for sub in order}) == len(order), "queries of one slide are one sub-group"
    known = [tuple(subs), tuple(aggressive_tasks(query for sub in subs for query in sub.queries))]
    exact = False
    for width in (min(FIRST_STATES_MAX, states_max), states_max):
        if not exact:
            periods, exact = _search(order, width, min(map(plan_cost, known)))
            if periods is not None:
                known.append(_tasks(order, periods))
    tasks = min(known, key=plan_cost)
    return Plan(tasks, plan_cost(tasks), exact)


def _search(order: Sequence[Task], states_max: int, bound: float) -> tuple[tuple[int, ...] | None, bool]:
    """The periods of the cheapest plan below a bound (None: there is none), and whether the search was exhaustive."""
    ways: dict[frozenset[int], _Way] = {frozenset(): _Way(0.0, ())}
    exact = True
    for place, sub in enumerate(order):
        rest = _Rest.of(order[place + 1 :])
        found: dict[frozenset[int], _Way] = {}
        for used, way in ways.items():
            for period in _choices(sub, used, rest):
                after, cost = used | {period}, way.cost + _added_cost(sub, period, used)
                if cost + rest.least_cost(after) >= bound:
                    continue
                if after not in found or cost < found[after].cost:
                    found[after] = _Way(cost, (*way.periods, period))
        if len(found) > states_max:
            exact = False
            promising = sorted(found, key=lambda used: found[used].cost + rest.cost_of_joining(used))
            found = {used: found[used] for used in promising[:states_max]}
        ways = found
    best = min(ways.values(), key=lambda way: way.cost, default=None)
    return (None if best is None else best.periods), exact


def _choices(sub: Task, used: frozenset[int], rest: _Rest) -> Iterator[int]:
    """The periods that a sub-group may have: its own, or a shorter one that is in use or belongs to a later one."""
    yield sub.period
    # If others have joined its period, the owner keeps it, which is also cheapest for itself.
    if sub.period not in used:
        yield from (period for period in used | rest.periods if period < sub.period)


def _added_cost(sub: Task, period: int, used: frozenset[int]) -> float:
    scans = 0.0 if period in used else sub.scan * (due_share(used | {period}) - due_share(used))
    return scans + sub.finish / period


def _tasks(order: Sequence[Task], periods: Sequence[int]) -> tuple[Task, ...]:
    blocks: dict[int, list[PeriodicQuery]] = {}
    for sub, period in zip(order, periods, strict=True):
        blocks.setdefault(period, []).extend(sub.queries)
    return tuple(Task(order[0].group, period, tuple(blocks[period])) for period in sorted(blocks))
