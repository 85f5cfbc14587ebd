"""Rows as JSON, against the obvious way to write them, cell by cell."""

from __future__ import annotations

import datetime
import json
import math
import struct
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
from hypothesis import given

from panewise.serve.http.results.row_json import json_columns, json_rows

DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
MICROSECONDS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(18, 0): st.decimals(-(10**17), 10**17, places=0),
    pa.decimal128(18, 12): st.decimals(-100_000, 100_000, places=12),
    pa.string(): st.text(),
    pa.date32(): DAYS,
    pa.timestamp("us", tz="UTC"): MICROSECONDS,
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any]]:
    kind = draw(st.sampled_from(list(VALUES)))
    some = draw(st.lists(st.none() | VALUES[kind], min_size=1, max_size=4))
    return kind, draw(st.lists(st.sampled_from(some), min_size=7, max_size=7))


def obvious(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    if pa.types.is_date(kind):
        return f"{value.year:04}-{value.month:02}-{value.day:02}"
    if pa.types.is_timestamp(kind):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)
        return moment.isoformat(timespec="microseconds") + "Z"
    return value


@given(st.lists(columns(), min_size=1, max_size=6), st.integers(0, 6), st.integers(0, 7), st.booleans())
def test_every_type_as_if_cell_by_cell(
    drawn: list[tuple[pa.DataType, list[Any]]], offset: int, length: int, chunked: bool
) -> None:
    arrays = [pa.array(values, kind) for kind, values in drawn]
    names = [str(number) for number in range(len(drawn))]
    table = pa.table(arrays, names)
    if chunked:
        table = pa.concat_tables([table.slice(0, 2), table.slice(2, 3), table.slice(5)])
    found = json.loads(json_rows(table.slice(offset, length)))
    wanted = [[obvious(kind, values[row]) for kind, values in drawn] for row in range(7)][offset : offset + length]
    for cells, expected in zip(found, wanted, strict=True):
        for (kind, _), cell, value in zip(drawn, cells, expected, strict=True):
            if kind == pa.float32() and isinstance(value, float):
                cell = struct.unpack("f", struct.pack("f", cell))[0]  # the shortest text of 32 bits
            assert cell == value and type(cell) is type(value)


def test_texts_to_the_letter() -> None:
    table = pa.table(
        {
            "large": pa.array([9_223_372_036_854_775_807], pa.int64()),
            "float": pa.array([0.1], pa.float32()),
            "double": [0.1],
            "small": pa.array([Decimal("0.0000001")], pa.decimal128(18, 7)),
            "text": ['é"\n\x00'],
            "date": [datetime.date(26, 1, 31)],
            "instant": pa.array([-1], pa.timestamp("us", tz="UTC")),
            "words": pa.array(["a"]).dictionary_encode(),
        }
    )
    assert json_rows(table).decode() == (
        '[[9223372036854775807,0.1,0.1,"0.0000001","é\\"\\n\\u0000","0026-01-31","1969-12-31T23:59:59.999999Z","a"]]'
    )
    assert [column["type"] for column in json_columns(table.schema)] == [
        "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(18, 7)", "STRING", "DATE", "TIMESTAMP", "STRING",
    ]  # fmt: skip
    assert json_rows(table.slice(0, 0)) == b"[]"
    assert json_rows(pa.table({"nothing": pa.nulls(2)})) == b"[[null],[null]]"
