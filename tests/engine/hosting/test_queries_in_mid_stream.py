"""Queries in mid-stream begin with their first whole window: over queries that begin late, and between rows, too."""

from __future__ import annotations

from typing import Any

import pytest

import panewise as pw

STREAM = "CREATE STREAM s (ts TIMESTAMP, k STRING, v BIGINT)"
TABLE = "CREATE TABLE t (k STRING PRIMARY KEY); INSERT INTO t VALUES ('a'), ('b')"
COUNTS = "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]"
ROWS = "SELECT v AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]"
JOINED = "SELECT a.v AS n FROM s [RANGE 6 SECONDS SLIDE 1 SECOND] AS a, t WHERE a.k = t.k"
WIDE = "CREATE QUERY wide AS SELECT COUNT(*) AS n FROM s [RANGE 20 SECONDS SLIDE 1 SECOND]"


def rows(*seconds: float) -> list[dict[str, Any]]:
    return [{"ts": int(second * 1_000_000), "k": "ab"[int(second) % 2], "v": int(second)} for second in seconds]


def by_end(engine: pw.Engine, query: str) -> dict[int, Any]:
    return {int(row["window_end"].timestamp()): row["t"] for row in engine.results(query).to_pylist()}


@pytest.mark.parametrize("inner", [COUNTS, ROWS, JOINED])
@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("restored", [False, True])
def test_a_window_over_a_query_that_begins_late_is_whole(
    inner: str, by_name: bool, beside: bool, restored: bool
) -> None:
    """Every report of it is one that it would have had from the first row on."""
    engine = pw.Engine()
    engine.execute(f"{STREAM}; {TABLE}; CREATE QUERY early AS {inner}")
    items = "SELECT COUNT(*) * 1000 + SUM(n) AS t FROM"
    engine.execute(f"CREATE QUERY always AS {items} early [RANGE 4 SECONDS SLIDE 2 SECONDS]")
    always = engine
    engine = pw.Engine()
    engine.execute(f"{STREAM}; {TABLE}" + (f"; {WIDE}" if beside else ""))
    for each in (always, engine):
        each.push("s", rows(*range(25)))
    if by_name:
        engine.execute(f"CREATE QUERY late AS {inner}")
        if restored:
            engine = pw.Engine.restore(engine.snapshot())
    engine.execute(f"CREATE QUERY q AS {items} {'late' if by_name else f'({inner})'} [RANGE 4 SECONDS SLIDE 2 SECONDS]")
    if restored:
        engine = pw.Engine.restore(engine.snapshot())
    for each in (always, engine):
        each.push("s", rows(*range(25, 60)))
    wanted, found = by_end(always, "always"), by_end(engine, "q")
    assert found and found == {end: value for end, value in wanted.items() if end >= min(found)}
    assert min(found) <= 24 + 10 + 4 + 2


def test_a_join_with_a_query_that_begins_late_waits_for_it() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.push("s", rows(*range(25)))
    engine.execute(f"CREATE QUERY late AS {COUNTS}")
    engine.execute(
        "CREATE QUERY q AS SELECT COUNT(*) AS t FROM late [RANGE 3 SECONDS SLIDE 1 SECOND] AS a, "
        "s [RANGE 2 SECONDS SLIDE 1 SECOND] AS b WHERE a.n > b.v - 1000"
    )
    engine.push("s", rows(*range(25, 60)))
    found = by_end(engine, "q")
    assert set(found.values()) == {6} and min(found) == 24 + 10 + 3


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("item", ["COUNT(*)", "COUNT(DISTINCT v)"])
@pytest.mark.parametrize("sharing", ["weave", "none"])
def test_an_ungrouped_query_begins_in_a_gap_between_rows(beside: bool, offset: int, item: str, sharing: str) -> None:
    """Rows have gone by, so that an empty window is reported like any other."""
    engine = pw.Engine(sharing=sharing)
    engine.execute(STREAM)
    if beside:
        engine.execute(WIDE)
    engine.push("s", rows(*(second + 0.5 for second in range(10))))
    window = f"[RANGE 1 SECOND SLIDE 1 SECOND OFFSET {offset} SECONDS]"
    engine.execute(f"CREATE QUERY q AS SELECT {item} AS t FROM s {window}")
    engine.push("s", rows(50.5, 51.5, 60.5))
    found = by_end(engine, "q")
    shown = {51 + offset, 52 + offset}
    assert {end: value for end, value in found.items() if end > 10 + offset} == {
        end: int(end in shown) for end in range(11 + offset, 61)
    }


def test_an_ungrouped_query_waits_for_the_first_row_where_none_has_gone_by() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.advance("s", 10_000_000)
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS t FROM s [RANGE 1 SECOND SLIDE 1 SECOND]")
    engine.push("s", rows(50, 52))
    assert by_end(engine, "q") == {51: 1, 52: 0}


