"""Windows of rows that come in mid-stream: numbered from the beginning, or refused; and what is held of them."""

from __future__ import annotations

from typing import Any

import pytest

import panewise as pw
from panewise.errors import NotHeldError, PlanError
from tests.soak.row_windows import play

SECOND = 1_000_000
STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS)"
PAIRS = "SELECT k, SUM(v) AS s FROM s [PARTITION BY k ROWS 2 SLIDE 2] GROUP BY k"


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Of the seconds from `first` on, of `a` and `b` in turns; v is the second."""
    return [{"ts": t * SECOND, "k": "ab"[t % 2], "v": t} for t in range(first, first + count)]


def sums(engine: pw.Engine, name: str) -> list[tuple[str, int]]:
    return [(row["k"], row["s"]) for row in engine.results(name).to_pylist()]


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_scripts(first: int) -> None:
    assert sum(map(play, range(first, first + 10))) > 10


def test_the_counts_of_another_query_are_taken_over() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute("CREATE QUERY counting AS SELECT v FROM s [PARTITION BY k ROWS 1 SLIDE 5]")
    engine.push("s", rows(0, 5))  # 0, 1 and 2 have gone by: two of `a` and one of `b`
    engine.advance("s", 3 * SECOND)
    engine.execute(f"CREATE QUERY q AS {PAIRS}")
    engine = pw.Engine.restore(engine.snapshot())
    engine.execute("DROP QUERY counting")
    engine.execute(f"CREATE QUERY r AS {PAIRS}")  # q has the counts now
    engine.push("s", rows(5, 5))
    engine.advance("s", 20 * SECOND)
    assert sums(engine, "q") == sums(engine, "r") == [("a", 4 + 6), ("b", 5 + 7)]


def test_counts_that_began_too_late_are_no_help() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.push("s", rows(0, 5))
    engine.advance("s", 5 * SECOND)
    engine.execute("CREATE QUERY late AS SELECT v FROM s [PARTITION BY k ROWS 2]")
    engine.push("s", rows(5, 5))
    with pytest.raises(PlanError, match="numbers the rows of each partition"):
        engine.execute(f"CREATE QUERY q AS {PAIRS}")
    assert "q" not in engine.stats()["queries"]


@pytest.mark.parametrize("emit", ["ISTREAM", "DSTREAM"])
def test_differences_of_reports_of_which_some_partitions_lack_are_refused(emit: str) -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    text = f"SELECT {emit} v FROM s [PARTITION BY k ROWS 2 SLIDE 2 OFFSET 1]"
    engine.execute(f"CREATE QUERY counting AS {text}")
    engine.push("s", rows(0, 5))
    engine.advance("s", 3 * SECOND)
    with pytest.raises(PlanError, match=f"{emit} over .* compares successive reports"):
        engine.execute(f"CREATE QUERY q AS {text}")
    engine.execute(f"CREATE QUERY q AS {text.replace(emit, 'RSTREAM')}")


def test_rows_that_no_watermark_has_passed_are_not_missed() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.push("s", rows(10, 2))
    engine.execute(f"CREATE QUERY q AS {PAIRS}")
    engine.execute("CREATE QUERY total AS SELECT SUM(v) AS s FROM s [PARTITION BY k ROWS 9]")
    engine.push("s", rows(12, 4))
    engine.advance("s", 20 * SECOND)
    assert sums(engine, "q") == [("a", 22), ("b", 24)]
    assert engine.lookup("total").to_pylist() == [{"s": 10 + 11 + 12 + 13 + 14 + 15}]


@pytest.mark.parametrize("emit", ["", "ISTREAM "])
def test_retained_rows_are_the_history_of_a_new_query(emit: str) -> None:
    """Its first report is the last one that was due; what is new in the next one is compared with it."""
    engine = pw.Engine()
    engine.execute(f"{STREAM} WITH (retain = '1 day')")
    text = f"SELECT {emit}v FROM s [PARTITION BY k ROWS 3 SLIDE 1]"
    engine.execute(f"CREATE QUERY old AS {text}")
    engine.push("s", [row for row in rows(0, 6) if row["k"] == "a"])  # of 0, 2 and 4
    engine.advance("s", 6 * SECOND)
    engine.execute(f"CREATE QUERY q AS {text}")
    before = engine.results("old").to_pylist()
    first = engine.results("q").to_pylist()
    assert first == ([] if emit else before[-3:])
    engine.push("s", [row for row in rows(6, 5) if row["k"] == "a"])
    engine.advance("s", 20 * SECOND)
    after = engine.results("q").to_pylist()
    assert after and after == engine.results("old").to_pylist()


def test_a_one_time_query_over_the_last_rows_that_are_held() -> None:
    engine = pw.Engine()
    engine.execute(f"{STREAM} WITH (retain = '5 seconds')")
    engine.execute("CREATE QUERY q AS SELECT v FROM s [NOW]")
    for second in range(20):
        engine.push("s", rows(second, 1))
        engine.results("q")
    engine.advance("s", 20 * SECOND)
    for window, expected in (("ROWS 3", [17, 18, 19]), ("ROWS 2 OFFSET 3", [15, 16]), ("ROWS 5", list(range(15, 20)))):
        table = engine.execute(f"SELECT v FROM s [{window}]")
        assert table is not None and table.column("v").to_pylist() == expected
    for window in ("ROWS 3 SLIDE 2", "PARTITION BY k ROWS 1 SLIDE 1"):
        with pytest.raises(PlanError, match="a one-time query does not know"):
            engine.execute(f"SELECT v FROM s [{window}]")
    for window in ("ROWS 9", "ROWS 3 OFFSET 6", "PARTITION BY k ROWS 1"):
        with pytest.raises(NotHeldError, match="does not hold"):
            engine.execute(f"SELECT v FROM s [{window}]")


def test_rows_on_their_way_are_retained_from_the_moment_of_the_option_on() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.push("s", rows(0, 10))  # 8 and 9 have not been passed by the watermark
    engine.execute("ALTER STREAM s SET (retain = '1 day')")
    engine.push("s", rows(10, 2))
    engine.advance("s", 20 * SECOND)
    for window in ("RANGE 13 SECONDS", "ROWS 4"):
        table = engine.execute(f"SELECT v FROM s [{window}]")
        assert table is not None and table.column("v").to_pylist()[-4:] == [8, 9, 10, 11]


@pytest.mark.parametrize("items", ["v", "SUM(v) AS s"])
@pytest.mark.parametrize("window", ["[ROWS 2 SLIDE 1]", "[PARTITION BY k ROWS 2 SLIDE 1]", "[ROWS 2]"])
def test_no_report_is_the_last_one_of_an_instant_that_has_not_come(items: str, window: str) -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(f"CREATE QUERY q AS SELECT {items} FROM s {window}")
    engine.push("s", rows(0, 6))  # the watermark is 3
    for at in (3 * SECOND, 9 * SECOND):
        with pytest.raises(NotHeldError):
            engine.lookup("q", at=at)
    assert engine.lookup("q").num_rows > 0


INNER = "SELECT COUNT(*) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS]"


@pytest.mark.parametrize("items", ["n", "SUM(n) AS t"])
@pytest.mark.parametrize("over", ["late", f"({INNER})", "first"])
def test_the_results_of_a_query_in_mid_stream_have_no_numbers(items: str, over: str) -> None:
    """Beside `wide`, which holds its rows, `late` begins two seconds earlier than alone."""
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute("CREATE QUERY wide AS SELECT COUNT(*) AS n FROM s [RANGE 8 SECONDS SLIDE 2 SECONDS]")
    engine.execute(f"CREATE QUERY first AS {INNER}")
    engine.push("s", rows(0, 9))
    engine.execute(f"CREATE QUERY late AS {INNER}")
    engine.push("s", rows(9, 9))
    engine = pw.Engine.restore(engine.snapshot())
    statement = f"CREATE QUERY q AS SELECT {items} FROM {over} [ROWS 3 SLIDE 2]"
    if over == "first":
        engine.execute(statement)
        return
    with pytest.raises(PlanError, match="numbers the results of " + ("the subquery" if "(" in over else "'late'")):
        engine.execute(statement)
    assert "q" not in engine.stats()["queries"]


@pytest.mark.parametrize("beside", [False, True])
def test_the_last_results_of_a_query_in_mid_stream_are_shown_when_there_are_enough(beside: bool) -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    if beside:
        engine.execute("CREATE QUERY wide AS SELECT COUNT(*) AS n FROM s [RANGE 8 SECONDS SLIDE 2 SECONDS]")
    engine.push("s", rows(0, 9))
    engine.execute(f"CREATE QUERY q AS SELECT ISTREAM SUM(n) AS t, COUNT(*) AS c FROM ({INNER}) [ROWS 3]")
    engine.push("s", rows(9, 20))
    assert {row["c"] for row in engine.results("q").to_pylist()} == {3}


@pytest.mark.parametrize("word", ["", "ISTREAM ", "DSTREAM "])
def test_having_drops_long_runs_of_windows_without_rows(word: str) -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT) WITH (epoch = 'microseconds')")
    window = "t [ROWS 3 SLIDE 1] WHERE v > 0"
    engine.execute(f"CREATE QUERY q AS SELECT {word}SUM(v) AS s FROM {window} HAVING COUNT(*) > 1")
    values = [1, 2] + [0] * 20_000 + [4, 5, 0, 0]
    engine.push("t", [{"ts": at * 1_000_000, "v": v} for at, v in enumerate(values)])
    engine.advance("t", 30_000_000_000)
    assert engine.stats()["queries"]["q"]["status"] == "RUNNING"
    assert engine.results("q")["s"].to_pylist() == ([3, 9] if word else [3, 3, 9, 9])
