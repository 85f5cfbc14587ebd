"""Tasks and plans of periodic queries: the costs of Golab 2006, section 8.4.4; the dynamic program against search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import lcm
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.schedule.periodic.aggressive import aggressive_tasks
from panewise.schedule.periodic.due_share import due_share
from panewise.schedule.periodic.hybrid import hybrid_plan, hybrid_tasks, plan_cost
from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task, joint_cost, sub_groups

# Q1 to Q7 of section 8.4.3; the maximum of w intervals takes w - 1 comparisons.
EXAMPLE = [
    PeriodicQuery(f"Q{number}", "G1", slide, window - 1)
    for number, window, slide in [
        (1, 10, 2), (2, 5, 2), (3, 6, 2), (4, 15, 3), (5, 12, 3), (6, 20, 5), (7, 30, 5),
    ]
]  # fmt: skip


def names(task: Task) -> list[str]:
    return sorted(query.name for query in task.queries)


def merged(subs: Sequence[Task], periods: Sequence[int]) -> list[Task]:
    """The tasks that sub-groups become when they take these periods."""
    pairs = list(zip(subs, periods, strict=True))
    return [
        Task(subs[0].group, period, tuple(q for sub, own in pairs if own == period for q in sub.queries))
        for period in sorted(set(periods))
    ]


def cost_by_counting(tasks: Sequence[Task]) -> Fraction:
    """The definition: go through a common multiple of the periods and add up what is due at each instant."""
    length = lcm(*(task.period for task in tasks))
    total = Fraction(0)
    for instant in range(1, length + 1):
        if due := [task for task in tasks if instant % task.period == 0]:
            total += Fraction(joint_cost(due))
    return total / length


def partitions(subs: Sequence[Task]) -> Iterator[list[list[Task]]]:
    if not subs:
        yield []
        return
    for blocks in partitions(subs[1:]):
        yield [[subs[0]], *blocks]
        for i, block in enumerate(blocks):
            yield [*blocks[:i], [subs[0], *block], *blocks[i + 1 :]]


def as_tasks(blocks: Sequence[Sequence[Task]]) -> list[Task]:
    return [
        Task(block[0].group, min(sub.period for sub in block), tuple(q for sub in block for q in sub.queries))
        for block in blocks
    ]


queries_of_a_group = st.lists(
    st.builds(
        lambda slide, scan, finish: (slide, scan, finish),
        st.integers(1, 12),
        st.integers(1, 40),
        st.sampled_from([0, 0, 1, 5, 20]),
    ),
    min_size=1,
    max_size=7,
).map(lambda drawn: [PeriodicQuery(str(i), "G", *values) for i, values in enumerate(drawn)])


class TestTheExample:
    def test_sub_groups_have_one_slide_each(self) -> None:
        subs = sub_groups(EXAMPLE)
        assert [(names(sub), sub.period, sub.scan) for sub in subs] == [
            (["Q1", "Q2", "Q3"], 2, 9),
            (["Q4", "Q5"], 3, 14),
            (["Q6", "Q7"], 5, 29),
        ]

    def test_two_sub_groups_apart_and_together(self) -> None:
        subs = sub_groups(EXAMPLE)[:2]
        assert plan_cost(subs) * 6 == pytest.approx(46)
        assert round(plan_cost(subs), 2) == 7.67
        assert plan_cost(merged(subs, (2, 2))) == pytest.approx(7)

    @pytest.mark.parametrize(
        ("periods", "per_minute"),
        [((2, 3, 5), 11.93), ((2, 2, 5), 11.4), ((2, 2, 2), 14.5), ((2, 3, 3), 12.67), ((2, 3, 2), 16.83)],
    )
    def test_the_five_schedules(self, periods: tuple[int, ...], per_minute: float) -> None:
        assert round(plan_cost(merged(sub_groups(EXAMPLE), periods)), 2) == per_minute

    def test_conservative_costs_358_in_30_minutes(self) -> None:
        assert plan_cost(sub_groups(EXAMPLE)) * 30 == pytest.approx(358)

    def test_hybrid_shortens_the_second(self) -> None:
        plan = hybrid_plan(sub_groups(EXAMPLE))
        assert [(task.period, names(task)) for task in plan.tasks] == [
            (2, ["Q1", "Q2", "Q3", "Q4", "Q5"]),
            (5, ["Q6", "Q7"]),
        ]
        assert plan.exact and plan.cost == pytest.approx(11.4)

    def test_aggressive_runs_all_every_two_minutes(self) -> None:
        (task,) = aggressive_tasks(EXAMPLE)
        assert task.period == 2 and len(task.queries) == 7


@given(st.frozensets(st.integers(1, 30), max_size=6))
def test_the_share_of_instants_is_counted_right(periods: frozenset[int]) -> None:
    length = lcm(*periods, 1)
    if length > 50_000:
        return
    count = sum(any(instant % period == 0 for period in periods) for instant in range(length))
    assert due_share(periods) == pytest.approx(count / length)


@given(queries_of_a_group)
def test_the_cost_of_a_plan_is_what_counting_gives(queries: list[PeriodicQuery]) -> None:
    tasks = sub_groups(queries)
    assert plan_cost(tasks) == pytest.approx(float(cost_by_counting(tasks)))


@settings(deadline=None)
@given(queries_of_a_group)
def test_the_dynamic_program_finds_what_exhaustive_search_does(queries: list[PeriodicQuery]) -> None:
    subs = sub_groups(queries)
    plan = hybrid_plan(subs, states_max=100_000)
    best = min(plan_cost(as_tasks(blocks)) for blocks in partitions(subs))
    assert plan.exact
    assert plan.cost == pytest.approx(best)
    assert plan.cost == pytest.approx(plan_cost(plan.tasks))


@pytest.mark.parametrize(
    "drawn",
    [
        [(5, 31, 20), (6, 25, 5), (7, 9, 20), (2, 17, 20), (11, 17, 5)],
        [(8, 34, 0), (2, 12, 20), (6, 26, 0), (7, 1, 1), (5, 29, 1)],
        [(2, 18, 0), (6, 36, 1), (10, 28, 0), (11, 11, 20)],
        [(2, 6, 20), (11, 10, 5), (10, 33, 5), (3, 32, 5)],
        [(4, 3, 0), (10, 24, 0), (2, 14, 20), (11, 16, 5), (6, 34, 0)],
    ],
)
def test_nobody_takes_a_period_that_its_owner_has_given_up(drawn: list[tuple[int, float, float]]) -> None:
    """Where that would be cheaper than every division into blocks: a period that no query of the task asked for."""
    subs = sub_groups([PeriodicQuery(str(i), "G", *values) for i, values in enumerate(drawn)])
    plan = hybrid_plan(subs, states_max=100_000)
    assert plan.cost == pytest.approx(min(plan_cost(as_tasks(blocks)) for blocks in partitions(subs)))
    assert all(task.period in {query.slide for query in task.queries} for task in plan.tasks)


@settings(deadline=None)
@given(queries_of_a_group, st.sampled_from([1, 2, 1000]))
def test_a_plan_keeps_every_query_and_its_slide(queries: list[PeriodicQuery], states_max: int) -> None:
    plan = hybrid_plan(sub_groups(queries), states_max)
    assert sorted(query.name for task in plan.tasks for query in task.queries) == sorted(q.name for q in queries)
    assert all(task.period <= query.slide for task in plan.tasks for query in task.queries)
    # Every task has the period of one of its own queries: somebody asked for it.
    assert all(task.period in {query.slide for query in task.queries} for task in plan.tasks)
    conservative, aggressive = plan_cost(sub_groups(queries)), plan_cost(aggressive_tasks(queries))
    assert plan.cost <= min(conservative, aggressive) + 1e-9


def test_a_narrow_search_says_that_it_is_not_exact() -> None:
    random = Random(1)
    queries = [
        PeriodicQuery(str(i), "G", random.randint(1, window // 2), window, 5)
        for i, window in enumerate(random.choices(range(20, 101), k=20))
    ]
    narrow, wide = (hybrid_plan(sub_groups(queries), states_max) for states_max in (2, 256))
    assert not narrow.exact and narrow.cost >= wide.cost


def test_groups_are_planned_apart() -> None:
    other = [PeriodicQuery(f"{query.name} of H", "H", query.slide, query.scan) for query in EXAMPLE]
    assert [(task.group, task.period) for task in hybrid_tasks([*EXAMPLE, *other])] == [
        ("G1", 2), ("G1", 5), ("H", 2), ("H", 5),
    ]  # fmt: skip
    with pytest.raises(AssertionError):
        joint_cost(sub_groups([EXAMPLE[0], other[0]]))
