"""The stores that the executions of chapter 3 compare with: the list, and rows by key, against plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from panewise.state.snapshot_format import dumped, loaded
from papers.golab2006.keyed_store import KeyedStore
from papers.golab2006.list_store import ListStore
from tests.now_or_soak import examples
from tests.state.expiring_runs import (
    INSTANTS,
    STEPS,
    Steps,
    expires_what_a_list_does,
    integers,
    memory_follows_what_is_held,
)


@examples(60, soak=120)
@given(steps=STEPS)
@example(steps=[("insert", [0]), ("insert", [-1]), ("expire", 0)])  # older than all that is held
def test_the_list_store_expires_what_a_list_does(steps: Steps) -> None:
    expires_what_a_list_does(ListStore, steps)


def test_memory_of_the_list_store_follows_what_is_held() -> None:
    memory_follows_what_is_held(ListStore())


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
