"""Values of the wrong type or of an extreme size, wherever a caller may pass one: taken, or refused in words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import panewise as pw
from tests.serve.http.serving import ARROW, define, ipc, served

ZONE = dt.timezone(dt.timedelta(hours=23))
ODD: list[Any] = [
    *(None, True, 0, -1, 2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**30, -(10**400)),
    *(1.5, float("nan"), float("inf"), 1e300, 1j, Decimal("NaN"), Decimal("1e100"), Decimal(1)),
    *("", "a", "a\0b", "\ud800", "é\udfff", "x" * 100_000, "2026-01-31", "99999-01-01", "0001-01-01T00:00:00+23:59"),
    *(b"\xff", bytearray(b"x"), [], ["a"], [["a"]], (), ("a", "b"), {}, {"k": ["a"]}, {1: 2}, {None: None}, {1}),
    *(object(), object, len, ..., iter([1]), range(3), Exception("x")),
    *(dt.datetime.min.replace(tzinfo=ZONE), dt.datetime.max, dt.date(2026, 1, 1), dt.time(1), dt.timedelta.max),
    *(np.int64(5), np.uint64(2**63), np.float64("nan"), np.datetime64("NaT"), np.datetime64("2026-01-01", "ns")),
    *(np.str_("a"), np.array([1, 2]), np.array(5), pd.NaT, pd.NA, pd.Timestamp("2026-01-01"), pd.Timedelta("1s")),
    *(pd.Series([1, 2]), pd.Series({"ts": 1, "k": "a"}), pd.Index([1]), pd.Categorical(["a"]), pd.DataFrame()),
    *(pd.DataFrame({"ts": [object()], "k": ["a"], "v": [1]}), pd.DataFrame([[1, 2]], columns=["ts", "ts"])),
    *(pa.scalar(1), pa.array([1]), pa.chunked_array([[1]]), pa.schema([]), pa.table({"ts": [1]})),
    *(pa.table({"ts": pa.array([2**62], pa.timestamp(unit)), "k": ["a"], "v": [1]}) for unit in ("s", "ms", "ns")),
]
ROW = {"ts": 20_000_000, "k": "a", "v": 1, "x": 1.5, "d": Decimal(1), "day": dt.date(2026, 1, 1), "f": True, "i": 1}
QUERIES = {
    **{f"by_{c}": f"{c}, COUNT(*) AS n FROM s [RANGE 9 SECONDS SLIDE 1 SECOND] GROUP BY {c}" for c in ROW},
    "total": "COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]",
    "pairs": "k, v, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k, v",
    "live": "k, COUNT(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k",
    "last": "k FROM s [ROWS 3]",
    "counted": "SUM(v) AS n FROM s [ROWS 3 SLIDE 1]",
    "joined": "a.k FROM s [RANGE 5 SECONDS] a JOIN plain [RANGE 5 SECONDS] b ON a.k = b.k",
}
Call = Callable[[pw.Engine, Any], Any]
CALLS: dict[str, Call] = {
    "push": lambda e, odd: [e.push(stream, odd) for stream in ("s", "plain", "skips", "queued")],
    "push a list": lambda e, odd: e.push("plain", [odd]),
    "push to": lambda e, odd: e.push(odd, []),
    "timeout": lambda e, odd: e.push("queued", {"ts": 1, "k": "a", "v": 1}, timeout=odd),
    "producer": lambda e, odd: e.push("plain", {"ts": 1, "k": "a", "v": 1}, producer=odd, sequence=1),
    "sequence": lambda e, odd: e.push("plain", {"ts": 1, "k": "a", "v": 1}, producer="p", sequence=odd),
    "last_sequence": lambda e, odd: e.last_sequence("plain", odd),
    "last_sequence of": lambda e, odd: e.last_sequence(odd, "p"),
    "advance": lambda e, odd: e.advance("other", odd),
    "advance of": lambda e, odd: e.advance(odd, 0),
    "lookup": lambda e, odd: e.lookup(odd),
    "lookup_now": lambda e, odd: e.lookup_now(odd),
    "results": lambda e, odd: e.results(odd),
    "explain": lambda e, odd: e.explain(odd),
    "subscribe": lambda e, odd: e.subscribe(odd, print),
    "subscriber": lambda e, odd: e.subscribe("live", odd)(),
    "hand_over": lambda e, odd: e.hand_over(odd, lambda table, number: None),
    "late_rows": lambda e, odd: e.late_rows(odd),
    "bad_rows": lambda e, odd: e.bad_rows(odd),
    "execute": lambda e, odd: e.execute(odd),
    "flush": lambda e, odd: e.flush([odd]),
    "flush all": lambda e, odd: e.flush(odd),
    "restore": lambda e, odd: pw.Engine.restore(odd),
    "sharing": lambda e, odd: pw.Engine(sharing=odd),
    "schedule": lambda e, odd: pw.Engine(schedule=odd),
    "isolation": lambda e, odd: pw.Engine(isolation=odd),
    **{f"{c} of a row": lambda e, odd, c=c: e.push("s", ROW | {c: odd}) for c in ROW},
    **{f"{c} of rows": lambda e, odd, c=c: e.push("s", [ROW, ROW | {c: odd}]) for c in ROW},
}
for _name in QUERIES:
    CALLS[f"lookup {_name} at"] = lambda e, odd, name=_name: e.lookup(name, at=odd)
    CALLS[f"lookup {_name} key"] = lambda e, odd, name=_name: e.lookup(name, key=odd)
    CALLS[f"lookup {_name} key of k"] = lambda e, odd, name=_name: e.lookup(name, key={"k": odd})


@pytest.fixture(scope="module")
def engine() -> pw.Engine:
    engine = pw.Engine()
    engine.execute(
        """CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE, d DECIMAL(10, 2), day DATE, f BOOLEAN, i INT);
        CREATE STREAM plain (ts TIMESTAMP, k STRING, v BIGINT); CREATE STREAM other (ts TIMESTAMP);
        CREATE STREAM skips (ts TIMESTAMP, k STRING, v BIGINT) WITH (on_bad_row = 'skip', late = 'keep');
        CREATE STREAM queued (ts TIMESTAMP, k STRING, v BIGINT) WITH (queue = 1000)"""
    )
    for name, select in QUERIES.items():
        columns, _, rest = select.partition(" FROM ")
        columns = columns.replace("ts,", "ts AS time,")
        engine.execute(f"CREATE QUERY {name} AS SELECT {columns} FROM {rest}")
    engine.push("s", [ROW | {"ts": second * 1_000_000, "v": second} for second in range(20)])
    return engine


@pytest.mark.parametrize("call", CALLS)
def test_odd_values_are_taken_or_refused_in_words(call: str, engine: pw.Engine) -> None:
    for odd in ODD:
        said = "taken"
        try:
            CALLS[call](engine, odd)
        except pw.PanewiseError as error:
            said = str(error)
        assert said
    engine.stats()  # and nothing that was taken is in the way of what comes after
    assert engine.lookup("total").num_rows == 1


def test_a_text_that_is_no_unicode_is_a_bad_row(engine: pw.Engine) -> None:
    for rows in ({"ts": 1, "k": "\ud800", "v": 1}, [{"ts": 1, "k": "a", "v": 1}, {"ts": 1, "k": "\ud800", "v": 1}]):
        with pytest.raises(pw.DataError, match=r"k = b'.*' is not a STRING"):
            engine.push("plain", rows)


def test_what_is_no_text_does_not_become_one(engine: pw.Engine) -> None:
    for value in (10**30, object(), 5):
        with pytest.raises(pw.DataError, match="is not a STRING"):
            engine.push("plain", {"ts": 1, "k": value, "v": 1})


def test_a_list_is_a_key_like_a_tuple(engine: pw.Engine) -> None:
    assert engine.lookup("by_k", key=["a"]) == engine.lookup("by_k", key="a")
    assert engine.lookup("pairs", key=["a", 15]) == engine.lookup("pairs", key=("a", 15))
    with pytest.raises(pw.NotHeldError, match="grouped by k, not by 2"):
        engine.lookup("by_k", key=["a", "b"])


def test_a_key_of_another_type_is_told_how_to_write_it(engine: pw.Engine) -> None:
    with pytest.raises(pw.NotHeldError, match=r'k is string, and 3 is not\nhint: write key="3"; .* key=%223%22'):
        engine.lookup("by_k", key=3)
    with pytest.raises(pw.NotHeldError, match="v is int64, and 'x' is not"):
        engine.lookup("by_v", key="x")


def test_a_closed_engine_takes_no_rows() -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP); CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 DAY]")
    engine.push("s", {"ts": 1})
    engine.close()
    for call in (
        lambda: engine.push("s", {"ts": 2}),
        lambda: engine.advance("s", 3),
        engine.flush,
        engine.run_available,
    ):
        with pytest.raises(pw.DurabilityError, match="has been closed, and takes no rows"):
            call()
    assert engine.stats()["streams"]["s"]["rows"] == 1
    engine.close()


def test_a_series_is_refused_in_words(engine: pw.Engine) -> None:
    with pytest.raises(pw.DataError, match="cannot take a Series"):
        engine.push("plain", pd.Series([1, 2]))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_instants_that_are_too_large_are_no_mistake_of_the_server(unit: str) -> None:
    table = pa.table({"ts": pa.array([2**62, -(2**62)], pa.timestamp(unit)), "k": ["a", "b"], "v": [1, 2]})
    with served() as (client, _):
        define(client)
        client.post("/v1/statements", json={"text": "ALTER STREAM t SET (ahead = 'off')"})
        answer = client.post("/v1/streams/t/rows", content=ipc(table), headers=ARROW)
        assert answer.status_code == (200 if unit == "ns" else 400), answer.text
