"""Long runs of empty reports: in their place among the others, and of windows of rows each with its own row's time."""

from __future__ import annotations

from typing import Any

import pytest

import panewise as pw
from panewise.errors import PlanError
from tests.soak import row_windows

LONG = 6000  # reports; more than are written out at once
STREAM = "CREATE STREAM t (ts TIMESTAMP, v BIGINT)"


def rows(first: int, count: int, passing: set[int]) -> list[dict[str, int]]:
    return [{"ts": 1_000_000 + at, "v": 9 if at in passing else 0} for at in range(first, first + count)]


def reports(engine: pw.Engine, query: str = "q") -> list[dict[str, Any]]:
    return engine.results(query).to_pylist()


def micros(instant: Any) -> int:
    return round(instant.timestamp() * 1_000_000) - 1_000_000


@pytest.mark.parametrize("pushed", [LONG, 1000])
def test_every_report_ends_at_its_own_row(pushed: int) -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM}; CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [ROWS 1 SLIDE 1] WHERE v > 5")
    for first in range(0, 3 * LONG, pushed):
        engine.push("t", rows(first, pushed, {3, LONG + 7}))
    engine.advance("t", 2_000_000)
    found = reports(engine)
    assert [micros(report["window_end"]) for report in found] == list(range(3 * LONG))
    assert [at for at, report in enumerate(found) if report["n"]] == [3, LONG + 7]


@pytest.mark.parametrize("emit", ["ISTREAM", "DSTREAM"])
@pytest.mark.parametrize("restored", [False, True])
def test_what_changes_after_a_long_gap_is_told_with_its_row(emit: str, restored: bool) -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM}; CREATE QUERY q AS SELECT {emit} COUNT(*) AS n FROM t [ROWS 1 SLIDE 1] WHERE v > 5")
    passing = {0, LONG, 2 * LONG - 1}
    engine.push("t", rows(0, LONG // 2, passing))
    if restored:
        engine = pw.Engine.restore(engine.snapshot())
    engine.push("t", rows(LONG // 2, 2 * LONG - LONG // 2, passing))
    engine.advance("t", 2_000_000)
    found = {micros(report["window_end"]) for report in reports(engine)}
    # A row that passes changes the report that it is in, and the one behind it.
    assert found == {0, 1, LONG, LONG + 1, 2 * LONG - 1} - ({0} if emit == "DSTREAM" else set())


@pytest.mark.parametrize("emit", ["", "ISTREAM", "DSTREAM"])
def test_long_runs_stand_in_their_place(emit: str) -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM}; CREATE QUERY q AS SELECT {emit} COUNT(*) AS n FROM t [RANGE 1 SECOND SLIDE 1 SECOND]")
    engine.push("t", [{"ts": second * 1_000_000, "v": 1} for second in (0, 5000, 9000, 9001)])
    found = [report["window_end"].timestamp() for report in reports(engine)]
    assert found == sorted(found)
    assert found == list(range(1, 9002)) or emit
    assert engine.lookup("q").column("n").to_pylist() == [1]


def test_reports_wait_for_their_reader_when_the_query_fails() -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM}; CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [ROWS 1 SLIDE 1] WHERE v > 5")
    engine.push("t", rows(0, LONG, set()))
    engine.advance("t", 2_000_000)
    engine.hosting.consumers["q"].fail("its state is torn")
    handed: list[int] = []
    engine.hand_over_all(lambda results: handed.extend(table.num_rows for _, table, _ in results))
    assert handed == [LONG]


@pytest.mark.parametrize("window", ["ROWS {n} SLIDE 1", "ROWS 3 SLIDE {n}", "ROWS 3 OFFSET {n}", "ROWS {n}"])
def test_more_rows_than_any_stream_has_are_refused(window: str) -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM}; CREATE QUERY sound AS SELECT COUNT(*) AS n FROM t [ROWS 2 SLIDE 1]")
    engine.push("t", rows(0, 10, set()))
    with pytest.raises(PlanError, match="more than 1,000,000,000,000,000,000 rows"):
        engine.execute(f"CREATE QUERY q AS SELECT SUM(v) AS s FROM t [{window.format(n=2**63 - 1)}]")
    engine.execute(f"CREATE QUERY long AS SELECT SUM(v) AS s FROM t [{window.format(n=10**18)}]")
    engine.push("t", rows(10, 10, set()))
    engine.advance("t", 2_000_000)
    assert {query["status"] for query in engine.execute("SHOW QUERIES").to_pylist()} == {"RUNNING"}
    assert len(reports(engine, "sound")) == 20


@pytest.mark.parametrize("seed", [1, 3, 5])
def test_short_runs_are_kept_as_long_ones_are(seed: int) -> None:
    assert row_windows.play(seed) > 0
