"""The kill falls into the step, whatever Python does in between."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest

from tests.line_faults import killed_at


class Knot:
    """Refers to itself, so that only a collection of cycles ends it."""

    def __init__(self, ended: list[str]) -> None:
        self.itself = self
        weakref.finalize(self, ends, ended)


def ends(ended: list[str]) -> None:
    ended.append("begins")
    ended.append("is over")


def test_the_end_of_an_older_object_is_none_of_the_steps_lines() -> None:
    """A finalizer would take lines of the step's count, or the kill itself, of which Python then only prints that."""
    before = gc.get_threshold()
    ended: list[str] = []

    def step() -> None:
        some = []
        for number in range(100):
            some.append([number])  # noqa: PERF401 - a line each

    undisturbed = next(line for line in itertools.count() if not killed_at(line, __file__, step))
    gc.set_threshold(10, 1, 1)
    try:
        lines = 0
        while killed_at(lines, __file__, step):
            Knot(ended)
            lines += 1
    finally:
        gc.set_threshold(*before)
    assert lines == undisturbed > 200
    gc.collect()
    assert ended == ["begins", "is over"] * lines


def test_a_kill_that_is_caught_is_noticed() -> None:
    def step() -> None:
        try:
            str(1)
        except BaseException:  # noqa: BLE001 - as nothing should
            str(2)

    with pytest.raises(AssertionError, match="something has caught the kill"):
        killed_at(1, __file__, step)
