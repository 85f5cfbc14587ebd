"""DISTINCT against the set of the values alive, at every instant, for inputs of every pattern."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.operators.deltas.distinct import DistinctOperator
from panewise.operators.relation_delta import FOREVER, Delta
from panewise.schema import STRING, Column, Schema
from tests.now_or_soak import examples
from tests.operators.delta_histories import HORIZON, RUNS, SCHEMA, histories, relation, told_by

CASES = [("MONOTONIC", False), ("WEAKEST", False), ("WEAK", False), ("WEAK", True), ("STRICT", True)]


@pytest.mark.parametrize(("pattern", "strict"), CASES)
@examples(75, soak=150)
@given(data=st.data())
def test_each_value_is_there_once_while_it_is_alive(pattern: str, strict: bool, data: st.DataObject) -> None:
    history = data.draw(histories(pattern))
    told, _ = told_by(lambda: DistinctOperator(SCHEMA, strict), [history], **data.draw(RUNS))
    for instant in range(HORIZON):
        assert told.at(instant) == dict.fromkeys(relation(history, instant), 1), instant
    if not strict:
        assert not told.ended
        assert pattern == "MONOTONIC" or FOREVER not in told.said


def test_a_value_that_dies_and_is_born_at_one_instant_does_not_end_in_the_strict_form() -> None:
    distinct = DistinctOperator(Schema((Column("s", STRING),)), strict=True)
    values, numbers = pa.record_batch({"s": ["a", "a"]}), np.array([0, 1])
    result = distinct.process([Delta(values, numbers, np.array([1, 5]), np.array([5, 8]))], 0, 7)
    assert (result.births.tolist(), result.deaths.tolist(), len(result.ended)) == ([1], [FOREVER], 0)
    empty = Delta(values.slice(0, 0), numbers[:0], numbers[:0], numbers[:0])
    result = distinct.process([empty], 7, 9)
    assert (result.ended.tolist(), result.ended_at.tolist()) == ([0], [8])


@pytest.mark.parametrize("strict", [False, True])
def test_state_levels_off_while_values_come_and_go(strict: bool) -> None:
    distinct, sizes = DistinctOperator(Schema((Column("s", STRING),)), strict), []
    for step in range(90):
        values = pa.record_batch({"s": [f"value {i:06}" for i in range(500 * step, 500 * step + 1000)]})
        births = np.sort(np.arange(1000) % 100 + 100 * step)
        numbers = np.arange(1000 * step, 1000 * (step + 1))
        result = distinct.process([Delta(values, numbers, births, births + 250)], 100 * step, 100 * (step + 1))
        assert len(result) >= 500
        sizes.append(distinct.bytes_held)
    # What is dead is forgotten in heaps, not at the same steps each time.
    assert max(sizes[60:]) < 1.1 * max(sizes[30:60])


def test_rows_that_end_are_refused_by_delta_star() -> None:
    distinct = DistinctOperator(SCHEMA, strict=False)
    none = np.empty(0, np.int64)
    batch = pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in SCHEMA.to_arrow()], schema=SCHEMA.to_arrow())
    with pytest.raises(AssertionError, match="not STRICT"):
        distinct.process([Delta(batch, none, none, none, np.array([1]), np.array([0]))], 0, 5)
