"""`answer_since` in `stats()`: up to where a lookup that was made once still says what one says now."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import panewise as pw
from panewise.engine.reads.answer_form import answer_form
from panewise.engine.reads.published_answers import watermark_us
from panewise.temporal import instant_us

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)"
WINDOW = "[RANGE 2 SECONDS SLIDE 2 SECONDS]"
WARM = "SELECT k, SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k HAVING SUM(v) > 10"


def answer_since(engine: pw.Engine, query: str = "q") -> str | None:
    found: str | None = engine.stats()["queries"][query]["answer_since"]
    return found


def push(engine: pw.Engine, second: int, v: int, k: str = "a") -> None:
    engine.push("s", [{"ts": second * SECOND, "k": k, "v": v}])


def at(second: int) -> str:
    return f"1970-01-01 00:00:{second:02}"


def test_it_is_the_last_report_that_was_due_whether_it_had_rows_or_not(tmp_path: Path) -> None:
    with pw.Engine(tmp_path) as engine:
        engine.execute(f"{STREAM}; CREATE QUERY q AS {WARM}")
        assert answer_since(engine) is None
        push(engine, 1, 50)
        push(engine, 3, 1)
        assert answer_since(engine) == at(2) and engine.lookup("q").num_rows == 1
        push(engine, 9, 1)
        assert answer_since(engine) == at(8) and engine.lookup("q").num_rows == 0
        # A suspended query shows no reports; lookups give the answer all the while.
        engine.execute("SUSPEND QUERY q")
        push(engine, 11, 50)
        push(engine, 12, 1)
        assert answer_since(engine) == at(12) and engine.lookup("q").num_rows == 1
        engine.execute("RESUME QUERY q")
    with pw.Engine(tmp_path) as engine:
        assert answer_since(engine) == at(12) and engine.lookup("q").num_rows == 1
        wide = "SELECT k, MAX(v) AS most FROM s [RANGE 20 SECONDS SLIDE 1 SECOND] GROUP BY k"
        engine.execute(f"CREATE QUERY late AS {wide}")
        push(engine, 14, 1)
        assert answer_since(engine, "late") is None  # it begins with its first whole window
        push(engine, 40, 1)
        assert answer_since(engine, "late") == at(40)


@pytest.mark.parametrize(
    ("select", "form"),
    [
        ("SELECT k, SUM(v) AS n FROM s [ROWS 1 SLIDE 1] GROUP BY k HAVING SUM(v) > 2", "reports"),
        ("SELECT k, SUM(v) AS n FROM s [PARTITION BY k ROWS 2 SLIDE 2] GROUP BY k HAVING SUM(v) > 2", "reports"),
        (f"SELECT a.k, b.v FROM s {WINDOW} AS a, s {WINDOW} AS b WHERE a.k = b.k", "reports"),
        ("SELECT k, v FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]", "reports"),
        (WARM, "reports"),
        ("SELECT ISTREAM k, SUM(v) AS n FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k", "changes"),
        ("SELECT RSTREAM RESTORE k, SUM(v) AS n FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k", "changes"),
        ("SELECT k, SUM(v) AS n FROM s [RANGE 2 SECONDS] GROUP BY k", "changes"),
        ("SELECT k, v FROM s [NOW]", "changes"),
        ("WITH (mode = 'lookup') AS SELECT k, SUM(v) AS n FROM s [RANGE 2 SECONDS] GROUP BY k", "lookup"),
    ],
)  # fmt: skip
def test_an_answer_is_the_same_since_then(select: str, form: str) -> None:
    """Where a lookup was made at `answer_since` or later, one that is made now says the same."""
    engine = pw.Engine()
    engine.execute(f"{STREAM}; CREATE QUERY q {select if select.startswith('WITH') else f'AS {select}'}")
    hosted = engine.hosting.queries["q"]
    definition = engine.catalog.get("q", "query")
    assert answer_form(hosted.plan, definition.options) == form
    known: pa.Table | None = None
    for second, v in ((1, 1), (1, 3), (2, 1), (3, 1), (3, 3), (3, 1), (4, 1), (6, 1), (6, 9), (7, 1), (12, 1), (12, 3)):
        push(engine, second, v, "ab"[v % 2])
        since, now = answer_since(engine), engine.lookup("q")
        come_to = None if known is None else watermark_us(known)
        if known is not None and come_to is not None and since is not None and come_to >= instant_us(since):
            assert now.to_pylist() == known.to_pylist(), (second, since)
        known = now
