"""Threads that look up, ask and listen while others push: every answer is one whole state, and none is an old one."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panewise as pw
from bench.concurrent_readers import CONTINUOUS, PERIODIC, READERS, UNEVEN, Query, Session
from panewise.engine.reads import published_answers as published
from panewise.engine.reads.published_answers import watermark_us
from panewise.errors import CatalogError
from tests.engine.small_engine import COUNTS, SECOND, STREAM, SUMS, engine_of, row, rows, tuples
from tests.engine.test_turns import Worker, joined, started
from tests.waiting import PATIENCE_S, until


@pytest.mark.parametrize(
    ("queries", "rows_per_push"),
    [((PERIODIC, UNEVEN, CONTINUOUS), 65_536), ((PERIODIC, CONTINUOUS), 1024)],
    ids=["large pushes", "small pushes"],
)
def test_every_answer_is_that_of_its_watermark(
    queries: tuple[Query, ...], rows_per_push: int, soak: bool, figure: Callable[[str, object], None]
) -> None:
    seconds = 60.0 if soak else 1.5
    alone = Session(queries, rows_per_push).run(seconds / 3, 0)
    outcome = Session(queries, rows_per_push).run(seconds, READERS)
    assert outcome.wrong == [] == alone.wrong
    assert len({watermark for _, watermark in outcome.answers}) > 3, "the readers saw the window move"
    latencies = sorted(outcome.latencies_s)
    name = f"{READERS} readers, pushes of {rows_per_push}"
    figure(f"{name}: writer with readers / alone", f"{outcome.rows_per_s / alone.rows_per_s:.2f}")
    figure(f"{name}: lookups/s", f"{len(latencies) / outcome.seconds:.0f}")
    figure(f"{name}: lookup p50, p99", "{:.3f}, {:.1f} ms".format(*_quantiles(latencies)))


def test_a_wrong_or_old_answer_would_be_noticed() -> None:
    session = Session((PERIODIC, CONTINUOUS), 1024)
    session.run(0.05, 1)
    for query in session.queries:
        table = session.engine.lookup(query.name)
        watermark = watermark_us(table)
        assert watermark is not None
        assert query.agrees(table, watermark)
        assert not query.agrees(table, watermark - 100_000)
        assert not query.agrees(table.slice(1), watermark)


def _quantiles(latencies_s: list[float]) -> tuple[float, float]:
    return 1e3 * latencies_s[len(latencies_s) // 2], 1e3 * latencies_s[len(latencies_s) * 99 // 100]


# -- what a lookup sees ----------------------------------------------------------------------------------------------


def elsewhere(work: Callable[[], Any]) -> Any:
    """What a call returns, or raises, in another thread that ends before this goes on."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as problem:  # noqa: BLE001 - told to who asked
            found.append(problem)

    joined(started(run))
    return found[0]


def test_rows_of_a_thread_that_has_ended_are_seen() -> None:
    engine = engine_of(STREAM, SUMS)
    for second in range(20):
        elsewhere(lambda second=second: engine.push("t", row(second)))
        looked_up = engine.lookup("q")
        assert watermark_us(looked_up) == second * SECOND
        expected = [(float(second), "a", min(second, 2))] if second else []
        assert tuples(looked_up) == expected == tuples(elsewhere(lambda: engine.lookup("q")))


def discard(_: object) -> None:
    """Makes a call an action."""


