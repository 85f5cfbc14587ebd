"""The structures that hold rows until they expire, against a plain list."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given

from panewise.state.calendar_queue import CalendarQueue
from panewise.state.expiring import Expiring
from panewise.state.fifo_queue import FifoQueue
from tests.now_or_soak import examples
from tests.state.expiring_runs import STEPS, Steps, expires_what_a_list_does, memory_follows_what_is_held

MAKERS: dict[str, Callable[[], Expiring]] = {
    "fifo": FifoQueue,
    "calendar": CalendarQueue,
    "calendar of few days": lambda: CalendarQueue(partitions=2),
}


@pytest.mark.parametrize("name", MAKERS)
@examples(60, soak=120)
@given(steps=STEPS)
@example(steps=[("insert", [0]), ("insert", [-1]), ("expire", 0)])  # older than all that is held
def test_every_structure_expires_what_a_list_does(name: str, steps: Steps) -> None:
    expires_what_a_list_does(MAKERS[name], steps, in_order=name == "fifo")


def test_a_fifo_queue_refuses_rows_that_overtake() -> None:
    queue = FifoQueue()
    queue.insert(np.array([0]), np.array([10]))
    with pytest.raises(AssertionError, match="before one that is held"):
        queue.insert(np.array([1]), np.array([9]))


@pytest.mark.parametrize("name", MAKERS)
def test_memory_follows_what_is_held(name: str) -> None:
    memory_follows_what_is_held(MAKERS[name]())
