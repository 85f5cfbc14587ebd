"""Nothing that happens at once closes more than ten million windows of one query, whatever the order of events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise import Engine
from panewise.engine.ingest.window_limit import Extent, WindowLimit
from panewise.errors import DataError
from tests.soak.window_limits import play

SECOND = 1_000_000
DAY = 86_400 * SECOND  # 115.7 days are ten million seconds
COUNT = "CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]"
KINDS = {
    "ungrouped": COUNT,
    "grouped": "CREATE QUERY q AS SELECT v, COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY v",
    "rows": "CREATE QUERY q AS SELECT v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]",
    "changes": "CREATE QUERY q AS SELECT ISTREAM COUNT(*) AS n FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]",
    "restored": "CREATE QUERY q AS SELECT RSTREAM RESTORE v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]",
    "distinct": "CREATE QUERY q AS SELECT DISTINCT v FROM s [RANGE 10 SECONDS SLIDE 1 SECOND]",
}


def stream(name: str = "s", delay_days: int = 0, options: str = "") -> str:
    return (
        f"CREATE STREAM {name} (ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL {delay_days} DAYS) {options}"
    )


def engine_of(*statements: str, path: Path | None = None) -> Engine:
    engine = Engine(path)
    for statement in statements:
        engine.execute(statement)
    return engine


def row(days: float) -> dict[str, int]:
    return {"ts": int(days * DAY), "v": 1}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "close", [Engine.flush, lambda engine: engine.advance("s", 1000 * DAY)], ids=["flush", "advance"]
)
def test_an_older_row_after_a_newer_one(kind: str, close: Callable[[Engine], None]) -> None:
    engine = engine_of(stream(delay_days=1000), KINDS[kind])
    engine.push("s", row(1000))
    engine.push("s", row(0))
    with pytest.raises(DataError, match="more than 10,000,000 windows"):
        close(engine)
    assert engine.stats()["streams"]["s"]["watermark"] == "1970-01-01 00:00:00"
    assert engine.results("q").num_rows == 0
    engine.advance("s", DAY // 50)  # in steps it goes on
    assert engine.results("q").num_rows > 0


def test_rows_of_one_push_in_any_order() -> None:
    engine = engine_of(stream(delay_days=100), COUNT)
    engine.push("s", [row(100), row(0), row(150)])
    engine.push("s", [row(120), row(50.5)])  # 50 days are closed, and none of these is late
    with pytest.raises(DataError, match="row 1 pushed to 's' is bad"):
        engine.push("s", [row(151), row(267), row(152)])
    engine.push("s", row(265))
    assert engine.stats()["streams"]["s"]["late_rows"] == 0


def test_a_row_may_be_as_far_ahead_as_the_delay_hides() -> None:
    """The watermark follows behind the delay, and only what it closes counts."""
    engine = engine_of(stream(delay_days=1000), COUNT)
    engine.push("s", [row(0), row(900)])
    assert engine.results("q").num_rows == 0
    engine.push("s", row(1001))
    assert engine.results("q").num_rows == 86_400
    with pytest.raises(DataError, match="more than 10,000,000 windows"):
        engine.push("s", row(1300))


def test_a_stream_that_another_one_waited_for() -> None:
    """The join has reported nothing before the first row of `b`, which would close all windows since that of `a`."""
    join = "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND], b [RANGE 5 SECONDS SLIDE 1 SECOND]"
    engine = engine_of(stream(), stream("b"), f"CREATE QUERY q AS {join} WHERE s.v = b.v")
    for days in range(0, 1000, 100):
        engine.push("s", row(days))
    with pytest.raises(DataError, match="more than 10,000,000 windows"):
        engine.push("b", row(900))
    with pytest.raises(DataError, match="more than 10,000,000 windows"):
        engine.advance("b", 900 * DAY)
    engine.push("b", row(0.02))
    assert engine.results("q").num_rows == 1728


def test_a_join_that_came_late_counts_from_there() -> None:
    join = "SELECT COUNT(*) AS n FROM s [RANGE 5 SECONDS SLIDE 1 SECOND], b [RANGE 5 SECONDS SLIDE 1 SECOND]"
    engine = engine_of(stream(), stream("b"))
    for days in range(0, 1000, 100):
        engine.push("s", row(days))
    engine.execute(f"CREATE QUERY q AS {join} WHERE s.v = b.v")
    engine.push("b", row(900))
    assert engine.results("q").num_rows == 0


def test_a_query_created_while_rows_are_within_the_delay() -> None:
    engine = engine_of(stream(delay_days=1000))
    engine.push("s", [row(1000), row(0)])
    engine.execute(COUNT)
    engine.execute("CREATE QUERY over AS SELECT MAX(n) AS m FROM q [RANGE 1 SECOND SLIDE 1 SECOND]")
    for close in (engine.flush, lambda: engine.advance("s", 1000 * DAY)):
        with pytest.raises(DataError, match="more than 10,000,000 windows"):
            close()
    engine.push("s", row(1000.02))
    assert engine.results("over").num_rows


def test_a_flush_of_several_streams_is_all_or_nothing() -> None:
    engine = engine_of(stream("a"), stream(delay_days=1000), COUNT, COUNT.replace("q AS", "p AS").replace("s [", "a ["))
    engine.push("a", row(1))
    engine.push("s", [row(1000), row(0)])
    with pytest.raises(DataError, match="advancing 's' to"):
        engine.flush()
    assert engine.results("p").num_rows == 0
    engine.flush(["a"])
    assert engine.results("p").num_rows == 10


@pytest.mark.parametrize("again", ["snapshot", "log"])
def test_the_oldest_row_outlives_the_process(tmp_path: Path, again: str) -> None:
    engine = engine_of(stream(delay_days=1000), COUNT, path=tmp_path)
    for days in (1000, 0):
        engine.push("s", row(days))
    engine.close(snapshot=again == "snapshot")
    engine = Engine(tmp_path)
    with pytest.raises(DataError, match="more than 10,000,000 windows"):
        engine.advance("s", 1000 * DAY)
    engine.push("s", row(100))
    engine.close()


def test_rows_that_wait_in_a_queue_count() -> None:
    engine = engine_of(stream(delay_days=1000, options="WITH (queue = 1000)"), COUNT)
    for days in (1000, 0):
        engine.push("s", row(days))
    with pytest.raises(DataError, match="more than 10,000,000 windows"):
        engine.push("s", row(1200))
    with pytest.raises(DataError, match="more than 10,000,000 windows"):
        engine.flush()


def test_random_scripts() -> None:
    """Among them are calls that are taken and calls that are refused; the limit is a small one."""
    assert sum(map(play, range(60))) > 300


def test_rows_and_micro_batches_by_the_definition() -> None:
    """Row by row, and with a watermark that stands still: what is bad is what would close more than `reach`."""
    chance = np.random.default_rng(5)
    for _ in range(300):
        delay, reach, floor = (int(chance.integers(0, 30)) for _ in range(3))
        stands = None if chance.random() < 0.5 else floor
        limit = WindowLimit(delay, floor, reach, stands)
        times = chance.integers(0, 80, 12).astype(np.int64)
        wanted: list[bool] = []
        good: list[int] = []
        watermark = floor
        for time in times.tolist():
            late = time < watermark
            newest, oldest = max([*good, time]), min([*(t for t in good), time])
            wanted.append(not late and newest - delay - max(watermark, oldest) > reach)
            if not late and not wanted[-1]:
                good.append(time)
                watermark = watermark if stands is not None else max(watermark, time - delay)
        extent, found = Extent(), []
        for part in np.split(times, [4, 7]):
            bad, extent = limit.judge(part, extent)
            found += [False] * len(part) if bad is None else bad.tolist()
        assert found == wanted, (limit, times.tolist())
        assert extent == (Extent(max(good), min(good)) if good else Extent())


def test_other_streams_are_asked_only_by_what_is_far_ahead() -> None:
    """Asking them looks at every query, and most pushes come while the oldest row is within the delay."""
    asked = []

    def others_begun() -> int:
        asked.append(True)
        return 0

    limit = WindowLimit(10, reach=100, others_begun=others_begun)
    near = Extent(1000, 995)
    assert limit.judge(np.array([996, 1001, 1090]), near) == (None, Extent(1090, 995))
    assert limit.admits(1090, near)
    assert not asked
    assert limit.judge(np.array([1110]), near)[0] is not None
    assert not limit.admits(1110, near)
    assert len(asked) == 2


@given(st.lists(st.integers(0, 300), min_size=1, max_size=12), st.integers(0, 60), st.sampled_from([-(2**63), 40]))
def test_a_row_on_the_short_way_moves_the_extent_as_a_judged_one_does(times: list[int], delay: int, floor: int) -> None:
    limit, extent = WindowLimit(delay, floor), Extent()
    for time in times:
        judged = limit.judge(np.array([time]), extent)
        assert judged == (None, limit.with_row(time, extent))
        extent = judged[1]