class Held:
    """A writer that stops inside its push, when it has begun to process rows, until it is let go."""

    def __init__(self, engine: pw.Engine, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inside, self.leave = threading.Event(), threading.Event()
        target = engine.streams[stream]
        flow = target.flow

        def held(*arguments: Any, **named: Any) -> None:
            flow(*arguments, **named)  # the state has moved, and nothing of it is published
            self.inside.set()
            assert self.leave.wait(PATIENCE_S)

        monkeypatch.setattr(target, "flow", held)
        self._target, self._monkeypatch = target, monkeypatch

    def let_go(self, *threads: Worker) -> None:
        self._monkeypatch.undo()
        self.leave.set()
        joined(*threads)


def test_a_lookup_during_a_window_move_shows_the_state_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "STALE_S", PATIENCE_S)
    engine = engine_of(STREAM, SUMS, COUNTS)
    engine.push("t", rows(0, 1, 2))
    before = engine.lookup("q")
    assert tuples(before) == [(2.0, "a", 2)]
    held = Held(engine, "t", monkeypatch)
    writer = started(lambda: engine.advance("t", 4 * SECOND))
    assert held.inside.wait(PATIENCE_S)
    assert tuples(engine.lookup("q")) == [(2.0, "a", 2)], "committed, and whole"
    assert watermark_us(engine.lookup("q")) == 2 * SECOND
    assert tuples(engine.lookup("q", key="a")) == [(2.0, "a", 2)]
    held.let_go(writer)
    assert watermark_us(engine.lookup("q")) == 4 * SECOND
    assert tuples(engine.lookup("q")) == [(4.0, "a", 1)]


def test_who_only_reads_is_no_writer_so_that_others_wait_for_the_rows_it_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = engine_of(STREAM, SUMS, COUNTS)
    engine.push("t", rows(0, 1, 2))
    engine.lookup("q")
    engine.push("t", rows(3, 4))
    held = Held(engine, "t", monkeypatch)
    fetching = started(lambda: discard(engine.results("c")))
    assert held.inside.wait(PATIENCE_S)
    found: list[pa.Table] = []
    waiting = started(lambda: found.append(engine.lookup("q")))
    until(lambda: engine.turns._line)
    held.let_go(fetching, waiting)
    assert tuples(found[0]) == [(4.0, "a", 2)]


def test_an_answer_that_is_too_old_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", rows(0, 1, 2))
    engine.lookup("q")
    held = Held(engine, "t", monkeypatch)
    writer = started(lambda: engine.advance("t", 3 * SECOND))
    assert held.inside.wait(PATIENCE_S)
    time.sleep(2 * published.STALE_S)
    found: list[pa.Table] = []
    reader = started(lambda: found.append(engine.lookup("q")))
    until(lambda: engine.turns._line)
    held.let_go(writer, reader)
    assert tuples(found[0]) == [(3.0, "a", 2)]


def test_what_a_thread_has_pushed_itself_it_sees_although_another_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "STALE_S", PATIENCE_S)
    engine = engine_of(STREAM, SUMS, "CREATE STREAM other (ts TIMESTAMP, v BIGINT)")
    engine.lookup("q")
    engine.push("t", rows(0, 1, 2))
    held = Held(engine, "other", monkeypatch)
    writer = started(lambda: engine.advance("other", 1))
    assert held.inside.wait(PATIENCE_S)

    def let_go_who_is_waited_for() -> None:
        until(lambda: engine.turns._line)
        held.let_go(writer)

    assert elsewhere(lambda: engine.lookup("q")).num_rows == 0, "as committed"
    letting = started(let_go_who_is_waited_for)
    assert tuples(engine.lookup("q")) == [(2.0, "a", 2)]
    joined(letting)


