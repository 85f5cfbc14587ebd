"""What a scheduler commits has the level that it promises, by the checker; TTU aborts what every order would abort."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.errors import PanewiseError
from panewise.schedule.isolation.histories import OperationKind
from panewise.schedule.isolation.latest_window_scheduler import LatestWindowScheduler, OnConflict
from panewise.schedule.isolation.levels import Level, isolation
from panewise.schedule.isolation.read_orders import ReadOrder, by_sub_window, oldest_first, youngest_first
from panewise.schedule.isolation.recorded_scheduler import RecordedScheduler
from panewise.schedule.isolation.scheduler_names import SCHEDULERS
from panewise.schedule.isolation.schedulers import Scheduler
from panewise.schedule.isolation.serial_scheduler import SerialScheduler
from panewise.schedule.isolation.transactions import Priority, WindowRead
from panewise.schedule.isolation.window_scheduler import WindowScheduler
from tests.now_or_soak import examples


def any_order(chance: random.Random) -> ReadOrder:
    return lambda unread, count, last: chance.choice([bit for bit in range(count) if unread >> bit & 1])


def driven(
    scheduler: Scheduler, chance: random.Random, *, weak: bool = False, whole: bool = False
) -> RecordedScheduler:
    """Many reads and moves at random, until all reads are over."""
    recorded = RecordedScheduler(scheduler)
    count = scheduler.sub_windows
    started = moves = 0
    while started < 6 or recorded.runnable():
        what = chance.random()
        if what < 0.2 and started < 6:
            length = count if whole else chance.randint(1, count)
            recorded.begin(WindowRead(f"Q{started}", length, chance.choice(list(Priority))))
            started += 1
        elif what < 0.45 and moves < 12:
            inserted = frozenset(place for place in range(count) if weak and chance.random() < 0.4)
            moves += recorded.move(inserted) is not None
        elif recorded.runnable():
            name = chance.choice(recorded.runnable())
            if recorded.next_step(name) is None:
                recorded.commit(name)
    return recorded


LATEST = Level.LATEST_WINDOW
MAKERS: dict[str, tuple[Callable[[int, random.Random], Scheduler], Level]] = {
    "Serial": (lambda count, _: SerialScheduler(count), Level.SERIAL),
    "WS": (lambda count, _: WindowScheduler(count), Level.WINDOW),
    "WS in any order": (lambda count, chance: WindowScheduler(count, order=any_order(chance)), Level.WINDOW),
    "LWS": (lambda count, _: LatestWindowScheduler(count, order=by_sub_window), LATEST),
    "LWS in any order": (lambda count, chance: LatestWindowScheduler(count, order=any_order(chance)), LATEST),
    "TTU": (lambda count, _: LatestWindowScheduler(count, last_move=count + 1), LATEST),
    "TTU with re-scans": (lambda count, _: LatestWindowScheduler(count, on_conflict=OnConflict.RESCAN), LATEST),
    "LWS with re-scans": (
        lambda count, chance: LatestWindowScheduler(count, order=any_order(chance), on_conflict=OnConflict.RESCAN),
        LATEST,
    ),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("weak", [False, True])
@examples(30, soak=60)
@given(count=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_what_is_committed_has_the_promised_level(name: str, weak: bool, count: int, seed: int) -> None:
    make, promised = MAKERS[name]
    chance = random.Random(seed)
    recorded = driven(make(count, chance), chance, weak=weak, whole=weak)
    history = recorded.history()
    assert isolation(history).level >= promised
    if "re-scans" in name or name == "Serial":
        assert len(history.committed_reads) == 6


def test_the_checks_above_can_fail() -> None:
    # Each promise is broken by the scheduler of the next weaker one, somewhere within a few runs.
    def lowest(name: str) -> Level:
        return min(
            isolation(driven(SCHEDULERS[name].make(3), random.Random(seed), whole=True).history()).level
            for seed in range(30)
        )

    assert lowest("WS") is Level.WINDOW
    assert lowest("LWS") is lowest("TTU") is Level.LATEST_WINDOW
    assert lowest("Serial") is Level.SERIAL


def test_algorithm_8_makes_history_he() -> None:
    recorded = RecordedScheduler(LatestWindowScheduler(5))
    recorded.begin(WindowRead("Q1", 5))
    for what in "rmrrrmr":
        if what == "m":
            recorded.move()
        else:
            recorded.next_step("Q1")
    recorded.commit("Q1")
    assert str(recorded.history()) == "rQ1[4] w5[0] c5 rQ1[0] rQ1[3] rQ1[2] w6[1] c6 rQ1[1] cQ1"


def test_plain_lws_aborts_where_history_hf_goes_wrong() -> None:
    scheduler = SCHEDULERS["LWS"].make(5)
    scheduler.begin(WindowRead("Q1", 5))
    scheduler.next_step("Q1")
    moved = scheduler.move()
    assert moved is not None and moved.aborted == ("Q1",)


# -- theorem 7.4: no order of reads aborts less ------------------------------------------------------------------------


def commits(order: ReadOrder, count: int, length: int, moves_before_steps: tuple[int, ...]) -> bool:
    """Whether one read commits when so many moves come before each of its steps."""
    plain = LatestWindowScheduler(count, order=order)
    plain.begin(WindowRead("Q", length))
    for moves in moves_before_steps:
        for _ in range(moves):
            moved = plain.move()
            assert moved is not None
            if moved.aborted:
                return False
        plain.next_step("Q")
    plain.commit("Q")
    return True


def scripted(choices: tuple[int, ...]) -> ReadOrder:
    """Takes the unread sub-windows of these ranks, one a step."""
    left: Iterator[int] = iter(choices)

    def order(unread: int, count: int, last: int) -> int:
        bits = [bit for bit in range(count) if unread >> bit & 1]
        return bits[next(left) % len(bits)]

    return order


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_ttu_aborts_only_what_every_order_aborts(count: int) -> None:
    aborted = saved = 0
    for length in range(1, count + 1):
        scripts = list(product(*(range(left) for left in range(length, 0, -1))))
        for moves in product(range(count), repeat=length):
            own = commits(youngest_first, count, length, moves)
            others = [commits(scripted(script), count, length, moves) for script in scripts]
            assert own or not any(others), (length, moves)
            aborted += not own
            saved += own and not all(others)
    # The test is not about reads that no move meets: both happen.
    assert count < 3 or (aborted and saved)


def aborts_with_restarts(order: ReadOrder, count: int, events: str) -> int:
    """An aborted or committed read begins again at once; r is a step of it, m a move."""
    scheduler = LatestWindowScheduler(count, order=order)
    aborts = 0
    for event in events:
        if scheduler.choose() is None:
            scheduler.begin(WindowRead("Q", count))
        if event == "m":
            moved = scheduler.move()
            assert moved is not None
            aborts += len(moved.aborted)
        else:
            scheduler.next_step("Q")
            if scheduler.is_complete("Q"):
                scheduler.commit("Q")
    return aborts


def test_theorem_7_4_counts_a_read_once() -> None:
    # An order that aborts early may begin again early: counted with restarts, TTU is not always best.
    events = "rmrmmrrmm"
    orders = [scripted(script) for script in product(range(3), repeat=events.count("r"))]
    assert aborts_with_restarts(youngest_first, 3, events) == 2
    assert min(aborts_with_restarts(order, 3, events) for order in orders) == 1


@examples(30, soak=60)
@given(st.integers(2, 5), st.lists(st.integers(0, 2), min_size=5, max_size=5), st.integers(0, 2**32))
def test_ttu_needs_the_fewest_rescans(count: int, moves: list[int], seed: int) -> None:
    def rescans(order: ReadOrder) -> int:
        scheduler = LatestWindowScheduler(count, order=order, on_conflict=OnConflict.RESCAN)
        scheduler.begin(WindowRead("Q", count))
        undone, left = 0, list(moves)
        while True:
            for _ in range(left.pop(0) if left else 0):
                scheduler.move()
            while (step := scheduler.next_step("Q")) is not None and step.undo:
                undone += 1
            if step is None:
                return undone

    assert rescans(youngest_first) <= rescans(any_order(random.Random(seed)))


# -- priorities, kept copies, rows passed on ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_one_time_query_suspends_a_periodic_one(name: str) -> None:
    scheduler = SCHEDULERS[name].make(3)
    scheduler.begin(WindowRead("periodic", 3))
    assert scheduler.choose() == "periodic"
    scheduler.next_step("periodic")
    scheduler.begin(WindowRead("late", 3))
    scheduler.begin(WindowRead("one-time", 1, Priority.ONE_TIME))
    if name == "Serial":
        assert scheduler.choose() == "periodic"
        with pytest.raises(PanewiseError, match="must wait until 'periodic' has ended"):
            scheduler.next_step("one-time")
        while scheduler.next_step("periodic"):
            pass
        scheduler.commit("periodic")
    assert scheduler.choose() == "one-time"
    scheduler.next_step("one-time")
    assert scheduler.next_step("one-time") is None
    scheduler.commit("one-time")
    assert scheduler.choose() == ("late" if name == "Serial" else "periodic")


def test_old_copies_are_kept_until_they_are_undone() -> None:
    scheduler = LatestWindowScheduler(3, order=oldest_first, on_conflict=OnConflict.RESCAN)
    scheduler.begin(WindowRead("Q", 3))
    assert scheduler.next_step("Q") is not None and not scheduler.kept_copies()
    scheduler.move()
    assert scheduler.kept_copies() == {0}
    step = scheduler.next_step("Q")
    assert step is not None and step.undo and (step.copy, step.sub_window) == (0, 0)
    assert not scheduler.kept_copies()


def test_inserted_rows_are_passed_to_reads_that_have_been_there() -> None:
    recorded = RecordedScheduler(LatestWindowScheduler(5))
    recorded.begin(WindowRead("Q", 5))
    recorded.next_step("Q")
    recorded.next_step("Q")
    moved = recorded.move(frozenset({1, 3, 4}))
    assert moved is not None and moved.forwarded == (("Q", 3), ("Q", 4))
    while recorded.next_step("Q"):
        pass
    recorded.commit("Q")
    history = recorded.history()
    assert str(history) == "rQ[4] rQ[3] w5[0] i5[1] i5[3] i5[4] fQ[3] fQ[4] c5 rQ[0] rQ[2] rQ[1] cQ"
    assert isolation(history).level is LATEST
    # Without them the same reads saw no window.
    without = [step for step in history.operations if step.kind is not OperationKind.FORWARD]
    assert isolation(type(history)(tuple(without), 5)).level < Level.WINDOW


def test_a_weak_result_is_read_whole() -> None:
    scheduler = LatestWindowScheduler(5)
    scheduler.begin(WindowRead("Q", 2))
    with pytest.raises(PanewiseError, match="read whole"):
        scheduler.move(frozenset({3}))


def test_names_of_reads_are_checked() -> None:
    scheduler = LatestWindowScheduler(5)
    scheduler.begin(WindowRead("Q", 2))
    with pytest.raises(PanewiseError, match="is already running"):
        scheduler.begin(WindowRead("Q", 2))
    with pytest.raises(PanewiseError, match="no read 'R' is running"):
        scheduler.next_step("R")
    scheduler.abort("Q")
    assert scheduler.choose() is None
