"""The timetable of periodic tasks: deadlines, late executions under both readings of slides, tasks that come and go."""

from __future__ import annotations

import pytest

from panewise.schedule.periodic.periodic_tasks import PeriodicQuery, Task
from papers.golab2006.timetable import SlideReading, Timetable


def task(group: str, period: int) -> Task:
    return Task(group, period, (PeriodicQuery(f"{group} {period}", group, period, 1),))


def test_deadlines_of_figure_8_5() -> None:
    own = task("G", 2)
    timetable = Timetable([own], SlideReading.AT_MOST)
    found = []
    for _ in range(2):
        found.append(timetable.until_deadline(own))
        timetable.update()
    found.append(timetable.until_deadline(own))
    timetable.execute([own])
    assert [*found, timetable.until_deadline(own)] == [2, 1, 0, 2]


def test_a_late_execution_does_not_hasten_the_next() -> None:
    own = task("G", 2)
    for reading, expected in ((SlideReading.AT_MOST, 2), (SlideReading.EXACT, -1)):
        timetable = Timetable([own], reading)
        for _ in range(5):
            timetable.update()
        timetable.execute([own])
        assert timetable.until_deadline(own) == expected


def test_tasks_come_and_go() -> None:
    first, second = task("G", 2), task("G", 5)
    timetable = Timetable([first], now=7)
    timetable.add(second)
    assert timetable.until_deadline(first) == 1 and timetable.until_deadline(second) == 3
    for _ in range(3):
        timetable.update()
    assert timetable.due() == {first: -2, second: 0}
    timetable.remove(first)
    assert timetable.due() == {second: 0}
    with pytest.raises(AssertionError):
        Timetable([first]).execute([first])
