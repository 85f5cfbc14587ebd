"""Births and deaths of rows in every kind of continuous window."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from panewise.operators.alive_rows import AliveRows
from panewise.operators.lifetimes import FOREVER, lifetimes_of
from panewise.temporal import RowsWindow, TimeWindow, Window
from tests.operators.timelines import SCHEMA, Row, in_window, rows_of, through_ipc


def lives(
    window: Window, batches: list[list[Row]], held_from: int | None = None, restarts: bool = False
) -> list[tuple[int | None, int | None]]:
    """(birth, death) of every row, None for what is not known yet."""
    lifetimes, alive = lifetimes_of(window, SCHEMA, held_from), AliveRows()
    for batch in batches:
        if restarts:
            snapshots = through_ipc(lifetimes.snapshot()), through_ipc(alive.snapshot())
            lifetimes, alive = lifetimes_of(window, SCHEMA, held_from), AliveRows()
            lifetimes.restore(snapshots[0])
            alive.restore(snapshots[1])
        alive.take(lifetimes.assign(rows_of(batch)), None)

    def known(point: int) -> int | None:
        return None if point == FOREVER else point

    return [(known(b), known(d)) for b, d in zip(alive.births.tolist(), alive.deaths.tolist(), strict=True)]


def stream(times: list[int], keys: str | None = None) -> list[Row]:
    return [(t, keys[i] if keys else "a", None, None, None) for i, t in enumerate(times)]


def test_time_windows() -> None:
    rows = stream([10, 20])
    assert lives(TimeWindow(5), [rows]) == [(10, 15), (20, 25)]
    assert lives(TimeWindow(5, offset_us=100), [rows]) == [(110, 115), (120, 125)]
    assert lives(TimeWindow(1), [rows]) == [(10, 11), (20, 21)]
    assert lives(TimeWindow(None), [rows]) == [(10, None), (20, None)]


def test_count_windows() -> None:
    # row      1    2,3   4    5        the drawing of lifetimes.py: [ROWS 2 OFFSET 1]
    # ts       10   20    30   50
    rows = stream([10, 20, 20, 30, 50])
    expected = [(20, 30), (20, 50), (30, None), (50, None), (None, None)]
    assert lives(RowsWindow(2, offset=1), [rows]) == expected
    assert lives(RowsWindow(2, offset=1), [rows[:2], rows[2:3], [], rows[3:]]) == expected


def test_partitions_count_their_own_rows() -> None:
    # a at 1, 3, 4; b at 2, 9
    rows = stream([1, 2, 3, 4, 9], "abaab")
    expected = [(1, 3), (2, 9), (3, 4), (4, None), (9, None)]
    assert lives(RowsWindow(1, partition_by=("k",)), [[row] for row in rows]) == expected


def test_a_window_that_comes_in_mid_stream_waits_until_it_is_whole() -> None:
    rows = stream([10, 11, 20])
    # Whole from 10 + 5 - 1 on; the drawing: rows before 14 are born at 14.
    assert lives(TimeWindow(5), [rows], held_from=10) == [(14, 15), (14, 16), (20, 25)]
    assert lives(RowsWindow(2), [rows[:1], rows[1:]], held_from=0) == [(11, 20), (11, None), (20, None)]
    assert lives(TimeWindow(None), [rows], held_from=10) == [(10, None), (11, None), (20, None)]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from("abc")), max_size=25).map(
        lambda pairs: sorted(pairs, key=lambda pair: pair[0])
    ),
    st.one_of(
        st.builds(TimeWindow, st.one_of(st.none(), st.integers(1, 9)), offset_us=st.integers(0, 4)),
        st.builds(RowsWindow, st.integers(1, 4), offset=st.integers(0, 3), partition_by=st.sampled_from([(), ("k",)])),
    ),
    st.lists(st.integers(0, 25), max_size=5),
    st.booleans(),
)
def test_a_row_is_in_the_window_from_its_birth_to_its_death(
    pairs: list[tuple[int, str]], window: Window, cuts: list[int], restarts: bool
) -> None:
    # The column n numbers the rows; a batch never ends within an instant, as rows come when the watermark passes them.
    rows: list[Row] = [(t, k, None, i, None) for i, (t, k) in enumerate(pairs)]
    edges = sorted({0, 100, *cuts})
    batches = [[row for row in rows if low <= row[0] < high] for low, high in pairwise(edges)]
    found = lives(window, batches, restarts=restarts)
    for t in range(40):
        inside = [i for i, (b, d) in enumerate(found) if b is not None and b <= t and (d is None or t < d)]
        assert inside == [row[3] for row in in_window(window, rows, t)]
