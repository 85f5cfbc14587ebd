"""What travels between client and server arrives as it was."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.serve.client.wire import ARROW, NDJSON, batch_of, packed, schema_of
from panewise.serve.http.results.row_json import json_columns, json_rows
from panewise.serve.http.service.bodies import arrow_table, ndjson_rows

FIELDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(18, 4): st.decimals(-(10**13), 10**13, places=4),
    pa.string(): st.text(),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
}
SCHEMA = pa.schema([(f"c{i}", type_) for i, type_ in enumerate(FIELDS)])
ROWS = st.lists(st.tuples(*(st.none() | values for values in FIELDS.values())), max_size=8)


@given(ROWS)
def test_live_rows_are_the_rows_of_the_server(rows: list[tuple[Any, ...]]) -> None:
    table = pa.table([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(SCHEMA)], schema=SCHEMA)
    found = batch_of(json.loads(json_rows(table)), schema_of(json_columns(SCHEMA)))
    assert found.schema == SCHEMA
    assert [_comparable(row) for row in found.to_pylist()] == [_comparable(row) for row in table.to_pylist()]


def _comparable(row: dict[str, Any]) -> list[Any]:
    """NaN equals itself here."""
    return [repr(value) if isinstance(value, float) else value for value in row.values()]


STREAM = (
    """CREATE STREAM s (ts TIMESTAMP, flag BOOLEAN, i INT, b BIGINT, f DOUBLE, d DECIMAL(18, 4), t STRING, day DATE)"""
)
QUERY = "CREATE QUERY q AS SELECT ISTREAM flag, i, b, f, d, t, day FROM s [RANGE 1 SECOND]"
DATA_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "ts": st.integers(0, 10**9) | st.datetimes(datetime(1971, 1, 1), datetime(1971, 1, 2)),
            "flag": st.none() | st.booleans(),
            "i": st.none() | st.integers(-(2**31), 2**31 - 1),
            "b": st.none() | st.integers(-(2**63), 2**63 - 1) | st.builds(np.int64, st.integers(-9, 9)),
            "f": st.none() | st.floats() | st.integers(-9, 9) | st.builds(np.float64, st.floats(width=16)),
            "d": st.none() | st.decimals(-(10**13), 10**13, places=4) | st.integers(-9, 9),
            "t": st.none() | st.text(st.characters(codec="utf-8")),
            "day": st.none() | st.dates(),
        }
    ),
    min_size=1,
    max_size=6,
)


def answers(data: Any) -> list[list[Any]]:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(QUERY)
    engine.push("s", data)
    engine.flush()
    return [_comparable(row) for row in engine.results("q").to_pylist()]


@given(DATA_ROWS)
def test_rows_pushed_as_dicts_mean_the_same_on_both_sides(rows: list[dict[str, Any]]) -> None:
    rows.sort(key=lambda row: row["ts"] if isinstance(row["ts"], int) else 10**15)
    body, media = packed("s", rows)
    assert media == NDJSON
    assert answers(ndjson_rows(body)) == answers(rows)


FRAME = {
    "ts": [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)],
    "flag": [True, None], "i": [1, 2], "b": [3, 4], "f": [0.5, float("nan")], "d": [Decimal("1.5000"), None],
    "t": ["a", None], "day": [date(2026, 1, 1), None],
}  # fmt: skip


@pytest.mark.parametrize("make", [pa.table, pa.RecordBatch.from_pydict, pd.DataFrame])
def test_tables_and_frames_travel_as_arrow(make: Any) -> None:
    data = make(FRAME)
    body, media = packed("s", data)
    assert media == ARROW
    assert answers(arrow_table(body, 1 << 20)) == answers(data)


def test_a_column_without_values_travels_too() -> None:
    table = pa.table({**FRAME, "i": [None, None]})
    assert table.schema.field("i").type == pa.null()
    assert answers(arrow_table(packed("s", table)[0], 1 << 20)) == answers(table)


@pytest.mark.parametrize(("data", "said"), [(3, "cannot take a int"), ([{"a": 1}, 7], "row 1 .* is a int, not a dict")])
def test_what_is_no_data_is_refused_before_it_is_sent(data: Any, said: str) -> None:
    with pytest.raises(pw.DataError, match=said):
        packed("s", data)


@pytest.mark.parametrize("type_", ["GEOMETRY", "GEOMETRY<2>"])
def test_a_type_of_a_later_server_is_named(type_: str) -> None:
    with pytest.raises(pw.ServerError, match=type_):
        schema_of([{"name": "a", "type": type_}])
