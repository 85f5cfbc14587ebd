"""What is held: the same in an engine that was interrupted, and from the moment that a stream retains rows."""

from __future__ import annotations

import pytest

import panewise as pw
from panewise.errors import NotHeldError
from tests.soak import held

SECOND = 1_000_000


@pytest.mark.parametrize("seed", [3, 5, 6, 8])
def test_interruptions_change_nothing(seed: int) -> None:
    assert held.play(seed) > 0


def engine_of(options: str = "") -> pw.Engine:
    engine = pw.Engine()
    engine.execute(f"CREATE STREAM s (ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS) {options}")
    return engine


def second(*seconds: float) -> list[dict[str, int]]:
    return [{"ts": int(time * SECOND), "v": int(time)} for time in seconds]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("restored", [True, False])
def test_retained_rows_leave_by_their_time(together: bool, restored: bool) -> None:
    """Not with the batch in which they came, nor with what a snapshot has put together."""
    engine = engine_of("WITH (retain = '10 seconds')")
    rows = second(*range(21))
    for data in [rows] if together else [[row] for row in rows]:
        engine.push("s", data)
        engine.stats()
    if restored:
        engine = pw.Engine.restore(engine.snapshot())
    engine.push("s", second(22))
    assert engine.execute("SELECT v FROM s [RANGE 10 SECONDS]")["v"].to_pylist() == [*range(7, 17)]
    with pytest.raises(NotHeldError, match="rows since 1970-01-01 00:00:07"):
        engine.execute("SELECT v FROM s [RANGE 11 SECONDS]")


def test_rows_within_the_delay_are_retained_from_the_statement_on() -> None:
    """They came before it, and no window that begins at the watermark may miss them."""
    engine = engine_of()
    engine.push("s", second(0, 10, 12, 14))
    engine.execute("ALTER STREAM s SET (retain = '1 minute')")
    engine.push("s", second(21))
    assert engine.execute("SELECT v FROM s [RANGE 7 SECONDS]")["v"].to_pylist() == [10, 12, 14]
    with pytest.raises(NotHeldError, match="rows since 1970-01-01 00:00:09"):
        engine.execute("SELECT v FROM s [RANGE 8 SECONDS]")


def test_what_was_retained_stays_when_more_is_asked_for() -> None:
    engine = engine_of("WITH (retain = '10 seconds')")
    engine.push("s", second(*range(31)))
    engine.execute("ALTER STREAM s SET (retain = '1 minute')")
    engine.push("s", second(35))
    assert engine.execute("SELECT COUNT(*) AS n FROM s [RANGE 15 SECONDS]")["n"].to_pylist() == [15]


@pytest.mark.parametrize("flushed", [True, False])
def test_what_a_tree_answers_once_follows_from_its_rows(flushed: bool) -> None:
    """Not from the steps in which the watermark came there, which a snapshot or `stats` makes more of."""
    engine = engine_of()
    engine.execute("CREATE QUERY q AS SELECT MEDIAN(v) AS m FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS]")
    engine.push("s", second(12, 13.5))
    engine.push("s", second(28))
    if flushed:
        engine.stats()
    engine.push("s", second(29))
    asked = "SELECT COUNT(*) AS n FROM s [RANGE 9 SECONDS SLIDE 2 SECONDS]"
    assert engine.execute(asked)["n"].to_pylist() == [0]


def test_a_lookup_before_the_first_window_with_a_row_finds_no_report() -> None:
    engine = pw.Engine()
    engine.execute("CREATE STREAM t (ts TIMESTAMP, v BIGINT)")
    engine.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 4 SECONDS SLIDE 2 SECONDS]")
    engine.push("t", [{"ts": 7_000_000, "v": 1}])
    assert engine.lookup("q", at=4_000_000).num_rows == engine.lookup("q").num_rows == 0
    engine.advance("t", 8_000_000)
    assert engine.lookup("q").column("n").to_pylist() == engine.results("q").column("n").to_pylist() == [1]
