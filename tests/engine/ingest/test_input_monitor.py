"""The input monitor: rates against their definition, lag, rows that wait, and bounded queues that lose nothing."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from panewise.engine.ingest.input_monitor import InputMonitor, RateMeter
from panewise.engine.ingest.stream import Stream
from tests.engine.small_engine import COUNTS, SECOND, STREAM, engine_of, row, rows, tuples
from tests.waiting import PATIENCE_S, until

QUEUED = "CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE) WITH (queue = 100)"
LAST = "CREATE QUERY l AS SELECT COUNT(*) AS n, SUM(v) AS s FROM t [RANGE 1 HOUR SLIDE 1 SECOND]"


class Clock:
    """Time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# -- rates -------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0.001, 20)), min_size=1, max_size=20), st.floats(0, 30))
def test_a_rate_is_the_faded_average_of_rows_that_came_evenly(pushes: list[tuple[int, float]], after: float) -> None:
    meter = RateMeter(5.0)
    at, times = 0.0, []
    for count, elapsed in pushes:
        at += elapsed
        meter.note(count, at)
        times.append(at)
    end = at + after
    expected = pushes[0][0] / 5.0 * math.exp(-(end - times[0]) / 5.0)
    for (count, _), before, then in zip(pushes[1:], times, times[1:], strict=False):
        expected += count / (then - before) * (math.exp(-(end - then) / 5.0) - math.exp(-(end - before) / 5.0))
    assert meter.rate(end) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("rows_a_push", [1, 10, 1000])
def test_a_steady_rate_does_not_depend_on_the_cut(rows_a_push: int) -> None:
    meter = RateMeter(5.0)
    for number in range(100_000 // rows_a_push):
        meter.note(rows_a_push, number * rows_a_push / 1000)
    assert meter.rate((100_000 - rows_a_push) / 1000) == pytest.approx(1000, rel=1e-3)


def test_lag_is_what_the_watermark_trails_and_age_what_the_clock_is_ahead() -> None:
    monitor = InputMonitor(wall=lambda: 1_000_000_010.0)
    of_today = 1_000_000_000 * SECOND
    stats = monitor.stats(of_today, of_today - 5 * SECOND)
    assert stats["lag"] == 5 and stats["age"] == 10
    assert monitor.stats(of_today - 86_400 * SECOND, None)["age"] is None  # data of another day says nothing of lag
    assert monitor.stats(None, None) == {"rate": 0.0, "sustainable_rate": None, "lag": None, "age": None}


def test_stats_say_what_comes_and_what_waits() -> None:
    engine = engine_of(STREAM.replace("x DOUBLE", "x DOUBLE, WATERMARK FOR ts AS ts - INTERVAL 3 SECONDS"), COUNTS)
    clock = engine.streams["t"].monitor.clock = Clock()
    for second in range(50):
        clock.now += 1
        engine.push("t", rows(second, second + 0.5))
    stats = engine.stats()["streams"]["t"]
    assert stats["rate"] == pytest.approx(2, rel=1e-3)
    assert stats["waiting_rows"] == 100 and stats["waiting_bytes"] > 0
    assert stats["lag"] == 3 and stats["age"] is None
    engine.push("t", row(51))  # a single row waits without a batch
    assert engine.stats()["streams"]["t"]["waiting_rows"] == 1
    assert engine.stats()["streams"]["t"]["waiting_rows"] == 0


def test_the_sustainable_rate_is_that_of_processing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(STREAM, COUNTS)
    stream = engine.streams["t"]
    clock = stream.monitor.clock = Clock()
    process = Stream._process

    def slowly(self: Stream, batch: pa.RecordBatch, last: bool) -> None:
        clock.now += batch.num_rows / 1000
        process(self, batch, last)

    monkeypatch.setattr(Stream, "_process", slowly)
    assert engine.stats()["streams"]["t"]["sustainable_rate"] is None
    for second in range(30):
        engine.push("t", rows(*[second] * (1 + second % 7)))
        engine.results("c")
        clock.now += 3  # nothing to do does not count
    assert engine.stats()["streams"]["t"]["sustainable_rate"] == pytest.approx(1000)


# -- queues ------------------------------------------------------------------------------------------------------


def total(engine: pw.Engine) -> tuple[int, int]:
    """Rows and their sum, in the last window."""
    engine.flush()
    (_, count, amount) = max(tuples(engine.results("l")), key=lambda result: result[1])
    return count, amount


def test_a_push_waits_while_the_queue_is_full_and_nothing_is_lost() -> None:
    engine = engine_of(QUEUED, LAST)
    entered: list[int] = []
    full = threading.Event()

    def pusher() -> None:
        for number in range(40):
            engine.push("t", rows(*[number] * 10, v=number))
            entered.append(number)
            if len(entered) == 10:
                full.set()

    thread = threading.Thread(target=pusher)
    with engine.turns:  # the engine is busy: nobody takes what waits
        thread.start()
        assert full.wait(PATIENCE_S)
        with pytest.raises(pw.OverloadError, match="'t' is overloaded: its queue has been full for"):
            threaded(lambda: engine.push("t", rows(39), timeout=0.01))
        assert len(entered) == 10
        assert engine.streams["t"].queue is not None and engine.streams["t"].queue.rows == 100
    thread.join(PATIENCE_S)
    assert entered == list(range(40))
    assert total(engine) == (400, 10 * sum(range(40)))
    stats = engine.stats()["streams"]["t"]
    assert stats["late_rows"] == 0 and stats["rows"] == 400
    assert stats["queue"]["rows_most"] <= 110 and stats["queue"]["capacity"] == 100
    assert stats["queue"]["blocked_seconds"] > 0


def threaded(call: Any) -> None:
    """Runs a call in a thread of its own, and raises what it raised."""
    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            call()
        except BaseException as problem:  # noqa: BLE001 - raised again below
            raised.append(problem)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join(PATIENCE_S)
    if raised:
        raise raised[0]


def test_a_fast_pusher_of_a_slow_engine_is_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Stream._process

    def slowly(self: Stream, batch: pa.RecordBatch, last: bool) -> None:
        """Slower than the pushers, however slow these are: it goes on when one of them waits, or all have ended."""
        assert self.queue is not None
        waiting = self.queue._changed._waiters  # type: ignore[attr-defined]
        until(lambda: waiting or not any(pusher.is_alive() for pusher in pushers))
        process(self, batch, last)

    monkeypatch.setattr(Stream, "_process", slowly)
    engine = engine_of(QUEUED.replace("100)", "500)"), LAST)
    pushers = [
        threading.Thread(
            target=lambda: [engine.push("t", rows(*[0] * 50, v=3)) for _ in range(50)],  # type: ignore[func-returns-value]
        )
        for _ in range(4)
    ]
    for pusher in pushers:
        pusher.start()
    for pusher in pushers:
        pusher.join(PATIENCE_S)
    queue = engine.stats()["streams"]["t"]["queue"]
    assert queue["blocked_seconds"] > 0 and queue["rows_most"] <= 550
    assert total(engine) == (10_000, 30_000)


def test_readers_see_every_row_that_was_pushed_before() -> None:
    engine = engine_of(QUEUED, COUNTS)
    for second in range(200):
        engine.push("t", rows(second))
        if second % 3 == 0:
            found = engine.lookup("c")
            assert tuples(found)[-1] == (second, min(second, 2)) if second else found.num_rows == 0
    engine.advance("t", 201 * SECOND)
    assert [count for _, count in tuples(engine.results("c"))] == [1, *[2] * 199, 1][:201]


def test_a_bad_row_is_told_to_its_own_pusher() -> None:
    engine = engine_of(QUEUED, LAST)
    engine.push("t", rows(1, v=5))
    with pytest.raises(pw.DataError, match="v = 'many' is not a BIGINT"):
        engine.push("t", [row(2), row(3) | {"v": "many"}])
    engine.execute("ALTER STREAM t SET (on_bad_row = 'skip')")
    engine.push("t", [row(2), row(3) | {"v": "many"}])
    assert total(engine) == (2, 6)
    stats = engine.stats()["streams"]["t"]
    assert stats["rows"] == 3 and stats["bad_rows"] == 1


def test_what_a_subscriber_raises_is_raised_by_a_later_push() -> None:
    engine = engine_of(QUEUED, COUNTS)

    def refuse(batch: pa.RecordBatch) -> None:
        raise ZeroDivisionError

    engine.subscribe("c", refuse)

    def push_on() -> None:
        for second in range(100_000):
            engine.push("t", rows(second))

    with pytest.raises(ZeroDivisionError):
        push_on()


def test_numbered_pushes_follow_what_waits() -> None:
    engine = engine_of(QUEUED, LAST)
    with engine.turns:
        threaded(lambda: engine.push("t", rows(1, v=10)))
        engine.push("t", rows(2, v=20), producer="p", sequence=1)
        engine.push("t", rows(2, v=20), producer="p", sequence=1)
    engine.push("t", rows(3, v=40))
    assert total(engine) == (3, 70)
    assert engine.stats()["streams"]["t"]["late_rows"] == 0


def queue_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "panewise queue of t"]


