"""The lateness of queries: how long rows that completed the last report had waited, by a clock that the test sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.engine.channels.push_times import NOTES_MAX, PushTimes

SECOND = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def engine_with_clock(delay: str = "") -> tuple[pw.Engine, Clock]:
    engine, clock = pw.Engine(), Clock()
    engine.execute(f"CREATE STREAM s (ts TIMESTAMP, v BIGINT, WATERMARK FOR ts{delay})")
    engine.streams["s"].monitor.clock = clock
    engine.execute(
        "CREATE QUERY short AS SELECT SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND];"
        "CREATE QUERY long AS SELECT SUM(v) AS total FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS];"
    )
    return engine, clock


def lateness(engine: pw.Engine, query: str) -> float | None:
    found: float | None = engine.stats()["queries"][query]["lateness"]
    return found


@pytest.mark.parametrize("many", [False, True])
def test_rows_that_wait_make_a_report_late(many: bool) -> None:
    engine, clock = engine_with_clock()
    assert lateness(engine, "short") is None
    for second in range(7):
        row = {"ts": second * SECOND, "v": 1}
        engine.push("s", [row, row] if many else row)
        clock.now += 10
    # The report of 6 was completed by the last push, that of 5 by the one before.
    assert lateness(engine, "short") == 10
    assert lateness(engine, "long") == 20
    clock.now += 100
    assert lateness(engine, "short") == 10  # nothing new has appeared


def test_the_delay_of_the_stream_counts() -> None:
    engine, clock = engine_with_clock(" AS ts - INTERVAL 2 SECONDS")
    for second in range(8):
        engine.push("s", {"ts": second * SECOND, "v": 1})
        clock.now += 10
    assert lateness(engine, "short") == 10  # the watermark is 5, which the last row brought it to
    assert lateness(engine, "long") == 10


def test_rows_that_complete_nothing_do_not_count() -> None:
    engine, clock = engine_with_clock()
    engine.push("s", [{"ts": 0, "v": 1}, {"ts": 5 * SECOND, "v": 1}])
    clock.now += 3
    engine.push("s", {"ts": 5 * SECOND + 1, "v": 1})
    clock.now += 4
    assert lateness(engine, "short") == lateness(engine, "long") == 7


def test_a_subscriber_sees_reports_at_once() -> None:
    engine, clock = engine_with_clock()
    engine.subscribe("short", lambda batch: None)
    for second in range(7):
        engine.push("s", {"ts": second * SECOND, "v": 1})
        clock.now += 10
    assert lateness(engine, "short") == 0


def test_a_punctuation_completes_reports() -> None:
    engine, clock = engine_with_clock()
    engine.push("s", {"ts": 0, "v": 1})
    clock.now += 10
    engine.advance("s", 10 * SECOND)
    assert lateness(engine, "short") == lateness(engine, "long") == 0


def test_a_queue_is_waiting_too() -> None:
    engine, clock = pw.Engine(), Clock()
    engine.execute("CREATE STREAM s (ts TIMESTAMP, v BIGINT) WITH (queue = 1000)")
    engine.streams["s"].monitor.clock = clock
    engine.execute("CREATE QUERY q AS SELECT SUM(v) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]")
    with engine.turns:  # the queue's thread waits meanwhile
        engine.push("s", [{"ts": 0, "v": 1}, {"ts": 5 * SECOND, "v": 1}])
        clock.now += 30
    assert lateness(engine, "q") == 30


def test_over_two_streams_the_last_rows_count() -> None:
    engine, clock = pw.Engine(), Clock()
    for name in ("a", "b"):
        engine.execute(f"CREATE STREAM {name} (ts TIMESTAMP, k BIGINT)")
        engine.streams[name].monitor.clock = clock
    engine.execute(
        "CREATE QUERY q AS SELECT a.k FROM a [RANGE 10 SECONDS SLIDE 1 SECOND]"
        " JOIN b [RANGE 10 SECONDS SLIDE 1 SECOND] ON a.k = b.k"
    )
    engine.push("a", [{"ts": 0, "k": 1}, {"ts": 5 * SECOND, "k": 2}])
    clock.now += 50
    engine.push("b", [{"ts": 0, "k": 1}, {"ts": 5 * SECOND, "k": 2}])
    clock.now += 2
    assert lateness(engine, "q") == 2


def test_windows_without_slide_have_none() -> None:
    engine, _ = engine_with_clock()
    engine.execute("CREATE QUERY now AS SELECT SUM(v) AS total FROM s [RANGE 2 SECONDS]")
    engine.push("s", [{"ts": 0, "v": 1}, {"ts": 5 * SECOND, "v": 1}])
    assert lateness(engine, "now") is None and lateness(engine, "short") is not None


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 30), st.integers(0, 10))
def test_multiples_of_the_slide_are_exact(steps: list[int], slide: int, delay: int) -> None:
    """Against keeping everything: the first push that brings the watermark to e."""
    times = PushTimes(delay)
    times.set_slide(slide, None)
    newest, pushes = 0, []
    for at, step in enumerate(steps):
        newest += step
        pushes.append((newest - delay, at))
        if newest >= times.noted_from:
            times.note(newest, at)
    times.processed(newest - delay, 1_000)
    for instant in range(pushes[0][0] // slide * slide + slide, newest - delay + 1, slide):
        expected = next(at for reached, at in pushes if reached >= instant)
        assert times.lateness(instant) == 1_000 - expected


def test_what_is_kept_is_bounded() -> None:
    times = PushTimes(0)
    times.set_slide(8, None)
    for second in range(100_000):
        times.note(second, second)
        times.processed(second, second + second / 100_000)
    assert len(times._processed) <= NOTES_MAX
    assert times.lateness(99_999) == pytest.approx(0.99999)
    assert times.lateness(50_000) == pytest.approx(0.5, abs=0.01)
