"""Rows whose columns mix types, lack columns or have others: each row is judged by itself, whatever comes beside it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import panewise as pw
from panewise.errors import ConnectorError, DataError

SECONDS = 1_767_605_400  # 2026-01-05 09:30:00
FIRST = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
COLUMNS = "(ts TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT)"


def engine_of(options: str = "", columns: str = COLUMNS) -> pw.Engine:
    engine = pw.Engine()
    engine.execute(f"CREATE STREAM t {columns} WITH (retain = '100 days'{options})")
    return engine


def source(tmp_path: Path, lines: list[Any], options: str = "") -> pw.Engine:
    path = tmp_path / "rows.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.warns(pw.ConnectorWarning):
        return engine_of(f", connector = 'json', path = '{path}'{options}")


def rows(engine: pw.Engine) -> list[dict[str, Any]]:
    engine.advance("t", "2026-02-01")
    table = engine.execute("SELECT * FROM t [RANGE 99 DAYS]")
    assert table is not None
    return table.to_pylist()


def taken(engine: pw.Engine) -> list[datetime]:
    return [row["ts"] for row in rows(engine)]


# -- epoch -----------------------------------------------------------------------------------------------------------

MIXED = [
    {"ts": SECONDS, "symbol": "A", "price": 1, "size": 1},
    {"ts": SECONDS + 1, "symbol": "A", "price": "1.5", "size": 1},
    {"ts": str(SECONDS + 2), "symbol": "A", "price": 2.5, "size": "1"},
    {"ts": SECONDS + 3.5, "symbol": 7, "price": 1, "size": 1},
    {"ts": "2026-01-05 09:30:04", "symbol": "A", "price": 1, "size": True},
    {"ts": "soon", "symbol": "A", "price": 1, "size": 1},
    {"ts": SECONDS + 6, "symbol": "A", "price": None, "size": 2**70},
    {"ts": SECONDS + 7, "symbol": "A"},
]


def test_epoch_holds_where_a_column_of_a_file_mixes_types(tmp_path: Path) -> None:
    engine = source(tmp_path, MIXED, ", epoch = 'seconds', on_bad_row = 'skip'")
    engine.run_available()
    assert [(row["ts"].second, row["price"]) for row in rows(engine)] == [(0, 1.0), (1, 1.5), (2, 2.5), (7, None)]
    assert [reason.split(" is ")[0] for reason in engine.bad_rows("t")["reason"].to_pylist()] == [
        "symbol = 7",
        "size = True",
        "ts = 'soon'",
        f"size = '{2**70}'",
    ]


@pytest.mark.parametrize("price", [1.5, "1.5", "x", None])
def test_without_epoch_numbers_of_a_file_are_no_times(tmp_path: Path, price: Any) -> None:
    """Whether the column beside it mixes types or not."""
    engine = source(tmp_path, [{"ts": SECONDS, "price": 1}, {"ts": SECONDS + 1, "price": price}])
    with pytest.raises(DataError, match=f"row 0 .* ts = {SECONDS} is not a TIMESTAMP") as caught:
        engine.run_available()
    assert "epoch = 'seconds' in WITH of CREATE STREAM t reads numbers as times" in str(caught.value)


@pytest.mark.parametrize("text", ["csv", "json"])
def test_one_bad_time_spoils_no_other(tmp_path: Path, text: str) -> None:
    path = tmp_path / f"rows.{text}"
    times = [str(SECONDS), "n/a", str(SECONDS + 2)]
    lines = ["ts", *times] if text == "csv" else [json.dumps({"ts": time}) for time in times]
    path.write_text("\n".join(lines) + "\n")
    options = f", connector = '{text}', path = '{path}', epoch = 'seconds', on_bad_row = 'skip'"
    with pytest.warns(pw.ConnectorWarning):
        engine = engine_of(options, "(ts TIMESTAMP)")
    engine.run_available()
    assert [time.second for time in taken(engine)] == [0, 2]
    assert engine.bad_rows("t").num_rows == 1


def test_epoch_of_a_stream_without_a_connector() -> None:
    engine = engine_of(", epoch = 'milliseconds'")
    engine.push("t", {"ts": SECONDS * 1_000 + 250})
    engine.push("t", [{"ts": SECONDS * 1_000 + 500}, {"ts": datetime(2026, 1, 5, 9, 30, 1)}])
    engine.push("t", pa.table({"ts": [SECONDS * 1_000 + 2_000], "symbol": ["A"], "price": [1.0], "size": [1]}))
    assert [(time - FIRST).total_seconds() for time in taken(engine)] == [0.25, 0.5, 1.0, 2.0]
    with pytest.raises(pw.BindError, match="'epoch' of a stream cannot be altered"):
        engine.execute("ALTER STREAM t SET (epoch = 'seconds')")
    with pytest.raises(pw.BindError, match="'epoch' takes 'seconds', 'milliseconds'"):
        engine_of(", epoch = 'milis'")


def test_a_table_reads_epoch_in_every_row(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(f'{{"k": "A", "since": {SECONDS}, "v": 1}}\n{{"k": "B", "since": {SECONDS}, "v": "2"}}\n')
    engine = pw.Engine()
    create = "CREATE TABLE tb (k STRING PRIMARY KEY, since TIMESTAMP, v BIGINT) NON RETROACTIVE"
    with pytest.raises(
        ConnectorError, match=f"'since' of table 'tb'(?s:.*)the first is {SECONDS}, in row 0; .*epoch = 'seconds'"
    ):
        engine.execute(f"{create} WITH (connector = 'json', path = '{path}')")
    engine.execute(f"{create} WITH (connector = 'json', path = '{path}', epoch = 'seconds')")
    table = engine.execute("SELECT * FROM tb")
    assert table is not None
    assert [(row["since"], row["v"]) for row in table.to_pylist()] == [(FIRST, 1), (FIRST, 2)]


@pytest.mark.parametrize(("number", "unit"), [(SECONDS, "seconds"), (SECONDS * 1_000, "milliseconds")])
def test_numbers_that_are_plainly_no_microseconds(number: int, unit: str) -> None:
    engine = engine_of()
    for data in ({"ts": number}, [{"ts": number * 10**6}, {"ts": number}]):
        with pytest.raises(DataError, match=f"ts = {number} is not a TIMESTAMP") as caught:
            engine.push("t", data)
        assert f"{number} looks like {unit} since 1970: CREATE STREAM t (...) WITH (epoch = '{unit}')" in str(
            caught.value
        )
        assert "skip" not in str(caught.value)  # which would set every row aside
    for made_up in (1_500_000_000, 12 * 86_400_000_000):  # microseconds, of round times
        engine.push("t", {"ts": made_up})
    with pytest.raises(DataError, match="is not a TIMESTAMP"):
        engine.push("t", {"ts": number})  # still
    simulated = engine_of()
    simulated.push("t", [{"ts": 0}, {"ts": number}])  # a time line that begins at 0
    simulated.push("t", {"ts": number + 1})
    assert simulated.stats()["streams"]["t"]["rows"] == 3
    said = engine_of(", epoch = 'microseconds'")
    said.push("t", [{"ts": number}])
    said.push("t", {"ts": number})
    assert said.stats()["streams"]["t"]["watermark"].startswith("1970")


# -- frames ----------------------------------------------------------------------------------------------------------


def test_a_frame_whose_columns_mix_types_is_judged_row_by_row() -> None:
    frame = pd.DataFrame(
        {
            "ts": ["2026-01-05", pd.Timestamp("2026-01-06"), 5, None],
            "symbol": ["a", "b", "c", "d"],
            "price": [1, "2.5", 3.0, 4],
            "size": [1, "x", 2, 3],
            "more": [object(), 1, "x", None],
        }
    )
    with pytest.raises(DataError, match="row 2 pushed to 't' is bad: ts = 5 is not a TIMESTAMP"):
        engine_of().push("t", frame)
    engine = engine_of(", on_bad_row = 'skip'")
    engine.push("t", frame)
    assert [(row["symbol"], row["price"]) for row in rows(engine)] == [("a", 1.0)]
    assert len(engine.bad_rows("t")) == 3


def test_columns_of_a_frame_that_are_no_columns_are_ignored() -> None:
    engine = engine_of()
    durations = pa.array([1], pa.duration("us"))
    engine.push(
        "t", pa.table({"ts": [FIRST], "symbol": ["A"], "price": [1.0], "size": [1], "tags": [["x"]], "w": durations})
    )
    assert rows(engine)[0]["symbol"] == "A"


# -- keys of rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [[], [{"ts": FIRST, "symbol": "A", "price": 1.0, "size": 1}]])
def test_a_row_may_lack_columns_whatever_comes_beside_it(beside: list[dict[str, Any]]) -> None:
    engine = engine_of()
    engine.push("t", [*beside, {"ts": FIRST, "venue": "X"}])
    engine.push("t", {"TS": FIRST})
    assert [row["price"] for row in rows(engine)][len(beside) :] == [None, None]


def test_a_key_that_looks_like_a_column_that_is_not_there_is_a_mistake() -> None:
    engine = engine_of(", on_bad_row = 'skip'")
    for data in ({"ts": FIRST, "prise": 1.0}, [{"ts": FIRST}, {"ts": FIRST, "prise": 1.0}]):
        with pytest.raises(DataError, match=r"has no column 'prise', and row \d of this push has no 'price'"):
            engine.push("t", data)
    engine.push("t", {"ts": FIRST, "price": 1.0, "prise": 2.0})  # it has both
    assert [row["price"] for row in rows(engine)] == [1.0]


def test_lines_of_json_may_lack_columns_too(tmp_path: Path) -> None:
    engine = source(tmp_path, [{"ts": "2026-01-05 09:30:00", "symbol": "A"}, {"ts": "2026-01-05 09:30:01"}])
    engine.run_available()
    assert [(row["symbol"], row["price"]) for row in rows(engine)] == [("A", None), (None, None)]
    wrong = source(tmp_path, [{"ts": "2026-01-05 09:30:00", "prise": 1}])
    with pytest.raises(ConnectorError, match=r"has no column 'price'\nhint: did you mean prise\?"):
        wrong.run_available()
    timeless = source(tmp_path, [{"time": "2026-01-05 09:30:00", "price": 1}])
    with pytest.raises(ConnectorError, match="has no column 'ts'"):
        timeless.run_available()


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_a_number_too_large_for_its_column_is_bad_in_every_form() -> None:
    columns = "(ts TIMESTAMP, f FLOAT, i INT)"
    for value in (1e300, -1e39, "1e300"):
        for data in ({"ts": FIRST, "f": value}, pa.table({"ts": [FIRST], "f": [value], "i": [1]})):
            with pytest.raises(DataError, match="is not a FLOAT"):
                engine_of(columns=columns).push("t", data)
    engine = engine_of(columns=columns)
    engine.push("t", [{"ts": FIRST, "f": float("inf")}, {"ts": FIRST, "f": 3e38}, {"ts": FIRST, "f": float("nan")}])
    assert rows(engine)[0]["f"] == float("inf")


@pytest.mark.parametrize("type_", ["INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)"])
def test_a_truth_value_is_no_number(tmp_path: Path, type_: str) -> None:
    engine = engine_of(columns=f"(ts TIMESTAMP, x {type_})")
    for first in (1, 1.5, True):
        rows = [{"ts": FIRST, "x": first}, {"ts": FIRST, "x": True}]
        for data in (rows[1], rows, pd.DataFrame(rows)):
            with pytest.raises(DataError, match=r"x = (True|1\.5) is not"):
                engine.push("t", data)
        path = tmp_path / "rows.json"
        path.write_text("".join(json.dumps({"ts": "2026-01-05 09:30:00", "x": row["x"]}) + "\n" for row in rows))
        with pytest.warns(pw.ConnectorWarning):
            file = engine_of(f", connector = 'json', path = '{path}'", f"(ts TIMESTAMP, x {type_})")
        with pytest.raises(DataError, match=r"x = (True|1\.5) is not"):
            file.run_available()


# -- where a bad row is, and what is wrong before any row comes -------------------------------------------------------


@pytest.mark.parametrize("text", ["csv", "json"])
def test_a_bad_row_of_a_file_is_told_by_its_number_in_the_file(tmp_path: Path, text: str) -> None:
    """Of the file, and not of its batch."""
    bad, count = 70_000, 70_010
    values = ["oops" if i == bad else str(i) for i in range(count)]
    for name in ("1", "2"):
        own = values if name == "2" else ["0"]
        lines = ["ts,v", *(f"2026-01-05 09:30:00,{v}" for v in own)] if text == "csv" else None
        lines = lines or [json.dumps({"ts": "2026-01-05 09:30:00", "v": v}) for v in own]
        (tmp_path / f"{name}.{text}").write_text("\n".join(lines) + "\n")
    with pytest.warns(pw.ConnectorWarning):
        engine = engine_of(f", connector = '{text}', path = '{tmp_path}'", "(ts TIMESTAMP, v BIGINT)")
    with pytest.raises(DataError, match=rf"v = 'oops'(?s:.*)the file: '.*2\.{text}', row {bad + 1:,}\n"):
        engine.run_available()


WRONG = {
    "CREATE STREAM t (ts TIMESTAMP) WITH (connector = 'cvs', path = 'x')": "did you mean csv?",
    "CREATE STREAM t (ts TIMESTAMP) WITH (connector = 'csv')": "needs the option 'path'",
    "CREATE STREAM t (ts TIMESTAMP) WITH (connector = 'csv', path = 'x', header = 'no')": "'header' .* expected TRUE",
    "CREATE STREAM t (ts TIMESTAMP) WITH (connector = 'csv', path = 'x', delimitr = ';')": "did you mean delimiter?",
    "CREATE STREAM t (ts TIMESTAMP) WITH (connector = 'generator', rate = 0)": "'rate' .* greater than 0",
    "CREATE SINK k FROM q WITH (connector = 'parket', path = 'x')": "did you mean parquet?",
    "CREATE SINK k FROM q WITH (connector = 'json')": "needs the option 'path'",
}


@pytest.mark.parametrize("statement", WRONG)
def test_connectors_are_checked_when_they_are_named(statement: str) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM s (ts TIMESTAMP); CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 1 DAY]")
    with pytest.raises(ConnectorError) as caught:
        engine.execute(statement)
    assert re.search(WRONG[statement], str(caught.value))
    assert [definition.name for definition in engine.catalog] == ["s", "q"]


def test_connectors_of_spark_can_be_explained_and_not_read() -> None:
    engine = pw.Engine()
    with pytest.warns(pw.ConnectorWarning):
        engine.execute("CREATE STREAM t (ts TIMESTAMP) WITH (connector = 'kafka', servers = 'h:1', topic = 't')")
    with pytest.raises(ConnectorError, match="'kafka', which only Spark has"):
        engine.run_available()
