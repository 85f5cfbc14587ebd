"""Which tasks run next: by earliest deadline, with what shares, never early, none dropped, always of their instant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panewise.schedule.periodic.conservative import same_deadline
from panewise.schedule.periodic.earliest_deadline import earliest_deadline
from panewise.schedule.periodic.late_sharing import late_and_pending_together, late_together
from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task, sub_groups
from panewise.schedule.periodic.sharing_techniques import TECHNIQUES, Choice
from papers.golab2006.timetable import SlideReading, Timetable

CHOICES: list[Choice] = [earliest_deadline, same_deadline, late_together, late_and_pending_together]


def task(group: str, period: int = 1, scan: float = 1) -> Task:
    return Task(group, period, (PeriodicQuery(f"{group} {period}", group, period, scan),))


# Section 8.4.5: G1,1 is late by two, G1,2 by one, G1,3 is due; and another group.
FIRST, SECOND, THIRD, OTHER = task("G1", 2), task("G1", 3), task("G1", 5), task("G2", 2)
WAITING = {SECOND: -1, FIRST: -2, THIRD: 0, OTHER: -2}


class TestOfTheThesis:
    @pytest.mark.parametrize(
        ("choose", "expected"),
        [
            (earliest_deadline, {FIRST}),
            (same_deadline, {FIRST}),
            (late_together, {FIRST, SECOND}),
            (late_and_pending_together, {FIRST, SECOND, THIRD}),
        ],
    )
    def test_overload(self, choose: Choice, expected: set[Task]) -> None:
        assert set(choose(WAITING)) == expected

    @pytest.mark.parametrize("choose", CHOICES[1:])
    def test_what_is_due_together_runs_together(self, choose: Choice) -> None:
        assert set(choose({FIRST: 0, SECOND: 0, OTHER: 0})) == {FIRST, SECOND}

    @pytest.mark.parametrize("choose", CHOICES)
    def test_nothing_waits(self, choose: Choice) -> None:
        assert choose({}) == ()


# -- earliest deadline first is optimal --------------------------------------------------------------------------------

Jobs = list[tuple[int, int, int]]
"""Release, duration and deadline of each."""


def greatest_lateness(jobs: Jobs, order: tuple[int, ...]) -> int:
    time, worst = 0, -(10**9)
    for i in order:
        release, duration, deadline = jobs[i]
        time = max(time, release) + duration
        worst = max(worst, time - deadline)
    return worst


def lateness_by_earliest_deadline(jobs: Jobs) -> int:
    tasks = {task("G", 1): i for i in range(len(jobs))}
    left, time, worst = dict(tasks), 0, -(10**9)
    while left:
        waiting = {own: jobs[i][2] - time for own, i in left.items() if jobs[i][0] <= time}
        chosen = earliest_deadline(waiting)
        if not chosen:
            time += 1
        for own in chosen:
            time += jobs[left[own]][1]
            worst = max(worst, time - jobs[left.pop(own)][2])
    return worst


@settings(max_examples=200)
@given(st.lists(st.tuples(st.just(0), st.integers(1, 5), st.integers(1, 15)), min_size=1, max_size=6))
def test_no_order_of_available_tasks_is_less_late(jobs: Jobs) -> None:
    best = min(greatest_lateness(jobs, order) for order in permutations(range(len(jobs))))
    assert lateness_by_earliest_deadline(jobs) == best


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 6), st.just(1), st.integers(1, 10)), min_size=1, max_size=6))
def test_nor_of_tasks_that_come_one_by_one_and_take_a_unit_each(jobs: Jobs) -> None:
    best = min(greatest_lateness(jobs, order) for order in permutations(range(len(jobs))))
    assert lateness_by_earliest_deadline(jobs) == best


# -- random runs -------------------------------------------------------------------------------------------------------

queries = st.lists(
    st.tuples(st.sampled_from("GH"), st.integers(1, 6), st.integers(1, 12)), min_size=1, max_size=8
).map(
    lambda drawn: [PeriodicQuery(f"{i}", group, slide, scan) for i, (group, slide, scan) in enumerate(drawn)]
)  # fmt: skip
pauses = st.lists(st.integers(0, 3), min_size=5, max_size=30)
"""How many executions fit between an update and the next: few, so that tasks become late."""


def play(
    timetable: Timetable,
    choose: Choice,
    executions: list[int],
    on_update: Callable[[], None] = lambda: None,
    on_answer: Callable[[PeriodicQuery, int], None] = lambda query, instant: None,
) -> dict[str, list[tuple[int, int]]]:
    """The answers of every query in order: the update at which it was computed, and the instant that it shows."""
    answers: dict[str, list[tuple[int, int]]] = {}
    room = [*executions, 10_000]  # in the end all that waits is worked off
    for count in room:
        timetable.update()
        on_update()
        for _ in range(count):
            waiting: Mapping[Task, int] = timetable.due()
            chosen = choose(waiting)
            assert bool(chosen) == bool(waiting)  # nothing waits while the processor is free
            if not chosen:
                break
            assert set(chosen) <= set(waiting) and len({own.group for own in chosen}) == 1
            assert min(waiting.values()) in {waiting[own] for own in chosen}
            for own, instant in timetable.execute(chosen):
                for query in own.queries:
                    on_answer(query, instant)
                    answers.setdefault(query.name, []).append((timetable.now, instant))
    return answers


@given(queries, pauses, st.sampled_from([name for name, own in TECHNIQUES.items() if own.tasks_of is sub_groups]))
def test_every_report_is_made_once_and_in_order(own: list[PeriodicQuery], executions: list[int], name: str) -> None:
    _every_report(own, executions, TECHNIQUES[name].choose)


@given(queries, pauses, st.sampled_from([late_together, late_and_pending_together]))
def test_late_sharing_changes_when_and_never_what(
    own: list[PeriodicQuery], executions: list[int], choose: Choice
) -> None:
    _every_report(own, executions, choose)


class HeldValues:
    """A value for every interval between updates, held as long as the next answer of a task needs it."""

    def __init__(self, timetable: Timetable, tasks: list[Task]) -> None:
        self._timetable, self._tasks = timetable, tasks
        self._held: dict[int, int] = {}

    @staticmethod
    def value(interval: int) -> int:
        return interval * interval % 101

    def update(self) -> None:
        """Interval i lies between updates i and i + 1."""
        self._held[self._timetable.now - 1] = self.value(self._timetable.now - 1)
        needed = min(self._timetable.shows(task) - int(query.scan) for task in self._tasks for query in task.queries)
        self._held = {interval: value for interval, value in self._held.items() if interval >= needed}

    def answer(self, query: PeriodicQuery, instant: int) -> int:
        return sum(self._held[interval] for interval in range(max(0, instant - int(query.scan)), instant))


def _every_report(own: list[PeriodicQuery], executions: list[int], choose: Choice) -> None:
    """The scan of a query is read as its window; a report at e over r intervals has intervals e - r to e - 1."""
    tasks = sub_groups(own)
    timetable = Timetable(tasks)
    held = HeldValues(timetable, tasks)
    sums: dict[str, list[int]] = {query.name: [] for query in own}

    def on_answer(query: PeriodicQuery, instant: int) -> None:
        sums[query.name].append(held.answer(query, instant))

    answers = play(timetable, choose, executions, held.update, on_answer)
    end = len(executions) + 1
    for query in own:
        made = answers.get(query.name, [])
        expected = range(query.slide, end + 1, query.slide)
        assert [instant for _, instant in made] == list(expected)
        assert all(computed >= instant for computed, instant in made)
        window = int(query.scan)
        assert sums[query.name] == [sum(map(HeldValues.value, range(max(0, e - window), e))) for e in expected]


@given(queries, pauses, st.sampled_from(sorted(TECHNIQUES)))
def test_no_query_is_early_nor_forgotten(own: list[PeriodicQuery], executions: list[int], name: str) -> None:
    technique = TECHNIQUES[name]
    tasks = technique.tasks_of(own)
    periods = {query.name: made.period for made in tasks for query in made.queries}
    answers = play(Timetable(tasks, SlideReading.AT_MOST), technique.choose, executions)
    end = len(executions) + 1
    for query in own:
        made = [0, *(computed for computed, _ in answers.get(query.name, []))]
        assert all(after - before >= periods[query.name] for before, after in pairwise(made))
        assert end - made[-1] < periods[query.name]
        assert all(computed == instant for computed, instant in answers.get(query.name, []))


@given(queries, st.sampled_from(sorted(TECHNIQUES)))
def test_nobody_waits_longer_than_the_slide_where_there_is_time(own: list[PeriodicQuery], name: str) -> None:
    technique = TECHNIQUES[name]
    tasks = technique.tasks_of(own)
    answers = play(Timetable(tasks, SlideReading.AT_MOST), technique.choose, [1_000] * 20)
    for query in own:
        made = [0, *(computed for computed, _ in answers.get(query.name, []))]
        assert all(after - before <= query.slide for before, after in pairwise(made))
