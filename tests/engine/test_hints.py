"""What an error says to write: it stands where the mistake is, and who follows it gets further and loses nothing."""

from __future__ import annotations

import re

import pytest

import panewise as pw

DEFINITIONS = """
    CREATE STREAM s (ts TIMESTAMP, symbol STRING, v BIGINT) WITH (retain = '4 days');
    CREATE STREAM unheld (ts TIMESTAMP);
    CREATE TABLE listed (symbol STRING);
"""


@pytest.fixture
def engine() -> pw.Engine:
    engine = pw.Engine()
    engine.execute(DEFINITIONS)
    for stream in ("s", "unheld"):
        engine.push(stream, {"ts": "2026-01-05", "symbol": "A"})
        engine.advance(stream, "2026-01-20")
    return engine


PLACES = {
    "CREATE QUERY q WITH (technique = 'twostak') AS SELECT SUM(v) AS n FROM s [RANGE 1 HOUR SLIDE 1 HOUR]": "technique",
    "CREATE QUERY q WITH (technique = 'daba') AS SELECT SUM(v) AS n FROM s [RANGE 1 HOUR]": "technique",
    "CREATE QUERY q WITH (mode = 'lookup') AS SELECT SUM(v) AS n FROM s [RANGE 1 HOUR SLIDE 1 HOUR]": "mode",
    "CREATE QUERY q AS SELECT 's' AS s, COUNT(*) AS n FROM unheld": "unheld",
    "CREATE QUERY q AS SELECT COUNT(DISTINCT v) AS n FROM s [RANGE 1 HOUR]": "DISTINCT",
    "CREATE QUERY q AS SELECT MEDIAN(v) AS n FROM s [RANGE 1 HOUR]": "MEDIAN",
    "CREATE QUERY q AS SELECT SUM(DISTINCT v) AS n FROM s [RANGE 1 HOUR SLIDE 1 HOUR]": "DISTINCT",
    "CREATE QUERY q AS SELECT a.v FROM s [RANGE 1 HOUR] a LEFT JOIN s [RANGE 1 HOUR] b ON a.v = b.v": "LEFT",
}


@pytest.mark.parametrize("statement", PLACES)
def test_the_place_is_the_word_that_it_is_about(engine: pw.Engine, statement: str) -> None:
    text = f"SHOW QUERIES;\n{statement}"
    with pytest.raises(pw.QueryError) as caught:
        engine.execute(text)
    span = caught.value.span
    assert span is not None and span.start > text.index("\n")
    assert text[span.start : span.end] == PLACES[statement]


@pytest.mark.parametrize("window", ["[UNBOUNDED]", "[RANGE 9 DAYS]", "[RANGE 3 DAYS OFFSET 3 DAYS]", "[ROWS 9]"])
def test_no_hint_makes_a_stream_hold_less(engine: pw.Engine, window: str) -> None:
    with pytest.raises(pw.NotHeldError) as caught:
        engine.execute(f"SELECT * FROM s {window}")
    assert caught.value.hint is not None
    for days in re.findall(r"retain = '(\d+) day", caught.value.hint):
        assert int(days) > 4
    for within in re.findall(r"FROM s \[.*?\]", caught.value.hint):
        engine.execute(f"SELECT * {within}")  # it can be followed
    with pytest.raises(pw.NotHeldError, match=r"SET \(retain = '9 days'\)"):
        engine.execute("SELECT * FROM unheld [RANGE 9 DAYS]")


def test_a_table_in_the_place_of_a_list_is_joined(engine: pw.Engine) -> None:
    select = "CREATE QUERY q AS SELECT s.symbol FROM s [RANGE 1 HOUR]"
    with pytest.raises(pw.BindError) as caught:
        engine.execute(f"{select} WHERE s.symbol IN (SELECT symbol FROM listed)")
    assert caught.value.hint == "join the table: add listed to FROM, and to WHERE s.symbol = listed.symbol"
    with pytest.raises(pw.PlanError) as refused:
        engine.execute(f"{select} WHERE EXISTS (SELECT * FROM listed WHERE listed.symbol = s.symbol)")
    assert refused.value.hint is not None and "write FROM stream [RANGE ...], listed" in refused.value.hint
    engine.execute(f"{select}, listed WHERE s.symbol = listed.symbol")
