"""The structures that hold rows until they expire, against a plain list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from panewise.state.calendar_queue import CalendarQueue
from panewise.state.expiring import FOREVER, Expiring
from panewise.state.fifo_queue import FifoQueue
from panewise.state.keyed_store import KeyedStore
from panewise.state.list_store import ListStore
from panewise.state.snapshot_format import dumped, loaded
from tests.now_or_soak import examples

MAKERS: dict[str, Callable[[], Expiring]] = {
    "fifo": FifoQueue,
    "list": ListStore,
    "calendar": CalendarQueue,
    "calendar of few days": lambda: CalendarQueue(partitions=2),
}
INSTANTS = st.integers(-40, 120) | st.sampled_from([FOREVER, FOREVER - 1, 5000])
STEPS = st.lists(
    st.tuples(st.just("insert"), st.lists(INSTANTS, max_size=8))
    | st.tuples(st.just("expire"), INSTANTS)
    | st.tuples(st.just("remove"), st.lists(st.integers(0, 60), max_size=4))
    | st.tuples(st.just("snapshot"), st.none()),
    max_size=25,
)


class Model:
    """A list of (id, expires), in order of insertion."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def expire(self, until: int) -> list[tuple[int, int]]:
        gone = sorted((row for row in self.rows if row[1] < until), key=lambda row: row[1])
        self.rows = [row for row in self.rows if row[1] >= until]
        return gone


def integers(values: Any) -> Any:
    return np.array(list(values), np.int64)


@pytest.mark.parametrize("name", MAKERS)
@examples(60, soak=120)
@given(steps=STEPS)
@example(steps=[("insert", [0]), ("insert", [-1]), ("expire", 0)])  # older than all that is held
def test_every_structure_expires_what_a_list_does(name: str, steps: list[tuple[str, Any]]) -> None:
    held, model, number = MAKERS[name](), Model(), 0
    for step, argument in steps:
        if step == "insert":
            instants = argument
            if name == "fifo":
                latest = max((row[1] for row in model.rows), default=-40)
                instants = [max(latest, instant) for instant in argument]
            rows = [(number + i, instant) for i, instant in enumerate(instants)]
            number += len(rows)
            held.insert(integers(row[0] for row in rows), integers(row[1] for row in rows))
            model.rows += rows
        elif step == "expire":
            ids, expires = held.expire(argument)
            assert list(zip(ids.tolist(), expires.tolist(), strict=True)) == model.expire(argument)
        elif step == "remove":
            held.remove(integers(argument))
            model.rows = [row for row in model.rows if row[0] not in argument]
        else:
            snapshot = loaded(dumped(held.snapshot()))
            held = MAKERS[name]()
            held.restore(snapshot)
        assert len(held) == len(model.rows)
    ids, expires = held.expire(FOREVER)
    assert list(zip(ids.tolist(), expires.tolist(), strict=True)) == model.expire(FOREVER)


@examples(75, soak=150)
@given(
    steps=st.lists(
        st.tuples(st.just("insert"), st.lists(st.tuples(st.integers(0, 5), INSTANTS), max_size=8))
        | st.tuples(st.just("expire"), INSTANTS)
        | st.tuples(st.just("take"), st.lists(st.integers(0, 7), max_size=5))
        | st.tuples(st.just("remove"), st.lists(st.integers(0, 60), max_size=4))
        | st.tuples(st.just("snapshot"), st.none()),
        max_size=25,
    )
)
def test_the_keyed_store_against_a_list(steps: list[tuple[str, Any]]) -> None:
    store, rows, number = KeyedStore(), [], 0  # rows: key, id, expires
    for step, argument in steps:
        if step == "insert":
            new = [(key, 1000 * (number + i) - 7, instant) for i, (key, instant) in enumerate(argument)]
            number += len(new)
            store.insert(*(integers(row[i] for row in new) for i in range(3)))
            rows += new
        elif step == "expire":
            gone = sorted((row for row in rows if row[2] < argument), key=lambda row: row[2])
            ids, expires = store.expire(argument)
            assert list(zip(ids.tolist(), expires.tolist(), strict=True)) == [row[1:] for row in gone]
            rows = [row for row in rows if row[2] >= argument]
        elif step == "take":
            expected = []
            for key in argument:
                newest = next((row for row in reversed(rows) if row[0] == key), None)
                expected.append(-1 if newest is None else newest[1])
                rows = [row for row in rows if row is not newest]
            assert store.take(integers(argument)).tolist() == expected
        elif step == "remove":
            ids = {1000 * i - 7 for i in argument}
            store.remove(integers(ids))
            rows = [row for row in rows if row[1] not in ids]
        else:
            snapshot = loaded(dumped(store.snapshot()))
            store = KeyedStore()
            store.restore(snapshot)
        counts = [sum(row[0] == key for row in rows) for key in range(8)]
        assert store.count(np.arange(8)).tolist() == counts
        assert len(store) == len(rows)


def test_a_fifo_queue_refuses_rows_that_overtake() -> None:
    queue = FifoQueue()
    queue.insert(np.array([0]), np.array([10]))
    with pytest.raises(AssertionError, match="overtake"):
        queue.insert(np.array([1]), np.array([9]))


@pytest.mark.parametrize("name", MAKERS)
def test_memory_follows_what_is_held(name: str) -> None:
    held = MAKERS[name]()
    sizes = []
    for step in range(40):
        begin = 1000 * step
        held.insert(np.arange(begin, begin + 1000), np.arange(begin, begin + 1000) // 10 + 400)
        held.expire(100 * step)
        sizes.append(held.bytes_held)
    assert max(sizes[20:]) <= max(sizes[:20])
    held.insert(np.arange(10**6, 10**6 + 300_000), np.full(300_000, 5000))
    most = held.bytes_held
    held.expire(10_000)
    held.insert(np.arange(2 * 10**6, 2 * 10**6 + 10), np.full(10, 20_000))
    held.expire(20_000)
    assert len(held) == 10 and held.bytes_held < most / 8