def test_no_query_shows_an_older_state_than_another_has_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer gives way in the middle of its rows, somebody else processes the rest, and two queries are looked up."""
    monkeypatch.setattr(published, "STALE_S", PATIENCE_S)
    monkeypatch.setattr(published, "SHARE", 1e9)
    engine = engine_of(STREAM, SUMS, COUNTS)
    engine.push("t", rows(0, 1, 2))
    engine.lookup("q")
    elsewhere(lambda: engine.push("t", rows(3, 4, 5)))
    with engine.turns:
        assert engine.streams["t"].flush(1) == 1
        assert engine._answers.commit()
    engine.turns.writers.add(-1)
    assert watermark_us(engine.lookup("q")) == 3 * SECOND, "what the writer has published"
    engine.results("c")
    assert watermark_us(engine.lookup("c")) == 5 * SECOND
    assert watermark_us(engine.lookup("q")) == 5 * SECOND


def test_rows_that_complete_no_report_need_not_be_processed_for_a_lookup() -> None:
    engine = engine_of(STREAM, SUMS)
    engine.push("t", rows(0, 1, 2))
    assert tuples(elsewhere(lambda: engine.lookup("q"))) == [(2.0, "a", 2)]
    engine.push("t", rows(2.5, 2.9))
    assert tuples(elsewhere(lambda: engine.lookup("q"))) == [(2.0, "a", 2)]
    assert engine.streams["t"].waiting, "a reader does not cut the writer's batches into pieces"
    engine.push("t", rows(3.1))
    assert tuples(elsewhere(lambda: engine.lookup("q"))) == [(3.0, "a", 4)]
    assert not engine.streams["t"].waiting
    engine.advance("t", 6 * SECOND)
    assert elsewhere(lambda: engine.lookup("q")).num_rows == 0


@given(
    pushes=st.lists(st.lists(st.integers(0, 30), max_size=8), max_size=6),
    portions=st.lists(st.integers(1, 5), min_size=1, max_size=30),
    delay=st.integers(0, 4),
)
def test_answers_do_not_depend_on_portions(pushes: list[list[int]], portions: list[int], delay: int) -> None:
    stream = STREAM[:-1] + f", WATERMARK FOR ts AS ts - INTERVAL {delay} SECONDS)"
    continuous = "CREATE QUERY d AS SELECT k, SUM(v) AS s FROM t [RANGE 3 SECONDS] GROUP BY k"
    whole, cut = (engine_of(stream, SUMS, continuous) for _ in range(2))
    most = itertools.cycle(portions)
    for seconds in pushes:
        batch = [row(second, "ab"[second % 2], second) for second in seconds]
        for engine in (whole, cut):
            engine.push("t", batch)
        while cut.streams["t"].waiting:
            assert cut.streams["t"].flush(next(most)) > 0
        assert cut.lookup("q").equals(whole.lookup("q")), seconds
        assert cut.lookup("d").equals(whole.lookup("d")), seconds
    for name in ("q", "d"):
        assert cut.results(name).equals(whole.results(name))
    assert cut.stats()["streams"]["t"]["late_rows"] == whole.stats()["streams"]["t"]["late_rows"]


def test_a_dropped_query_is_gone_for_everybody_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "STALE_S", PATIENCE_S)
    engine = engine_of(STREAM, SUMS, COUNTS)
    engine.push("t", rows(0, 1, 2))
    engine.lookup("q")
    engine.execute("DROP QUERY q")
    assert isinstance(elsewhere(lambda: engine.lookup("q")), CatalogError)
    engine.execute(SUMS.replace("SUM", "MAX"))
    engine.push("t", rows(3, v=7))
    assert tuples(elsewhere(lambda: engine.lookup("q"))) == tuples(engine.lookup("q"))


def test_a_stream_with_a_queue_shows_what_was_pushed() -> None:
    engine = engine_of(STREAM + " WITH (queue = 1000)", SUMS)
    for second in range(30):
        engine.push("t", row(second))
        assert watermark_us(engine.lookup("q")) == second * SECOND
        assert watermark_us(elsewhere(lambda: engine.lookup("q"))) == second * SECOND


# -- everything else, from several threads ---------------------------------------------------------------------------


def test_each_result_is_handed_out_once() -> None:
    engine = engine_of(STREAM, SUMS)
    over, taken = threading.Event(), [list[float]() for _ in range(4)]

    def fetch(mine: list[float]) -> None:
        while not over.is_set():
            mine.extend(end for end, _, _ in tuples(engine.results("q")))

    threads = [started(lambda mine=mine: fetch(mine)) for mine in taken]
    for second in range(300):
        engine.push("t", row(second))
    over.set()
    joined(*threads)
    rest = [end for end, _, _ in tuples(engine.results("q"))]
    assert sorted([end for mine in taken for end in mine] + rest) == [float(end) for end in range(1, 300)]
    assert all(mine == sorted(mine) for mine in taken)


def test_one_time_queries_see_whole_windows() -> None:
    """The values of a window are its number: a mixture of two windows would show two of them."""
    values = "SELECT MIN(v) AS a, MAX(v) AS b, COUNT(*) AS n FROM t"
    engine = engine_of(STREAM, f"CREATE QUERY q AS {values} [RANGE 5 SECONDS SLIDE 1 SECOND]")
    over, wrong = threading.Event(), list[object]()

    def ask() -> None:
        last = -1
        while not over.is_set():
            ((low, high, count),) = tuples(engine.execute(f"{values} [RANGE 1 SECOND SLIDE 1 SECOND]"))
            if not (low == high >= last and count == 4):
                wrong.append((low, high, count, last))
            last = low
            engine.stats(), engine.explain("q"), engine.execute("SHOW QUERIES")

    engine.push("t", [row(part / 4, v=part // 4) for part in range(8)])
    threads = [started(ask) for _ in range(3)]
    for second in range(2, 150):
        engine.push("t", [row(second + part / 4, v=second) for part in range(4)])
    over.set()
    joined(*threads)
    assert wrong == []
    assert engine.stats()["streams"]["t"]["rows"] == 600


# -- subscribers -----------------------------------------------------------------------------------------------------


def test_a_subscriber_may_take_a_lock_that_others_hold_who_call_the_engine() -> None:
    engine = engine_of(STREAM, SUMS, "CREATE STREAM echo (ts TIMESTAMP, s BIGINT)")
    engine.execute("CREATE QUERY e AS SELECT s FROM echo [NOW]")
    mine, heard = threading.Lock(), list[float]()

    def hear(batch: pa.RecordBatch) -> None:
        with mine:
            for end, _, total in tuples(pa.Table.from_batches([batch])):
                heard.append(end)
                engine.push("echo", {"ts": int(end * SECOND), "s": total})
            engine.lookup("q")

    engine.subscribe("q", hear)
    over = threading.Event()

    def call() -> None:
        while not over.is_set():
            with mine:  # the other way round: first the lock, then the engine
                engine.lookup("q"), engine.results("e"), engine.stats()
            time.sleep(0.0005)  # Python's locks are not fair

    callers = [started(call) for _ in range(3)]

    def push() -> None:
        for second in range(200):
            engine.push("t", row(second))

    pusher = started(push)
    joined(pusher)
    over.set()
    joined(*callers)
    assert heard == [float(end) for end in range(1, 200)]
    assert engine.stats()["streams"]["echo"]["rows"] == 199


def test_a_subscriber_hears_results_in_order_whoever_pushes() -> None:
    engine = engine_of(STREAM, SUMS)
    heard: list[float] = []

    def hear(batch: pa.RecordBatch) -> None:
        heard.extend(end for end, _, _ in tuples(pa.Table.from_batches([batch])))
        if heard[-1] == 1.0:
            engine.push("t", row(3))  # completes the next reports while this one is being told
            assert heard == [1.0], "which come when this call has ended"

    engine.subscribe("q", hear)
    engine.push("t", row(0))
    engine.push("t", row(1))
    assert heard == [1.0, 2.0, 3.0]

    order = threading.Lock()
    seconds = iter(range(4, 300))

    def push() -> None:
        while True:
            with order:
                second = next(seconds, None)
                if second is None:
                    return
                engine.push("t", row(second))

    joined(*[started(push) for _ in range(4)])
    until(lambda: len(heard) >= 299)  # the last results may be told by a thread that pushed before
    assert heard == [float(end) for end in range(1, 300)]
