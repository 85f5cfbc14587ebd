"""Rows on their way into the engine: every kind of data, bad rows, late rows, punctuations."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import BindError, CatalogError, DataError
from tests.engine.small_engine import SECOND, STREAM, engine_of, row

YEAR_9999 = 253_402_300_799_999_999
ANY_TIME = f"{STREAM} WITH (ahead = 'off')"
SUMS = "CREATE QUERY q AS SELECT k, SUM(v) AS s, MIN(x) AS m FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k"


def answers(engine: pw.Engine, query: str = "q") -> list[tuple[Any, ...]]:
    """The results as tuples, window_end in seconds and nothing of window_start."""
    table = engine.results(query).drop_columns("window_start")
    ends = table.column("window_end").cast(pa.int64()).to_pylist()
    return list(zip([end / SECOND for end in ends], *(c.to_pylist() for c in table.columns[1:]), strict=True))


# -- kinds of data ---------------------------------------------------------------------------------------------------

ARROW = pa.schema([("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int64()), ("x", pa.float64())])
COLUMNS = {
    "ts": [datetime(1970, 1, 1, 0, 0, 0, 500_000, UTC), datetime(1970, 1, 1, 0, 0, 0, 700_000, UTC)],
    "k": ["a", "b"],
    "v": [1, 2],
    "x": [0.5, None],
}
TABLE = pa.table(COLUMNS, schema=ARROW)
EXPECTED = [(1.0, "a", 1, 0.5), (1.0, "b", 2, None)]


def _naive(table: pa.Table) -> pa.Table:
    return table.set_column(0, "ts", table.column("ts").cast(pa.timestamp("us")))


def _nanoseconds(table: pa.Table) -> pa.Table:
    late = np.array([500_000_999, 700_000_001]).astype("datetime64[ns]")
    return table.set_column(0, "ts", pa.array(late, pa.timestamp("ns")))


def _polars(table: pa.Table) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


KINDS: dict[str, Any] = {
    "record batch": lambda: TABLE.to_batches()[0],
    "table": lambda: TABLE,
    "table of chunks": lambda: pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "pandas": lambda: TABLE.to_pandas(),
    "pandas without a zone": lambda: _naive(TABLE).to_pandas(),
    "pandas with an index": lambda: TABLE.to_pandas().set_index(pd.Index([7, 8], name="other")),
    "polars": lambda: _polars(TABLE),
    "list of dicts": lambda: TABLE.to_pylist(),
    "dicts with microseconds": lambda: [{**r, "ts": int(r["ts"].timestamp() * SECOND)} for r in TABLE.to_pylist()],
    "dicts with naive datetimes": lambda: [{**r, "ts": r["ts"].replace(tzinfo=None)} for r in TABLE.to_pylist()],
    "dicts in another zone": lambda: [
        {**r, "ts": r["ts"].astimezone(timezone(timedelta(hours=5)))} for r in TABLE.to_pylist()
    ],
    "dicts with texts": lambda: [{**r, "ts": r["ts"].isoformat()} for r in TABLE.to_pylist()],
    "naive timestamps": lambda: _naive(TABLE),
    "nanoseconds": lambda: _nanoseconds(TABLE),
    "milliseconds": lambda: TABLE.set_column(0, "ts", TABLE.column("ts").cast(pa.timestamp("ms"))),
    "dictionary strings": lambda: TABLE.set_column(1, "k", TABLE.column("k").dictionary_encode()),
    "large strings": lambda: TABLE.set_column(1, "k", TABLE.column("k").cast(pa.large_string())),
    "smaller numbers": lambda: TABLE.set_column(2, "v", TABLE.column("v").cast(pa.int8())).set_column(
        3, "x", TABLE.column("x").cast(pa.float32())
    ),
    "other case and order": lambda: TABLE.select(["x", "v", "k", "ts"]).rename_columns(["X", "V", "K", "Ts"]),
    "more columns": lambda: TABLE.append_column("more", pa.array([1, 2])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data(kind: str) -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", KINDS[kind]())
    engine.flush()
    assert answers(engine) == EXPECTED


def test_one_row_at_a_time_and_names_in_any_case() -> None:
    engine = engine_of(STREAM, SUMS)
    for r in TABLE.to_pylist():
        engine.push("T", {name.upper(): value for name, value in r.items()})
    engine.flush()
    assert answers(engine) == EXPECTED


def test_every_type_comes_back() -> None:
    engine = engine_of(
        "CREATE STREAM t (ts TIMESTAMP, b BOOLEAN, i INT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(9, 2), s STRING, "
        "e DATE)",
        "CREATE QUERY q AS SELECT * FROM t [RANGE 1 SECOND SLIDE 1 SECOND]",
    )
    values = {
        "b": True,
        "i": -(2**31),
        "l": 2**63 - 1,
        "f": 0.5,
        "d": 0.1,
        "m": Decimal("1.25"),
        "s": "é",
        "e": date(2000, 2, 29),
    }
    engine.push("t", [{"ts": 5, **values}, {"ts": 5, **dict.fromkeys(values)}])
    engine.flush()
    found = engine.results("q").select(list(values)).to_pylist()
    assert found == [values, dict.fromkeys(values)]


def test_nothing_is_something_too() -> None:
    engine = engine_of(STREAM, SUMS)
    for nothing in ([], TABLE.slice(0, 0), TABLE.slice(0, 0).to_pandas(), pa.table({})):
        engine.push("t", nothing)
    engine.flush()
    assert answers(engine) == []


@pytest.mark.parametrize("data", [5, "text", None, [[1, 2]], [{1: 2}], object()])
def test_what_is_no_data(data: Any) -> None:
    with pytest.raises(DataError):
        engine_of(STREAM).push("t", data)


def test_who_is_not_there() -> None:
    engine = engine_of(STREAM, SUMS)
    with pytest.raises(CatalogError, match="did you mean t"):
        engine.push("tt", row(0))
    with pytest.raises(CatalogError, match="'q' is a query, not a stream"):
        engine.push("q", row(0))


# -- bad rows --------------------------------------------------------------------------------------------------------

BAD: list[tuple[Any, str]] = [
    ({**row(1), "v": "many"}, "v = 'many' is not a BIGINT"),
    ({**row(1), "v": 2**63}, "is not a BIGINT"),
    ({**row(1), "v": 1.5}, "v = 1.5 is not a BIGINT"),
    ({**row(1), "v": True}, "v = True is not a BIGINT"),
    ({**row(1), "k": 5}, "k = 5 is not a STRING"),
    ({**row(1), "ts": None}, "ts is NULL"),
    ({**row(1), "ts": "yesterday"}, "ts = 'yesterday' is not a TIMESTAMP"),
    ({**row(1), "ts": 2**62}, "outside the years 1 to 9999"),
    ({**row(1), "ts": -(2**62)}, "outside the years 1 to 9999"),
    ({**row(1), "ts": YEAR_9999}, "more than 1 DAY ahead of the clock"),
    (row(1e9), "would close more than 10,000,000 windows"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_bad_row_refuses_its_push(bad: dict[str, Any], reason: str) -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", row(0))
    for data in (bad, [row(0.5), bad, row(0.7)]):
        with pytest.raises(DataError) as caught:
            engine.push("t", data)
        assert reason in str(caught.value)
        assert "on_bad_row = 'skip'" in str(caught.value)
    assert engine.stats()["streams"]["t"]["rows"] == 1
    engine.push("t", row(0.9, v=10))
    engine.flush()
    assert answers(engine) == [(1.0, "a", 11, 1.0)]


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_bad_row_is_set_aside(bad: dict[str, Any], reason: str) -> None:
    engine = engine_of(STREAM + " WITH (on_bad_row = 'skip')", SUMS)
    engine.push("t", row(0))
    engine.push("t", [row(0.5, v=2), bad, row(0.7, v=4)])
    engine.push("t", bad)
    engine.flush()
    assert answers(engine) == [(1.0, "a", 7, 1.0)]
    assert engine.stats()["streams"]["t"]["bad_rows"] == 2
    assert pw.Engine.restore(engine.snapshot()).bad_rows("t").num_rows == 2
    found = engine.bad_rows("t").to_pylist()
    assert len(found) == 2
    assert all(reason in entry["reason"] for entry in found)
    assert engine.bad_rows("t").num_rows == 0


def test_bad_rows_of_a_table_in_several_columns() -> None:
    engine = engine_of(STREAM + " WITH (on_bad_row = 'skip')", SUMS)
    texts = pa.table(
        {
            "ts": ["1970-01-01 00:00:00.1", "soon", "1970-01-01 00:00:00.3", "1970-01-01 00:00:00.4"],
            "k": ["a"] * 4,
            "v": ["1", "x", "y", "8"],
            "x": ["0.5", "1", "2", "inf"],
        }
    )
    engine.push("t", texts)
    engine.flush()
    assert answers(engine) == [(1.0, "a", 9, 0.5)]
    reasons = engine.bad_rows("t").column("reason").to_pylist()
    assert [reason.split(" = ")[0] for reason in reasons] == ["ts", "v"]


def test_altering_what_becomes_of_bad_rows() -> None:
    engine = engine_of(STREAM, SUMS)
    with pytest.raises(DataError):
        engine.push("t", {**row(0), "v": "x"})
    engine.execute("ALTER STREAM t SET (on_bad_row = 'skip')")
    engine.push("t", {**row(0), "v": "x"})
    engine.execute("ALTER STREAM t SET (on_bad_row = 'fail')")
    with pytest.raises(DataError):
        engine.push("t", {**row(0), "v": "x"})
    assert engine.bad_rows("t").num_rows == 1


def test_columns_that_are_missing_or_unknown() -> None:
    engine = engine_of(STREAM)
    with pytest.raises(DataError, match="no column 'v'"):
        engine.push("t", TABLE.drop_columns("v"))
    with pytest.raises(DataError, match="have no column 'ts'"):
        engine.push("t", {"k": "a", "v": 1, "time": 0})


def test_the_first_row_may_lie_anywhere() -> None:
    engine = engine_of(ANY_TIME, SUMS)
    engine.push("t", {**row(0), "ts": YEAR_9999})
    engine.flush()
    engine.push("t", {**row(0), "ts": 0})
    assert engine.stats()["streams"]["t"]["late_rows"] == 1


def test_how_far_ahead_a_row_may_lie_follows_the_queries() -> None:
    engine = engine_of(STREAM)
    engine.push("t", [row(0), row(1e9)])  # nobody's windows
    engine.execute("CREATE QUERY fine AS SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 MILLISECOND]")
    with pytest.raises(DataError, match="10,000,000 windows"):
        engine.push("t", row(1e9 + 10_001))
    engine.execute("DROP QUERY fine")
    engine.push("t", row(1e9 + 10_001))
    engine.execute("CREATE QUERY coarse AS SELECT COUNT(*) AS n FROM t [RANGE 1 DAY SLIDE 1 DAY]")
    engine.execute("CREATE QUERY fine AS SELECT MAX(n) AS n FROM coarse [RANGE 1 SECOND SLIDE 1 MILLISECOND]")
    with pytest.raises(DataError, match="10,000,000 windows"):
        engine.push("t", row(1e9 + 30_000))  # windows of a query over a query count as well


# -- late rows and punctuations --------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [True, False])
def test_late_rows_are_counted_and_kept(together: bool) -> None:
    engine = engine_of(STREAM.replace(")", ", WATERMARK FOR ts AS ts - INTERVAL 1 SECOND) WITH (late = 'keep')"), SUMS)
    rows = [row(0), row(3), row(2, v=5), row(1.9, v=7), row(3.5, k="b"), row(2.4, v=9), row(2.5, v=11)]
    for data in [rows] if together else rows:
        engine.push("t", data)
    late = engine.late_rows("t")
    assert late.column("v").to_pylist() == [7, 9]
    assert late.schema == ARROW
    assert engine.late_rows("t").num_rows == 0
    assert engine.stats()["streams"]["t"]["late_rows"] == 2
    engine.flush()
    assert answers(engine) == [(1.0, "a", 1, 1.0), (3.0, "a", 16, 1.0), (4.0, "a", 1, 1.0), (4.0, "b", 1, 1.0)]


def test_late_rows_are_dropped_unless_kept() -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", [row(5), row(4)])
    assert engine.late_rows("t").num_rows == 0
    engine.execute("ALTER STREAM t SET (late = 'keep')")
    engine.push("t", row(3))
    assert engine.late_rows("t").num_rows == 1
    assert engine.stats()["streams"]["t"]["late_rows"] == 2


def test_a_punctuation_closes_windows_and_makes_rows_late() -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", row(0.5))
    assert answers(engine) == []
    for until in (SECOND, datetime(1970, 1, 1, 0, 0, 1), "1970-01-01 00:00:01", "1970-01-01T01:00:01+01:00"):
        engine.advance("t", until)
    assert answers(engine) == [(1.0, "a", 1, 1.0)]
    engine.push("t", [row(0.9), row(1.0)])
    assert engine.stats()["streams"]["t"]["late_rows"] == 1
    engine.advance("t", 0)  # never goes back
    assert engine.stats()["streams"]["t"]["watermark"] == "1970-01-01 00:00:01"


def test_punctuations_that_cannot_be() -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", row(0))
    for wrong in (2**62, -(2**62)):
        with pytest.raises(DataError, match="not an instant"):
            engine.advance("t", wrong)
    with pytest.raises(BindError, match="not an instant"):
        engine.advance("t", "soon")
    engine.execute("ALTER STREAM t SET (ahead = 'off')")
    with pytest.raises(DataError, match="10,000,000 windows"):
        engine.advance("t", YEAR_9999)
    assert engine.stats()["streams"]["t"]["watermark"] == "1970-01-01 00:00:00"


def test_an_idle_stream_may_be_advanced_for_ever() -> None:
    engine = engine_of(
        STREAM, "CREATE QUERY q AS SELECT k, COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 MILLISECOND] GROUP BY k"
    )
    engine.push("t", row(0))
    for hours in range(1, 20):
        engine.advance("t", hours * 3600 * SECOND)
    engine.push("t", row(20 * 3600))
    assert engine.results("q").num_rows == 1000


def test_flush_closes_every_window_that_holds_rows() -> None:
    engine = engine_of(
        STREAM,
        "CREATE QUERY a AS SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 3 SECONDS OFFSET 5 SECONDS]",
        "CREATE QUERY b AS SELECT MAX(n) AS m FROM a [RANGE 1 MINUTE SLIDE 1 MINUTE]",
    )
    engine.flush()
    engine.push("t", row(1))
    engine.flush()
    assert [n for _, n in answers(engine, "a")][-1] in (0, 1)
    assert answers(engine, "b")[0] == (60.0, 1)


def test_flush_at_the_end_of_time() -> None:
    engine = engine_of(ANY_TIME, "CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 1 HOUR SLIDE 30 MINUTES]")
    engine.push("t", {**row(0), "ts": YEAR_9999})
    engine.flush()
    assert engine.results("q").column("n").to_pylist() == [1]


# -- threads ---------------------------------------------------------------------------------------------------------


def test_threads_push_at_the_same_time() -> None:
    engine = engine_of(
        STREAM.replace(")", ", WATERMARK FOR ts AS ts - INTERVAL 1 DAY)"),
        "CREATE QUERY q AS SELECT COUNT(*) AS n, SUM(v) AS s FROM t [RANGE 1 HOUR SLIDE 1 HOUR]",
    )
    heard: list[int] = []
    engine.subscribe("q", lambda batch: heard.extend(batch.column("n").to_pylist()))
    problems: list[Exception] = []

    def work(number: int) -> None:
        try:
            for i in range(50):
                engine.push("t", [row(i + number / 10, v=number) for _ in range(10)])
                engine.push("t", row(i, v=number))
                engine.stats()
        except Exception as problem:  # noqa: BLE001 - a thread's failure must reach the test
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.flush()
    assert not problems
    assert answers(engine) == [(3600.0, 2200, 550 * (0 + 1 + 2 + 3))]
    assert heard == [2200]


def test_a_frame_with_whole_numbers_as_times_is_told_how_to_convert_them() -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT)")
    with pytest.raises(pw.DataError, match=r"ts = 1 is not a TIMESTAMP(?s:.*)to_datetime\(frame\['ts'\], unit='us'\)"):
        engine.push("s", pa.table({"ts": [1], "v": [1]}))
