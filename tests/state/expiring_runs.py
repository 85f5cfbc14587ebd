"""Random runs of a structure that holds rows until they expire, beside a list that does the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from panewise.state.expiring import FOREVER, Expiring
from panewise.state.snapshot_format import dumped, loaded

Steps = list[tuple[str, Any]]
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


def expires_what_a_list_does(maker: Callable[[], Expiring], steps: Steps, in_order: bool = False) -> None:
    """`in_order`: rows that come later expire no earlier."""
    held, model, number = maker(), Model(), 0
    for step, argument in steps:
        if step == "insert":
            instants = argument
            if in_order:
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
            held = maker()
            held.restore(snapshot)
        assert len(held) == len(model.rows)
    ids, expires = held.expire(FOREVER)
    assert list(zip(ids.tolist(), expires.tolist(), strict=True)) == model.expire(FOREVER)


def memory_follows_what_is_held(held: Expiring) -> None:
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
