"""A row far ahead of the wall clock is bad: it would make every real row after it late."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import panewise as pw
from panewise.engine.ingest.window_limit import Extent, WindowLimit
from panewise.errors import BindError, DataError
from panewise.temporal import DAY, HOUR, MINUTE, SECOND, instant_us

NOW = instant_us("2126-01-05 12:00:00")  # Later than the clock of whoever runs this: that never goes back.
COUNT = "CREATE QUERY q AS SELECT COUNT(*) AS n FROM t [RANGE 1 HOUR SLIDE 1 HOUR]"


def stream(options: str = "") -> str:
    return f"CREATE STREAM t (ts TIMESTAMP, v BIGINT) {f'WITH ({options})' if options else ''}"


class Clock:
    """Of a stream, in place of the wall clock."""

    def __init__(self, engine: pw.Engine, now: int = NOW) -> None:
        self.now = now
        engine.stream("t").monitor.wall = lambda: self.now / 1e6


def engine_of(options: str = "", path: Path | None = None) -> tuple[pw.Engine, Clock]:
    engine = pw.Engine(path)
    engine.execute(stream(options))
    engine.execute(COUNT)
    return engine, Clock(engine)


def row(time: int) -> dict[str, int]:
    return {"ts": time, "v": 1}


def batch(*times: int) -> pa.RecordBatch:
    return pa.record_batch({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), "v": pa.array([1] * len(times))})


@pytest.mark.parametrize("ahead", [DAY + SECOND, 100 * DAY, instant_us("9999-12-31 00:00:00") - NOW])
@pytest.mark.parametrize("as_batch", [True, False])
def test_a_row_far_ahead_is_refused_and_the_others_stay_in_time(ahead: int, as_batch: bool) -> None:
    engine, _ = engine_of()
    engine.push("t", row(NOW - MINUTE))
    far = batch(NOW, NOW + ahead) if as_batch else row(NOW + ahead)
    with pytest.raises(DataError, match="more than 1 DAY ahead of the clock, which shows 2126-01-05 12:00:00") as told:
        engine.push("t", far)
    assert "ahead = 'off' takes rows of any time" in str(told.value)
    assert "nothing of this push was taken" in str(told.value)
    engine.push("t", [row(NOW - MINUTE // 2), row(NOW)])
    figures = engine.stats()["streams"]["t"]
    assert (figures["late_rows"], figures["rows"]) == (0, 3)


def test_with_skip_it_is_set_aside_with_its_reason() -> None:
    engine, _ = engine_of("on_bad_row = 'skip'")
    engine.push("t", batch(NOW - MINUTE, NOW + 2 * DAY, NOW))
    engine.push("t", row(NOW + 3 * DAY))
    figures = engine.stats()["streams"]["t"]
    assert (figures["late_rows"], figures["bad_rows"], figures["rows"]) == (0, 2, 4)
    reasons = engine.bad_rows("t").column("reason").to_pylist()
    assert reasons[0].startswith("its timestamp 2126-01-07 12:00:00 is more than 1 DAY ahead of the clock")


@pytest.mark.parametrize("as_batch", [True, False])
def test_the_clock_moves_the_limit(as_batch: bool) -> None:
    engine, clock = engine_of("ahead = '1 hour'")
    made = (lambda time: batch(time)) if as_batch else row
    engine.push("t", made(NOW))
    engine.push("t", made(NOW + HOUR))
    with pytest.raises(DataError, match="more than 1 HOUR ahead"):
        engine.push("t", made(NOW + HOUR + 1))
    clock.now += SECOND
    engine.push("t", made(NOW + HOUR + 1))
    clock.now -= HOUR  # set back: what was admitted once stays admitted
    engine.push("t", made(NOW + HOUR + SECOND))


def test_old_data_sparse_data_and_the_first_row_are_taken() -> None:
    engine, _ = engine_of()
    engine.push("t", batch(*(instant_us("2019-03-01 00:00:00") + days * DAY for days in (0, 3, 4, 40, 41))))
    engine.push("t", row(NOW))
    assert engine.stats()["streams"]["t"]["late_rows"] == 0
    first, _ = engine_of()
    first.push("t", row(NOW + DAY))
    assert first.stats()["streams"]["t"]["rows"] == 1


def test_off_takes_rows_of_any_time_and_alter_changes_it() -> None:
    engine, _ = engine_of("ahead = 'off'")
    engine.push("t", row(NOW + 50 * DAY))
    engine.execute("ALTER STREAM t SET (ahead = '2 days')")
    with pytest.raises(DataError, match="more than 2 DAYS ahead"):
        engine.push("t", row(NOW + 51 * DAY))
    engine.execute("ALTER STREAM t SET (ahead = 'off')")
    engine.push("t", row(NOW + 51 * DAY))
    assert engine.stats()["streams"]["t"]["rows"] == 2


@pytest.mark.parametrize("value", ["'soon'", "''", "1", "TRUE", "'-1 hour'"])
def test_other_values_are_refused(value: str) -> None:
    with pytest.raises(BindError):
        pw.Engine().execute(stream(f"ahead = {value}"))


def test_what_the_clock_decided_is_logged(tmp_path: Path) -> None:
    """The log is read at another time, and the rows that were set aside then still are; those that were taken too."""
    engine, clock = engine_of("on_bad_row = 'skip'", tmp_path)
    engine.push("t", batch(NOW, NOW + 2 * DAY, NOW + DAY))
    engine.push("t", row(NOW + 3 * DAY))
    clock.now += 3 * DAY
    engine.push("t", row(NOW + 3 * DAY))
    kept = ("rows", "late_rows", "bad_rows", "watermark")
    before, results = engine.stats()["streams"]["t"], engine.results("q").to_pylist()
    engine.close(snapshot=False)
    again = pw.Engine(tmp_path)
    assert {name: again.stats()["streams"]["t"][name] for name in kept} == {name: before[name] for name in kept}
    assert again.bad_rows("t").num_rows == 2
    assert again.results("q").num_rows == 0, "they were read"
    assert results
    again.close()


def test_rows_one_by_one_through_a_queue() -> None:
    engine, clock = engine_of("queue = 100, ahead = '1 hour'")
    engine.push("t", row(NOW))
    with pytest.raises(DataError, match="more than 1 HOUR ahead"):
        engine.push("t", row(NOW + 2 * HOUR))
    engine.push("t", row(NOW + HOUR))
    clock.now -= DAY
    assert engine.stats()["streams"]["t"]["rows"] == 2


def test_the_limit_is_part_of_what_a_row_may_be() -> None:
    limit = WindowLimit(0, now=NOW, ahead=HOUR)
    assert limit.rows_until(Extent(NOW, NOW)) == NOW + HOUR
    assert WindowLimit(0).horizon == 2**63 - 1
    assert limit.judge(np.array([NOW]), Extent()) == (None, Extent(NOW, NOW))


def test_a_generator_of_the_future_says_what_to_write() -> None:
    engine = pw.Engine()
    engine.execute(stream())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=r"ahead = 'off'"):
            engine.push("t", batch(*(instant_us("2999-01-01 00:00:00") + second * SECOND for second in range(10))))


def test_a_punctuation_far_ahead_is_refused_and_a_replay_does_not_ask_the_clock(tmp_path: Path) -> None:
    engine, clock = engine_of(path=tmp_path)
    engine.push("t", row(NOW - MINUTE))
    with pytest.raises(DataError, match="to 2126-01-06 12:00:01, more than 1 DAY ahead of the clock") as told:
        engine.advance("t", NOW + DAY + SECOND)
    assert "ahead = 'off'" in str(told.value)
    engine.push("t", row(NOW))
    assert engine.stats()["streams"]["t"]["late_rows"] == 0
    engine.advance("t", NOW + DAY)
    watermark = engine.stats()["streams"]["t"]["watermark"]
    engine.close(snapshot=False)
    with pw.Engine(tmp_path) as again:  # Its clock shows a time long before that.
        assert again.stats()["streams"]["t"]["watermark"] == watermark
        with pytest.raises(DataError, match="ahead of the clock"):
            again.advance("t", NOW + 100_000 * DAY)
        again.flush()
        again.execute("ALTER STREAM t SET (ahead = 'off')")
        again.advance("t", NOW + 10_000 * DAY)
    assert clock.now == NOW
