"""What the engine takes, a server takes: columns that are no columns, wide decimals, columns that mix types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import panewise as pw
from panewise.serve.client.wire import ARROW, packed
from panewise.serve.http.service.bodies import arrow_table
from panewise.serve.http.service.settings import Settings
from tests.serve.client.running_server import running_server

TIME = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
STREAM = "CREATE STREAM s (ts TIMESTAMP, d DECIMAL(10, 2), v BIGINT) WITH (on_bad_row = 'skip', late = 'drop')"
GOOD = {"ts": [TIME], "d": [Decimal(1)], "v": [1]}
DATA: dict[str, Any] = {
    "wide decimals": pa.table(GOOD | {"d": pa.array([Decimal("1.00")], pa.decimal128(38, 2))}),
    "wider decimals": pa.table(GOOD | {"d": pa.array([Decimal("1.00")], pa.decimal256(50, 2))}),
    "great whole numbers": pa.table(GOOD | {"v": pa.array([7], pa.uint64())}),
    "a whole number that is too great": pa.table(GOOD | {"v": pa.array([2**64 - 1], pa.uint64())}),
    "lists": pa.table(GOOD | {"tags": [["a"]], "more": [{"a": 1}]}),
    "times of day": pa.table(GOOD | {"at": pa.array([1], pa.time64("us")), "raw": [b"\xff"], "h": pa.nulls(1)}),
    "pandas": pd.DataFrame(GOOD | {"kind": pd.Categorical(["a"]), "age": [pd.Timedelta("1s")], "o": [object()]}),
    "pandas of mixed types": pd.DataFrame({"ts": [TIME] * 4, "d": [1, "2.5", "x", None], "v": [1, 2, 3, "y"]}),
    "pandas of times of mixed types": pd.DataFrame({"ts": [TIME, "2026-01-06", 5, "z"], "d": 1.0, "v": [1, 2, 3, 4]}),
    "other keys": [{"ts": TIME, "tags": ["x"], "more": {"a": 1}}],
    "a list in a cell": [{"ts": TIME, "d": ["x"]}, {"ts": TIME, "v": {"a": 1}}, {"ts": TIME, "v": 1}],
    "columns that are missing": pd.DataFrame({"ts": [TIME], "d": [1.0]}),
    "no column of the stream": pa.table({"x": [1]}),
    "two columns of a name": pd.DataFrame([[1, 2]], columns=["ts", "ts"]),
}


@pytest.fixture(scope="module")
def hosts() -> Any:
    with running_server(Settings(port=0)) as server, pw.connect(server.url) as client:
        yield pw.Engine(), client


@pytest.mark.parametrize("kind", DATA)
def test_a_server_takes_what_the_engine_takes(hosts: Any, kind: str) -> None:
    found = []
    for host in hosts:
        host.execute("DROP STREAM IF EXISTS s")
        host.execute(STREAM)
        try:
            host.push("s", DATA[kind])
            said = "taken"
        except pw.PanewiseError as refused:
            said = type(refused).__name__
        stats = host.stats()["streams"]["s"]
        found.append((said, stats["rows"], stats["bad_rows"]))
    assert found[0] == found[1]
    assert (found[0][0] == "taken") == (kind not in list(DATA)[-3:])


def test_columns_of_others_are_not_read() -> None:
    body, kind = packed("s", pa.table(GOOD | {"tags": [["a"] * 1000]}))
    assert kind == ARROW
    assert arrow_table(body, 1 << 20, ("TS", "d", "v")).column_names == ["ts", "d", "v"]


def test_bad_rows_are_warned_of_as_the_engine_does(hosts: Any) -> None:
    said = []
    for host in hosts:
        host.execute("DROP STREAM IF EXISTS w; CREATE STREAM w (ts TIMESTAMP, v BIGINT) WITH (on_bad_row = 'skip')")
        host.push("w", {"ts": TIME, "v": 1})
        with pytest.warns(pw.BadRowsWarning, match="1 of 3 rows of stream 'w' were bad and set aside") as caught:
            host.push("w", [{"ts": TIME, "v": "x"}, {"ts": TIME, "v": 2}])
        assert caught[0].filename == __file__
        said.append(str(caught[0].message))
    assert said[0] == said[1]
