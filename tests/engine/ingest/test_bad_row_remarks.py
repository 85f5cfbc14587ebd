"""Rows that are set aside are remarked on: with the first of them, and wherever late rows are."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import panewise as pw
from tests.engine.small_engine import engine_of
from tests.serve.cli.test_cli import cql_file, run_embedded

STREAM = "CREATE STREAM t (ts TIMESTAMP, v BIGINT) WITH (on_bad_row = 'skip')"
SECOND = 1_000_000
DAY = 86_400 * SECOND


def said(engine: Any, rows: list[dict[str, Any]]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        engine.push("t", rows)
    assert {warning.category for warning in caught} <= {pw.BadRowsWarning}
    return [str(warning.message) for warning in caught]


def bad(*values: Any) -> list[dict[str, Any]]:
    return [{"ts": 0, "v": value} for value in values]


def test_the_first_bad_rows_are_told_of_by_the_push_that_brings_them() -> None:
    engine = engine_of(STREAM)
    assert said(engine, bad(1, 2)) == []
    (text,) = said(engine, bad(3, "x"))
    assert text == (
        "1 of 4 rows of stream 't' were bad and set aside; of the last one v = 'x' is not a BIGINT. "
        "In the engine's process bad_rows('t') has them"
    )
    assert engine.stats()["streams"]["t"]["bad_remark"] == text
    assert said(engine, bad(*"abcdefgh")) == []
    (text,) = said(engine, bad("i"))
    assert text.startswith("more than half of the rows, 10 of 13 rows of stream 't' were bad")
    assert engine.bad_rows("t").num_rows == 10
    assert said(engine, bad(*["x"] * 100)) == []  # somebody knows
    assert engine.stats()["streams"]["t"]["bad_remark"] is None


def test_rows_of_an_earlier_session_are_not_told_of_again(tmp_path: Path) -> None:
    with pw.Engine(tmp_path) as engine:
        engine.execute(STREAM)
        assert len(said(engine, bad("x"))) == 1
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine = pw.Engine(tmp_path)
            engine.push("t", {"ts": 0, "v": 1})
        engine.close(snapshot=False)
    with pw.Engine(tmp_path) as engine:
        assert said(engine, bad("y"))[0].startswith("2 of 4 rows")


def test_a_filter_makes_an_error_of_it_after_the_push() -> None:
    engine = engine_of(STREAM)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pw.BadRowsWarning)
        with pytest.raises(pw.BadRowsWarning):
            engine.push("t", bad(1, "x"))
    assert engine.stats()["streams"]["t"]["rows"] == 2


def test_a_gap_with_a_short_slide_is_told_of_and_can_be_crossed() -> None:
    query = "CREATE QUERY q AS SELECT v, COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY v"
    engine = engine_of(STREAM, query)
    rows = [{"ts": at, "v": 1} for at in (0, 300 * DAY, 300 * DAY + SECOND)]
    (text,) = said(engine, rows)
    assert "would close more than 10,000,000 windows of a query" in text
    assert "push the rows before it first, and advance('t', ...) brings the stream on in steps" in text
    engine.bad_rows("t")
    for days in (100, 200, 300):
        engine.advance("t", days * DAY)
    engine.push("t", rows[1:])
    engine.flush()
    assert engine.results("q")["n"].to_pylist() == [1, 1, 1]
    refusing = engine_of(STREAM.replace("skip", "fail"), query)
    with pytest.raises(pw.DataError, match=r"row 1 .*(?s:.*)brings the stream on in steps(?s:.*)skip"):
        refusing.push("t", rows)


def test_a_run_says_loudly_that_most_rows_are_in_no_answer(tmp_path: Path) -> None:
    times = [0, *(300 * DAY + i * SECOND for i in range(9))]
    (tmp_path / "rows.json").write_text("".join(json.dumps({"ts": at}) + "\n" for at in times))
    options = f"connector = 'json', path = '{tmp_path}/rows.json', epoch = 'microseconds', on_bad_row = 'skip'"
    query = "CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND];"
    outcome = run_embedded(cql_file(tmp_path, f"CREATE STREAM t (ts TIMESTAMP) WITH ({options}); {query}"))
    assert outcome.exit_code == 0
    told = " ".join(outcome.output.split())
    assert "warning: more than half of the rows, 9 of 10 rows of stream 't' were bad and set aside" in told
    assert "divide the files at the gap and read the first part" in told and "a query with a longer SLIDE" in told


def test_numbers_without_a_unit_are_told_of_with_what_to_write() -> None:
    (text,) = said(engine_of(STREAM), [{"ts": 1_767_605_400, "v": 1}])
    assert "CREATE STREAM t (...) WITH (epoch = 'seconds')" in text
