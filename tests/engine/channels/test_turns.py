"""Turns: in order of coming, re-entrant, given away between steps, and not lost when somebody stops waiting."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

import pytest

from panewise.engine.channels.turns import StateChange, Turns
from panewise.errors import EngineBroken
from tests.waiting import PATIENCE_S, until


def nothing() -> list[Exception]:
    return []


class Worker(threading.Thread):
    """A thread whose exception is raised by who joins it."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as problem:  # noqa: BLE001 - raised by `joined`
            self.problem = problem


def started(work: Callable[[], None]) -> Worker:
    thread = Worker(work)
    thread.start()
    return thread


def joined(*threads: Worker) -> None:
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "it waits for ever"
        if thread.problem is not None:
            raise thread.problem


def in_line(turns: Turns, order: list[int], number: int) -> Worker:
    """A thread that notes its number in its turn; returns when it stands in line."""
    length = len(turns._line)

    def work() -> None:
        with turns:
            order.append(number)

    thread = started(work)
    until(lambda: len(turns._line) > length)
    return thread


def test_who_comes_first_gets_in_first() -> None:
    turns, order = Turns(nothing), list[int]()
    with turns:
        threads = [in_line(turns, order, number) for number in range(6)]
        with turns:  # once more, by the same thread, although others wait
            order.append(-1)
    joined(*threads)
    assert order == [-1, 0, 1, 2, 3, 4, 5]
    assert not turns._line


def test_who_comes_back_at_once_comes_after_those_who_wait() -> None:
    for _ in range(20):
        turns, order = Turns(nothing), list[int]()
        with turns:
            thread = in_line(turns, order, 1)
        with turns:
            assert order == [1]
        joined(thread)


def test_a_loop_of_turns_lets_others_in() -> None:
    turns, over, order = Turns(nothing), threading.Event(), list[int]()

    def loop() -> None:
        while not over.is_set():
            with turns:
                time.sleep(0)

    thread = started(loop)
    for number in range(50):
        with turns:
            order.append(number)
    over.set()
    joined(thread)
    assert order == list(range(50))


def test_giving_way_lets_in_those_who_wait_now_and_goes_on() -> None:
    turns, order = Turns(nothing), list[int]()
    with turns:
        turns.give_way()  # nobody waits
        threads = [in_line(turns, order, number) for number in range(3)]
        with turns:
            turns.give_way()
            assert order == [], "a turn inside a turn does not give way: who is outside is in the middle of something"
        turns.give_way()
        assert order == [0, 1, 2]
        assert turns.owner == threading.get_ident()
        order.append(9)
    joined(*threads)
    assert order == [0, 1, 2, 9]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals that interrupt a wait")
@pytest.mark.parametrize("behind", [0, 1])
def test_who_is_interrupted_leaves_the_line(behind: int) -> None:
    turns, order, leave = Turns(nothing), list[int](), threading.Event()

    def hold() -> None:
        with turns:
            leave.wait(PATIENCE_S)

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    holder = started(hold)
    until(lambda: turns.owner != 0)
    threads = [in_line(turns, order, number) for number in range(behind)]
    me = threading.get_ident()

    def interrupt_who_waits() -> None:
        until(lambda: len(turns._line) > behind)
        signal.pthread_kill(me, signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        threads.append(started(interrupt_who_waits))
        with pytest.raises(KeyboardInterrupt), turns:
            pass
    finally:
        signal.signal(signal.SIGALRM, before)
    threads.append(in_line(turns, order, 7))
    leave.set()
    joined(holder, *threads)
    assert order == [*range(behind), 7]
    with turns:
        assert not turns._line


def test_what_is_outstanding_is_done_after_the_turn() -> None:
    seen: list[int] = []

    def afterwards() -> list[Exception]:
        seen.append(turns.owner)
        return [ValueError("of a subscriber")]

    def nested() -> None:
        with turns:
            with turns:
                turns.outstanding = True
            assert seen == []

    def failing() -> None:
        with turns:
            turns.outstanding = True
            raise KeyError

    turns = Turns(afterwards)
    with pytest.raises(ValueError, match="of a subscriber"):
        nested()
    assert seen == [0], "nobody was inside"
    with pytest.raises(KeyError):  # what the turn itself raised counts more
        failing()
    assert seen == [0, 0]
    with turns:
        pass
    assert seen == [0, 0], "it is done once"


def test_writers_are_known_until_their_turn_ends() -> None:
    turns = Turns(nothing)
    with turns:
        turns.writers.add(turns.owner)
        with turns:
            pass
        assert turns.writers == {threading.get_ident()}
    assert turns.writers == set()


@pytest.mark.parametrize("place", ["__exit__", "_leave"])
def test_a_turn_that_an_interrupt_has_not_let_end_is_taken_over(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes before the first step of what should end the turn; nobody waits for ever."""
    turns, order = Turns(nothing), list[int]()

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    def turn() -> None:
        monkeypatch.setattr(Turns, place, interrupted)
        with turns:
            pass

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            turn()
        with turns:  # the same thread finds its own frame gone
            assert not turns.nested
        with pytest.raises(KeyboardInterrupt):
            turn()
        thread = in_line(turns, order, 1)  # another one looks after the one that it waits for
        joined(thread)
    assert order == [1, 1]


@pytest.mark.parametrize("leaves", [True, False])
def test_who_leaves_in_the_middle_of_a_change_has_broken_it(leaves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(nothing)

    def turn() -> None:
        if not leaves:
            monkeypatch.setattr(Turns, "__exit__", lambda *_: None)
        with turns, turns.change:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turn()
    monkeypatch.undo()
    for _ in range(2):
        with pytest.raises(EngineBroken, match="in the middle of a change"), turns:
            pass
    assert turns.free


def test_a_change_ends_where_it_succeeds_or_is_undone() -> None:
    change = StateChange()
    with change:
        with contextlib.suppress(ValueError), change:
            change.undone()
            raise ValueError
        assert change.begun  # that of the outer one
    assert not change.begun
    with contextlib.suppress(KeyboardInterrupt), change:
        change.undone()
        raise KeyboardInterrupt
    assert not change.begun


def test_a_change_inside_that_raised_is_the_outer_one_s_to_undo() -> None:
    change = StateChange()
    with contextlib.suppress(ValueError), change:
        with contextlib.suppress(ValueError), change:
            raise ValueError
        assert change.begun
        change.undone()
        raise ValueError
    assert not change.begun
    with contextlib.suppress(ValueError), change:
        raise ValueError
    with change:
        pass
    assert change.begun  # for good
