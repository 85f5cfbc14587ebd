"""Late rows that nobody keeps are remarked on: how many, how far behind, and the delay that would have kept them."""

from __future__ import annotations

import re
import threading
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import panewise as pw
from panewise.temporal import SECOND
from tests.waiting import PATIENCE_S

PLAIN = "CREATE STREAM t (ts TIMESTAMP, v BIGINT)"
COUNT = "CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS SLIDE 10 SECONDS]"


def engine_of(*statements: str, path: Path | None = None) -> pw.Engine:
    engine = pw.Engine(path)
    for statement in statements:
        engine.execute(statement)
    return engine


def unsorted_frame(rows: int = 2_000) -> pd.DataFrame:
    times = np.random.default_rng(7).permutation(rows)
    return pd.DataFrame({"ts": pd.to_datetime(times, unit="s", utc=True), "v": np.arange(rows)})


def row(second: float) -> dict[str, int]:
    return {"ts": int(second * SECOND), "v": 1}


def test_the_clause_in_the_warning_keeps_all_rows() -> None:
    engine = engine_of(PLAIN)
    with pytest.warns(pw.LateRowsWarning) as caught:
        engine.push("t", unsorted_frame())
    text, late = str(caught[0].message), engine.stats()["streams"]["t"]["late_rows"]
    assert text.startswith(f"{late:,} of 2,000 rows of stream 't' came late and were dropped")
    assert caught[0].filename == __file__, "it points at the line that pushed"
    clause = re.search(r"WATERMARK FOR ts AS ts - INTERVAL \d+ [A-Z]+", text)
    assert clause is not None
    patient = engine_of(f"CREATE STREAM t (ts TIMESTAMP, v BIGINT, {clause[0]})", COUNT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        patient.push("t", unsorted_frame())
        patient.flush()
    assert patient.stats()["streams"]["t"]["late_rows"] == 0
    assert patient.stats()["streams"]["t"]["late_remark"] is None
    assert sum(patient.results("q")["n"].to_pylist()) == 2_000
    assert engine.stats()["streams"]["t"]["late_remark"] == text


def test_it_is_said_again_when_there_are_ten_times_as_many() -> None:
    engine = engine_of(PLAIN)
    engine.push("t", row(100))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(99):
            engine.push("t", row(i))
            assert engine.stats()["streams"]["t"]["late_rows"] == i + 1
    assert [str(one.message).split(" of ")[0] for one in caught] == ["1", "10"]
    assert "they were up to 100 SECONDS behind the newest row, and the stream waits for none" in str(caught[0].message)


@pytest.mark.parametrize("late", ["drop", "keep"])
def test_a_stream_that_says_what_becomes_of_late_rows_hears_nothing(late: str) -> None:
    engine = engine_of(f"{PLAIN} WITH (late = '{late}')")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.push("t", [row(5), row(4)])
        assert engine.stats()["streams"]["t"]["late_rows"] == 1
    other = engine_of(PLAIN)
    with pytest.warns(pw.LateRowsWarning):
        other.push("t", [row(5), row(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.execute(f"ALTER STREAM t SET (late = '{late}')")
        other.push("t", [row(float(i) / 100) for i in range(100)])
        assert other.stats()["streams"]["t"]["late_rows"] == 101


def test_rows_behind_a_punctuation_have_no_delay_that_would_keep_them() -> None:
    engine = engine_of(PLAIN)
    engine.push("t", row(1))
    engine.advance("t", 100 * SECOND)
    with pytest.warns(pw.LateRowsWarning, match=r"older than advance\(\) or flush\(\) had allowed") as caught:
        engine.push("t", [row(2), row(3)])
    assert "WATERMARK" not in str(caught[0].message)


def test_late_rows_says_that_nothing_is_kept_and_what_to_write() -> None:
    engine = engine_of(PLAIN)
    with pytest.warns(pw.LateRowsWarning):
        engine.push("t", [row(5), row(4)])
    with pytest.warns(pw.LateRowsWarning, match=r"keeps no late rows \(1 were dropped so far\)") as caught:
        assert engine.late_rows("t").num_rows == 0
    statement = re.search(r"ALTER STREAM .*\)", str(caught[0].message).split(": ")[1])
    assert statement is not None
    engine.execute(statement[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.push("t", row(3))
        assert engine.late_rows("t").num_rows == 1
        assert engine.late_rows("t").num_rows == 0


def test_a_filter_that_makes_errors_of_warnings_leaves_the_engine_whole() -> None:
    engine = engine_of(PLAIN, COUNT)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pw.LateRowsWarning)
        with pytest.raises(pw.LateRowsWarning):
            engine.push("t", [row(5), row(4)])
        engine.push("t", row(11))
    assert engine.results("q")["n"].to_pylist() == [1]
    assert engine.stats()["streams"]["t"]["rows"] == 3


def test_a_log_that_is_read_again_says_nothing(tmp_path: Path) -> None:
    with engine_of(PLAIN, COUNT, path=tmp_path) as engine:
        with pytest.warns(pw.LateRowsWarning):
            engine.push("t", [row(5), row(4)])
        engine.push("t", [row(3), row(2)])
        engine.close(snapshot=False)
    for closed_with_snapshot in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine = pw.Engine(tmp_path)
            assert engine.stats()["streams"]["t"]["late_rows"] == 3
            assert "up to 3 SECONDS behind" in engine.stats()["streams"]["t"]["late_remark"]
            engine.close(snapshot=closed_with_snapshot)
    with pw.Engine(tmp_path) as engine, pytest.warns(pw.LateRowsWarning, match="4 of 5 rows"):
        engine.push("t", row(1))


def test_who_pushes_to_a_queue_is_warned_by_its_thread() -> None:
    engine = engine_of(f"{PLAIN} WITH (queue = 100)")
    heard = threading.Event()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *_: category is pw.LateRowsWarning and heard.set()  # type: ignore[assignment]
        engine.push("t", [row(5), row(4)])
        assert engine.stats()["streams"]["t"]["late_rows"] == 1
        assert heard.wait(PATIENCE_S)