COUNTED = "SELECT COUNT(*) AS n FROM s [ROWS 10 SLIDE 3]"
LAST = "SELECT ISTREAM COUNT(*) AS n FROM s [ROWS 10]"
OF_EACH = "SELECT RSTREAM k, COUNT(*) AS n FROM s [PARTITION BY k ROWS 3 SLIDE 1] GROUP BY k"


@pytest.mark.parametrize("inner", [COUNTED, LAST])
@pytest.mark.parametrize("restored", [False, True])
def test_a_window_of_time_over_windows_of_rows_waits_until_they_have_begun(inner: str, restored: bool) -> None:
    engine, always = pw.Engine(), pw.Engine()
    items = "SELECT COUNT(*) * 1000 + SUM(n) AS t FROM"
    always.execute(f"{STREAM}; CREATE QUERY early AS {inner}")
    always.execute(f"CREATE QUERY q AS {items} early [RANGE 6 SECONDS SLIDE 1 SECOND]")
    engine.execute(STREAM)
    for each in (always, engine):
        each.push("s", rows(*range(25)))
    engine.execute(f"CREATE QUERY late AS {inner}")
    if restored:
        engine = pw.Engine.restore(engine.snapshot())
    over = f"CREATE QUERY q AS {items} late [RANGE 6 SECONDS SLIDE 1 SECOND]"
    for text in (over, over.replace("late", f"({inner})"), "CREATE QUERY j AS SELECT a.n FROM late [NOW] a, s [NOW] b"):
        with pytest.raises(pw.PlanError, match="begins when enough rows have come"):
            engine.execute(text)
    engine.execute("CREATE QUERY handed_on AS SELECT ISTREAM n FROM late [NOW]")
    with pytest.raises(pw.PlanError, match="'handed_on' came in mid-stream and begins when"):
        engine.execute(over.replace("late", "handed_on"))
    for each in (always, engine):
        each.push("s", rows(*range(25, 40)))
    engine.execute(over)
    for each in (always, engine):
        each.push("s", rows(*range(40, 60)))
    wanted, found = by_end(always, "q"), by_end(engine, "q")
    assert found and found == {end: value for end, value in wanted.items() if end >= min(found)}


def test_nobody_knows_when_all_partitions_have_begun() -> None:
    engine = pw.Engine()
    engine.execute(STREAM)
    engine.execute(f"CREATE QUERY counting AS {OF_EACH}")
    engine.push("s", rows(*range(25)))
    engine.execute(f"CREATE QUERY late AS {OF_EACH}")
    engine.push("s", rows(*range(25, 50)))
    with pytest.raises(pw.PlanError, match="until all its partitions have begun"):
        engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS t FROM late [RANGE 6 SECONDS SLIDE 1 SECOND]")
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS t FROM counting [RANGE 6 SECONDS SLIDE 1 SECOND]")


@pytest.mark.parametrize("beside", [False, True])
def test_where_only_the_watermark_has_moved_nothing_was_missed(beside: bool) -> None:
    engine = pw.Engine()
    engine.execute(STREAM + (f"; {WIDE}" if beside else ""))
    engine.advance("s", 10_000_000)
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS t FROM s [RANGE 1 MINUTE SLIDE 1 SECOND]")
    engine.execute("CREATE QUERY all_of_them AS SELECT COUNT(*) AS t FROM s [UNBOUNDED SLIDE 1 SECOND]")
    engine.push("s", rows(11.5, 12.5, 13.5))
    assert by_end(engine, "q") == by_end(engine, "all_of_them") == {12: 1, 13: 2}


@pytest.mark.parametrize("beside", ["RANGE 10 SECONDS SLIDE 3 SECONDS", "RANGE 10 SECONDS SLIDE 5 SECONDS", ""])
def test_rows_that_where_drops_begin_an_ungrouped_query_beside_others_too(beside: str) -> None:
    engine = pw.Engine()
    engine.execute(
        "CREATE STREAM t (ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 3 SECONDS) "
        "WITH (epoch = 'microseconds')"
    )
    if beside:
        engine.execute(f"CREATE QUERY other AS SELECT MAX(v) AS x FROM t [{beside}] WHERE v > 2")
    engine.push("t", [{"ts": 482_000_000, "v": 0}, {"ts": 505_000_000, "v": 1}])
    engine.stats()
    window = "RANGE 5 SECONDS SLIDE 7 SECONDS OFFSET 3 SECONDS"
    engine.execute(f"CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [{window}] WHERE v > 2")
    engine.advance("t", 530_000_000)
    ends = [row["window_end"].timestamp() for row in engine.results("q").to_pylist()]
    assert ends == [511, 518, 525]