def test_the_thread_ends_with_its_stream_and_with_its_engine() -> None:
    before = set(queue_threads())
    engine = engine_of(QUEUED)
    (thread,) = set(queue_threads()) - before
    queue = engine.streams["t"].queue
    assert queue is not None
    engine.execute("DROP STREAM t")
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    with pytest.raises(pw.CatalogError, match="there is no stream 't' any more"):
        queue.put(rows(1))

    engine = engine_of(QUEUED, LAST)
    engine.push("t", rows(1))
    (thread,) = set(queue_threads()) - before
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    thread.join(PATIENCE_S)
    assert gone() is None and not thread.is_alive()


def test_alter_and_restore() -> None:
    engine = engine_of(QUEUED, LAST)
    engine.execute("ALTER STREAM t SET (queue = 5)")
    engine.push("t", rows(1, 2, 3))
    again = pw.Engine.restore(engine.snapshot())
    for each in (engine, again):
        each.push("t", rows(4))
        assert total(each) == (4, 4)
        assert each.stats()["streams"]["t"]["queue"]["capacity"] == 5


def test_a_stream_may_get_a_queue_later() -> None:
    engine = engine_of(STREAM, LAST)
    engine.push("t", rows(1))
    assert "queue" not in engine.stats()["streams"]["t"]
    engine.execute("ALTER STREAM t SET (queue = 5)")
    engine.push("t", rows(2))
    assert total(engine) == (2, 2)
    assert engine.stats()["streams"]["t"]["queue"]["rows_most"] == 1


@pytest.mark.parametrize("queue", ["0", "-1", "'many'", "1.5", "TRUE"])
def test_a_queue_holds_a_number_of_rows(queue: str) -> None:
    with pytest.raises(pw.BindError, match="'queue' takes a number of rows, at least 1"):
        pw.Engine().execute(f"CREATE STREAM s (ts TIMESTAMP) WITH (queue = {queue})")
