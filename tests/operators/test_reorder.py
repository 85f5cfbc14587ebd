"""The reorder buffer: every row once, in (time, arrival) order, when the watermark has passed it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from panewise.operators.reorder import ReorderBuffer
from tests.operators.timelines import SCHEMA, Row, rows_of, through_ipc


def batches_of(times: list[list[int]]) -> list[list[Row]]:
    return [[(t, str(t), None, i, None) for i, t in enumerate(batch)] for batch in times]


def test_rows_in_order_are_handed_on_without_a_copy() -> None:
    buffer = ReorderBuffer(SCHEMA)
    rows = rows_of([(t, "a", None, t, None) for t in range(10)])
    buffer.insert(rows)
    released = buffer.release(4)
    assert released.times.tolist() == [0, 1, 2, 3]
    assert np.shares_memory(released.times, rows.times)
    assert len(buffer) == 6
    assert buffer.release(4).times.tolist() == []
    assert buffer.release(100).batch.column("n").to_pylist() == [4, 5, 6, 7, 8, 9]
    assert buffer.bytes_held == 0


def test_strings_may_come_as_dictionaries_and_plainly() -> None:
    """A large batch is taken as it was pushed, and small ones are joined without their dictionaries."""
    buffer = ReorderBuffer(SCHEMA)
    for position, times in enumerate(([5, 1], [4, 2], [3])):
        rows = rows_of([(t, str(t), None, t, None) for t in times], 2 * position)
        if position != 1:
            columns = [c.dictionary_encode() if c.type == pa.string() else c for c in rows.batch.columns]
            rows = replace(rows, batch=pa.RecordBatch.from_arrays(columns, names=rows.batch.schema.names))
        buffer.insert(rows)
    assert len(through_ipc(buffer.snapshot())["batch"]) == 5
    assert buffer.release(100).batch.column("k").to_pylist() == ["1", "2", "3", "4", "5"]


def test_ties_come_in_order_of_arrival() -> None:
    buffer = ReorderBuffer(SCHEMA)
    buffer.insert(rows_of([(5, "first", None, 0, None), (3, "third", None, 1, None)], 0))
    buffer.insert(rows_of([(5, "second", None, 2, None), (3, "fourth", None, 3, None)], 2))
    assert buffer.release(6).batch.column("k").to_pylist() == ["third", "fourth", "first", "second"]


@given(st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=8), st.integers(0, 35)), max_size=8), st.booleans())
def test_every_row_once_and_in_order(steps: list[tuple[list[int], int]], restarts: bool) -> None:
    buffer = ReorderBuffer(SCHEMA)
    released: list[tuple[int, int]] = []
    inserted: list[tuple[int, int]] = []
    watermark = 0
    for times, advance in steps:
        # Late rows never get here: the host sets them aside.
        times = [t for t in times if t >= watermark]
        rows = rows_of([(t, str(t), None, None, None) for t in times], len(inserted))
        inserted += list(zip(times, range(len(inserted), len(inserted) + len(times)), strict=True))
        buffer.insert(rows)
        if restarts:
            snapshot = through_ipc(buffer.snapshot())
            buffer = ReorderBuffer(SCHEMA)
            buffer.restore(snapshot)
        watermark = max(watermark, advance)
        due = buffer.release(watermark)
        assert due.batch.column("k").to_pylist() == [str(t) for t in due.times]
        released += list(zip(due.times.tolist(), due.arrivals.tolist(), strict=True))
        assert released == sorted(pair for pair in inserted if pair[0] < watermark)
        assert len(buffer) == len(inserted) - len(released)
