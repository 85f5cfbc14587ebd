"""UNION ALL against the sum of both relations, at every instant."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.operators.deltas.union import UnionAll
from panewise.operators.relation_delta import Delta
from panewise.schema import BIGINT, Column, Schema
from tests.now_or_soak import examples
from tests.operators.delta_histories import HORIZON, RUNS, SCHEMA, histories, relation, told_by

PATTERNS = ["MONOTONIC", "WEAKEST", "WEAK", "STRICT"]


@examples(125, soak=250)
@given(data=st.data(), patterns=st.tuples(st.sampled_from(PATTERNS), st.sampled_from(PATTERNS)))
def test_both_inputs_are_there(data: st.DataObject, patterns: tuple[str, str]) -> None:
    inputs = [data.draw(histories(pattern)) for pattern in patterns]
    strict = patterns[0] == "STRICT", patterns[1] == "STRICT"
    told, operator = told_by(lambda: UnionAll(SCHEMA, strict), inputs, **data.draw(RUNS))
    for instant in range(HORIZON):
        assert told.at(instant) == relation(inputs[0], instant) + relation(inputs[1], instant), instant
    if not any(strict):
        assert not told.ended and operator.bytes_held == 0


def test_deaths_ascend_where_they_do_on_both_inputs_with_one_range() -> None:
    union = UnionAll(Schema((Column("a", BIGINT),)), (False, False))
    births = [np.array([1, 3, 3, 8]), np.array([0, 3, 9])]
    deltas = [Delta(pa.record_batch({"a": b}), np.arange(len(b)), b, b + 5) for b in births]
    result = union.process(deltas, 0, 10)
    assert result.batch.column(0).to_pylist() == result.births.tolist() == [0, 1, 3, 3, 3, 8, 9]
    assert result.deaths.tolist() == (result.births + 5).tolist()


@pytest.mark.parametrize("ends", [False, True])
def test_state_levels_off(ends: bool) -> None:
    union, sizes = UnionAll(Schema((Column("a", BIGINT),)), (True, True)), []
    for step in range(90):
        births = np.sort(np.arange(1000) % 100 + 100 * step)
        numbers = np.arange(1000 * step, 1000 * (step + 1))
        ended = numbers - 2000 if ends and step > 1 else numbers[:0]
        delta = Delta(pa.record_batch({"a": births}), numbers, births, births + 1000, ended, births[: len(ended)])
        union.process([delta, delta], 100 * step, 100 * (step + 1))
        sizes.append(union.bytes_held)
    # What is dead is forgotten in heaps, not at the same steps each time.
    assert max(sizes[60:]) < 1.1 * max(sizes[30:60])
