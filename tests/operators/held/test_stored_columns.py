"""Stored columns against Python lists, for every type, with NULLs, slices and compaction."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from panewise.operators.held.stored_columns import StoredColumns
from tests.now_or_soak import examples

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [-(2**31), 0, 7]),
    "bigint": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "float": (pa.float32(), [0.5, -1.5]),
    "double": (pa.float64(), [0.1, -1e300]),
    "decimal": (pa.decimal128(18, 2), [Decimal("-12345678901234.56"), Decimal("0.01")]),
    "string": (pa.string(), ["", "a", "äöü", "a longer one"]),
    "date": (pa.date32(), [date(1969, 12, 31), date(2024, 2, 29)]),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        [datetime(2024, 1, 1, 1, 2, 3, 4, UTC), datetime(1960, 1, 1, tzinfo=UTC)],
    ),
}
SCHEMA = pa.schema([(name, type_) for name, (type_, _) in VALUES.items()])


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    count = draw(st.integers(0, 12))
    nulls = draw(st.booleans())
    columns = []
    for type_, values in VALUES.values():
        options = [None, *values] if nulls else values
        # A slice, so that neither values nor bits begin where a buffer does.
        drawn = draw(st.lists(st.sampled_from(options), min_size=count + 3, max_size=count + 3))
        columns.append(pa.array(drawn, type_).slice(3))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


@examples(40, soak=80)
@given(data=st.data())
def test_rows_are_read_as_they_were_written(data: st.DataObject) -> None:
    stored, expected = StoredColumns(SCHEMA), [[] for _ in SCHEMA]  # type: ignore[var-annotated]
    for _ in range(data.draw(st.integers(1, 5))):
        batch = data.draw(batches())
        stored.append(batch)
        for values, column in zip(expected, batch.columns, strict=True):
            values.extend(column.to_pylist())
        if data.draw(st.booleans()):
            kept = [place for place in range(stored.count) if data.draw(st.booleans())]
            stored.keep(np.array(kept, np.int32))
            expected = [[values[place] for place in kept] for values in expected]
        assert stored.count == len(expected[0])
        assert [column.to_pylist() for column in stored.batch().columns] == expected
        stored.batch().validate(full=True)
        if stored.count:
            places = data.draw(st.lists(st.integers(0, stored.count - 1), max_size=20))
            for position, values in enumerate(expected):
                taken = stored.taken(position, np.array(places, np.int32))
                assert taken.to_pylist() == [values[place] for place in places]


def test_room_is_given_back() -> None:
    stored = StoredColumns(pa.schema([("a", pa.int64()), ("s", pa.string())]))
    numbers = np.arange(100_000)
    stored.append(pa.record_batch({"a": numbers, "s": numbers.astype(str)}))
    full = stored.bytes_held
    stored.keep(np.arange(100, dtype=np.int32))
    assert stored.bytes_held < full / 20
