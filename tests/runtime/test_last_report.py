"""`last_report` in `stats()`: when a query reported last, also where that report had no rows."""

from __future__ import annotations

from pathlib import Path

import pytest

import panewise as pw

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)"
WINDOW = "[RANGE 2 SECONDS SLIDE 2 SECONDS]"
WARM = "SELECT k, SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k HAVING SUM(v) > 10"


def last_report(engine: pw.Engine, query: str = "q") -> str | None:
    found: str | None = engine.stats()["queries"][query]["last_report"]
    return found


def push(engine: pw.Engine, second: int, v: int, k: str = "a") -> None:
    engine.push("s", [{"ts": second * SECOND, "k": k, "v": v}])


def at(second: int) -> str:
    return f"1970-01-01 00:00:{second:02}"


def test_a_report_without_rows_is_the_last_one() -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM}; CREATE QUERY q AS {WARM}")
    assert last_report(engine) is None
    push(engine, 1, 50)
    push(engine, 3, 1)
    assert last_report(engine) == at(2) and engine.lookup("q").num_rows == 1
    push(engine, 9, 1)
    assert last_report(engine) == at(8)
    assert engine.lookup("q").num_rows == 0 and engine.stats()["queries"]["q"]["results"] == 1


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT k, SUM(v) AS n FROM s [ROWS 2 SLIDE 2] GROUP BY k HAVING SUM(v) > 100", at(3)),
        ("SELECT k, SUM(v) AS n FROM s [ROWS 1 SLIDE 100] GROUP BY k", None),
        (f"SELECT a.k, b.v FROM s {WINDOW} AS a JOIN s {WINDOW} AS b ON a.k = b.k", at(4)),
        ("SELECT ISTREAM k, SUM(v) AS n FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k", None),
        ("SELECT k, SUM(v) AS n FROM s [RANGE 2 SECONDS] GROUP BY k", None),
        ("SELECT k, v FROM s [NOW]", None),
    ],
)  # fmt: skip
def test_which_queries_have_one(select: str, expected: str | None) -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM}; CREATE QUERY q AS {select}")
    for second in (1, 2, 3, 3, 5):
        push(engine, second, second, "abcdef"[second])
    engine.results("q")
    assert last_report(engine) == expected


def test_reports_that_were_not_made_do_not_count(tmp_path: Path) -> None:
    with pw.Engine(tmp_path) as engine:
        engine.execute(f"{STREAM}; CREATE QUERY q AS {WARM}")
        push(engine, 1, 50)
        push(engine, 3, 1)
        engine.execute("SUSPEND QUERY q")
        push(engine, 5, 1)
        assert last_report(engine) is None
        engine.execute("RESUME QUERY q")
        assert last_report(engine) is None  # that of second 4 was due while it was suspended
    with pw.Engine(tmp_path) as engine:
        assert last_report(engine) is None
        push(engine, 7, 1)
        assert last_report(engine) == at(6)
        engine.execute(
            "CREATE QUERY late AS SELECT k, MAX(v) AS most FROM s [RANGE 20 SECONDS SLIDE 1 SECOND] GROUP BY k"
        )
        assert last_report(engine, "late") is None
        push(engine, 40, 1)
        assert last_report(engine, "late") == at(40)
