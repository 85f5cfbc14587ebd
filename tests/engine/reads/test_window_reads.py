"""One-time queries as transactions over sub-windows: right at the watermark that they report, at their level."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.engine.reads.published_answers import watermark_us
from panewise.engine.reads.read_isolation import LEVELS
from panewise.errors import BindError, NotHeldError, PanewiseError, PlanError
from panewise.operators.row_batch import concatenated
from panewise.schedule.isolation.levels import Level, has_level, isolation
from panewise.schedule.isolation.scheduler_names import SCHEDULERS
from panewise.schema import BIGINT
from tests.engine.channels.test_turns import joined, started
from tests.engine.hosting.frail_aggregate import register
from tests.engine.small_engine import SECOND, row, rows, tuples
from tests.now_or_soak import examples
from tests.waiting import PATIENCE_S

DELAY = 3  # seconds
STREAM = f"""CREATE STREAM t (ts TIMESTAMP, k STRING, v BIGINT, x DOUBLE,
    WATERMARK FOR ts AS ts - INTERVAL {DELAY} SECONDS) WITH (retain = '1 hour')"""
GROUPED = "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t [RANGE 10 SECONDS] GROUP BY k"
NAMES = st.sampled_from(sorted(LEVELS))


def small_steps(level: str = "latest", *statements: str, step: int = 3, inside: int = 4) -> pw.Engine:
    """An engine that reads the few rows of a test in many steps, and writes down what its schedulers decide."""
    engine = pw.Engine(isolation=level)
    engine.reads.isolation.sub_window_rows, engine.reads.isolation.rows_inside, engine.reads.isolation.recorded = (
        step,
        inside,
        [],
    )
    engine.reads.isolation.look_every_s = 0.0
    engine.reads.isolation.inside_s = PATIENCE_S  # a busy machine takes its time
    for statement in statements or (STREAM,):
        engine.execute(statement)
    return engine


def interrupted_by(engine: pw.Engine, moves: Iterator[Callable[[], object]]) -> None:
    """Between any two steps of a read the next one of these happens."""

    def move() -> None:
        engine.reads.isolation.between_steps = None  # what happens may read, too
        next(moves, lambda: None)()
        engine.reads.isolation.between_steps = move

    engine.reads.isolation.between_steps = move


def levels_of(engine: pw.Engine) -> set[Level]:
    assert engine.reads.isolation.recorded
    return {isolation(recorded.history()).level for recorded in engine.reads.isolation.recorded}


def is_kept(engine: pw.Engine) -> bool:
    """Whether what was done has the level that the engine promises."""
    promised = SCHEDULERS[LEVELS[engine.reads.isolation.level]].promises
    assert engine.reads.isolation.recorded is not None
    return all(has_level(recorded.history(), promised) for recorded in engine.reads.isolation.recorded)


class Model:
    """The rows that a stream has taken, for answers that are computed from all of them."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, str | None, int | None]] = []
        self.watermark: int | None = None

    def push(self, engine: pw.Engine, seconds: list[float], k: str | None = "a") -> None:
        engine.push("t", [row(second, k, int(second * 7)) for second in seconds])
        for second in seconds:
            time = int(second * SECOND)
            if self.watermark is None or time >= self.watermark:
                self.rows.append((time, k, int(second * 7)))
                self._come_to(time - DELAY * SECOND)

    def advance(self, engine: pw.Engine, second: float) -> None:
        engine.advance("t", int(second * SECOND))
        self._come_to(int(second * SECOND))

    def _come_to(self, watermark: int) -> None:
        self.watermark = watermark if self.watermark is None else max(self.watermark, watermark)

    def grouped(self, watermark: int, range_s: int = 10) -> Counter[tuple[str | None, int, int]]:
        """What GROUPED answers at a watermark."""
        groups: dict[str | None, list[int]] = {}
        for time, k, v in self.rows:
            if watermark - range_s * SECOND <= time < watermark:
                groups.setdefault(k, []).append(v or 0)
        return Counter((k, sum(values), len(values)) for k, values in groups.items())


# -- in parts, the same as at once -----------------------------------------------------------------------------------

SELECTS = [
    "SELECT ts, k, v FROM t {window}",
    "SELECT k, v * 2 AS w FROM t {window} WHERE v > 3",
    "SELECT COUNT(*) AS n FROM t {window}",
    "SELECT SUM(v) AS s, MIN(x) AS a, MAX(k) AS b, AVG(x) AS m FROM t {window} WHERE k <> 'b'",
    "SELECT k, SUM(v) AS s, SUM(x) AS y, STDDEV(x) AS d FROM t {window} GROUP BY k",
    "SELECT k, v, COUNT(*) AS n, MIN(k) AS a FROM t {window} GROUP BY k, v HAVING COUNT(*) > 1",
    "SELECT k, FIRST(v) AS f, LAST(x) AS l, ARG_MAX(k, v) AS b FROM t {window} GROUP BY k",
    "SELECT k, COUNT(DISTINCT v) AS n, MEDIAN(x) AS m FROM t {window} GROUP BY k",
    "SELECT DISTINCT k FROM t {window}",
    "SELECT a.k, b.v FROM t {window} AS a, t {window} AS b WHERE a.v = b.v AND a.k = b.k",
]
WINDOWS = [
    "[RANGE 10 SECONDS]",
    "[RANGE 7 SECONDS SLIDE 2 SECONDS]",
    "[RANGE 5 SECONDS OFFSET 4 SECONDS]",
    "[UNBOUNDED]",
    "[NOW]",
    "[ROWS 6]",
    "[PARTITION BY k ROWS 2]",
]
A_ROW = st.tuples(
    st.integers(0, 40), st.sampled_from(["a", "b", None]), st.none() | st.integers(0, 9), st.none() | st.floats(-9, 9)
)


@examples(15, soak=30)
@given(
    st.lists(st.lists(A_ROW, max_size=12), max_size=6),
    st.sampled_from(WINDOWS),
    NAMES,
    st.integers(1, 5),
    st.integers(0, 6),
    st.booleans(),
    st.sets(st.sampled_from(SELECTS), min_size=2, max_size=3),
)
def test_in_parts_the_answer_is_that_of_all_rows_at_once(
    pushes: list[list[Any]], window: str, level: str, step: int, inside: int, in_order: bool, chosen: set[str]
) -> None:
    engine = small_steps(level, STREAM, step=step, inside=inside)
    for push in pushes:
        push = sorted(push, key=lambda drawn: drawn[0]) if in_order else push
        engine.push("t", [row(time / 2, k, v, x) for time, k, v, x in push])
    for select in chosen:
        text = select.format(window=window)
        engine.reads.isolation.rows_inside = inside
        found = engine.execute(text)
        engine.reads.isolation.rows_inside = 1 << 40
        expected = engine.execute(text)
        assert found.schema.equals(expected.schema, check_metadata=True)
        for name in found.column_names:
            both = zip(found[name].to_pylist(), expected[name].to_pylist(), strict=True)
            assert all(a == b or a == pytest.approx(b, rel=1e-12, abs=1e-9) for a, b in both), text
    assert is_kept(engine)


def test_an_aggregate_of_ones_own_is_combined_in_order_of_time() -> None:
    engine = small_steps()
    engine.register_aggregate(
        "digits", lift=lambda v: (v, 10), combine=lambda a, b: (a[0] * b[1] + b[0], a[1] * b[1]),
        lower=lambda a: a[0], identity=(0, 1), returns=BIGINT,
    )  # fmt: skip
    engine.push("t", [row(second, v=second) for second in (1, 3, 2, 5, 4, 6, 8, 7, 9, 12)])
    assert tuples(engine.execute("SELECT DIGITS(v) AS d FROM t [UNBOUNDED]")) == [(12345678,)]


def test_strings_of_pushes_may_be_encoded_differently() -> None:
    engine = small_steps()
    times = pa.array([0, SECOND], pa.timestamp("us", tz="UTC"))
    words = pa.array(["a", "b"])
    for k in (words.dictionary_encode(), words):
        engine.push("t", pa.record_batch({"ts": times, "k": k, "v": pa.array([1, 2]), "x": pa.array([0.0, 0.0])}))
    engine.advance("t", 5 * SECOND)
    assert tuples(engine.execute(GROUPED)) == [("a", 2, 2), ("b", 4, 2)]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3)), min_size=60, max_size=200))
@settings(max_examples=10, deadline=None)
def test_small_pieces_are_put_together_and_found_by_arrival(pushes: list[tuple[int, int]]) -> None:
    engine, second = small_steps(), 0.0
    stream = engine.streams["t"]
    for count, step in pushes:
        engine.push("t", rows(*[second - DELAY * (i % 2) for i in range(count)]))
        engine.flush([])
        second += step
    pieces = stream.retained_pieces()
    assert len(pieces) <= 64 + stream.rows_seen // 1024
    arrivals = [int(number) for piece in pieces for number in piece.arrivals]
    assert arrivals == sorted(set(arrivals))
    assert len(arrivals) == stream.rows_seen
    for after in (-1, arrivals[0], arrivals[len(arrivals) // 2], arrivals[-1]):
        found = [int(number) for piece in stream.retained_pieces(after) for number in piece.arrivals]
        assert found == [number for number in arrivals if number > after]
    assert concatenated(pieces).batch.equals(stream.retained().batch)


# -- moves between steps ---------------------------------------------------------------------------------------------

A_MOVE = st.one_of(
    st.tuples(st.just("push"), st.lists(st.integers(-12, 8), min_size=1, max_size=5)),
    st.tuples(st.just("advance"), st.integers(1, 8)),
    st.just(("nothing", 0)),
)


@examples(30, soak=60)
@given(
    NAMES,
    st.lists(st.integers(0, 40), min_size=1, max_size=40),
    st.lists(A_MOVE, max_size=12),
    st.integers(1, 4),
    st.integers(0, 8),
    st.integers(1, 4),
)
def test_every_answer_is_right_at_the_watermark_that_it_reports(
    level: str, first: list[int], moves: list[Any], step: int, inside: int, tries: int
) -> None:
    engine, model = small_steps(level, step=step, inside=inside), Model()
    engine.reads.isolation.tries = tries
    for at in range(0, len(first), 6):
        model.push(engine, [second / 2 for second in sorted(first)[at : at + 6]], "ab"[at % 4 // 2])

    def happen(kind: str, what: Any) -> None:
        come_to = (model.watermark or 0) / SECOND + DELAY
        if kind == "push":
            model.push(engine, [max(come_to + part / 4, 0) for part in what], "c")
            engine.flush([])  # processed: it is a move only then
        elif kind == "advance":
            model.advance(engine, come_to - DELAY + what / 4)

    begun = model.watermark
    interrupted_by(engine, iter([lambda move=move: happen(*move) for move in moves]))
    answer = engine.execute(GROUPED)
    engine.reads.isolation.between_steps = None
    reported = watermark_us(answer)
    assert reported is not None
    assert Counter(tuples(answer)) == model.grouped(reported)
    assert reported == (model.watermark if engine.reads.isolation.latest else begun)
    assert is_kept(engine)
    counts = engine.stats()["reads"]
    assert (counts["begun"], counts["committed"]) == (1, 1)


def read_while_moving(level: str) -> tuple[pw.Engine, pa.Table, list[int]]:
    """A window of sixty rows, one a second, in steps of three; after every third step it moves by a second.

    The watermarks are those at the begin of the read and in the end.
    """
    engine, model = small_steps(level), Model()
    model.push(engine, list(range(80)))
    engine.flush([])
    seconds, come_to = iter(range(80, 100)), [model.watermark or 0]

    def push() -> None:
        model.push(engine, [next(seconds)])
        engine.flush([])

    interrupted_by(engine, iter([lambda: None, lambda: None, push] * 20))
    answer = engine.execute(GROUPED.replace("10", "60"))
    reported = watermark_us(answer)
    assert reported is not None
    assert Counter(tuples(answer)) == model.grouped(reported, 60)
    return engine, answer, [*come_to, model.watermark or 0]


def test_the_default_is_latest_window_serializable_and_does_not_abort() -> None:
    engine, answer, (begin, end) = read_while_moving("latest")
    assert engine.reads.isolation.level == pw.Engine().reads.isolation.level
    assert watermark_us(answer) == end > begin
    assert levels_of(engine) == {Level.LATEST_WINDOW}
    assert engine.stats()["reads"] == {
        "isolation": "latest", "begun": 1, "committed": 1, "aborted": 0, "inside_the_turn": 0,
    }  # fmt: skip


def test_in_the_order_of_sub_windows_reads_are_aborted_and_begin_again() -> None:
    engine, answer, (begin, end) = read_while_moving("latest-in-order")
    assert watermark_us(answer) == end > begin
    assert engine.stats()["reads"]["aborted"] > 0
    assert is_kept(engine)


def test_a_read_of_the_window_as_of_its_begin_takes_no_notice_of_moves() -> None:
    engine, answer, (begin, end) = read_while_moving("window")
    assert watermark_us(answer) == begin < end
    assert levels_of(engine) == {Level.WINDOW}
    assert engine.stats()["reads"]["aborted"] == 0


def test_serial_reads_let_nothing_in() -> None:
    engine, answer, (begin, end) = read_while_moving("serial")
    assert watermark_us(answer) == begin == end, "nothing has moved between its steps"
    assert levels_of(engine) == {Level.SERIAL}
    assert engine.stats()["reads"]["inside_the_turn"] == 1


def test_a_read_that_finds_no_end_ends_inside_the_turn() -> None:
    engine, model = small_steps(), Model()
    engine.reads.isolation.rows_inside, engine.reads.isolation.tries = 0, 3
    model.push(engine, list(range(40)))
    seconds = iter(range(40, 1000))

    def push() -> None:
        model.push(engine, [next(seconds)])
        engine.flush([])

    interrupted_by(engine, iter([push] * 900))
    answer = engine.execute(GROUPED.replace("10", "1000"))
    assert Counter(tuples(answer)) == model.grouped(watermark_us(answer) or 0, 1000)
    assert engine.stats()["reads"]["inside_the_turn"] == 1
    assert is_kept(engine)


def test_windows_that_jump_past_everything() -> None:
    engine, model = small_steps(), Model()
    model.push(engine, list(range(30)))
    interrupted_by(engine, iter([lambda: model.push(engine, [500]), lambda: model.advance(engine, 504)]))
    answer = engine.execute(GROUPED)
    assert tuples(answer) == [("a", 3500, 1)]
    assert watermark_us(answer) == 504 * SECOND


def test_a_window_with_slide_stays_until_its_next_report() -> None:
    engine = small_steps()
    engine.push("t", rows(*range(30)))
    interrupted_by(engine, iter([lambda: engine.advance("t", 28 * SECOND), lambda: engine.advance("t", 29 * SECOND)]))
    answer = engine.execute("SELECT COUNT(*) AS n, MAX(ts) AS last FROM t [RANGE 20 SECONDS SLIDE 10 SECONDS]")
    assert tuples(answer) == [(20, 19.0)]
    assert watermark_us(answer) == 29 * SECOND
    assert levels_of(engine) == {Level.SERIAL}, "nothing that it reads has moved"


# -- several inputs, windows of rows ---------------------------------------------------------------------------------

PAIRS = "SELECT COUNT(*) AS n FROM t [RANGE 10 SECONDS] AS a, t [RANGE 10 SECONDS] AS b WHERE a.v = b.v"


@pytest.mark.parametrize(
    ("level", "moves", "aborted", "inside"),
    [("latest", 1, 1, 0), ("latest", 9, 3, 1), ("window", 9, 0, 0), ("serial", 9, 0, 1)],
)
@pytest.mark.parametrize("select", [PAIRS, "SELECT COUNT(*) AS n FROM t [ROWS 5]"])
def test_what_has_no_parts_is_read_as_a_whole(level: str, moves: int, aborted: int, inside: int, select: str) -> None:
    engine = small_steps(level)
    engine.push("t", rows(*range(20)))
    seconds = iter(range(20, 40))

    def push() -> None:
        engine.push("t", rows(next(seconds)))
        engine.flush([])

    interrupted_by(engine, iter([push] * moves))
    answer = engine.execute(select)
    assert tuples(answer) == [(100 if select == PAIRS else 5,)]
    counts = engine.stats()["reads"]
    assert (counts["aborted"], counts["inside_the_turn"], counts["committed"]) == (aborted, inside, 1)
    come_to = {"latest": 20 + min(moves, 3) - 1, "window": 19, "serial": 19}[level] - DELAY
    assert watermark_us(answer) == come_to * SECOND
    assert not engine.reads.isolation.recorded or is_kept(engine)


def test_a_join_is_right_at_the_watermark_of_the_slower_stream() -> None:
    other = "CREATE STREAM u (ts TIMESTAMP, v BIGINT) WITH (retain = '1 hour')"
    engine = small_steps("latest", STREAM, other)
    engine.push("t", [row(second, v=second) for second in range(20)])
    engine.push("u", [{"ts": second * SECOND, "v": second} for second in range(12)])
    # Only the slower one decides how far the answer has come: the faster may go on.
    interrupted_by(engine, iter([lambda: engine.push("t", [row(25, v=25)]), lambda: engine.flush([])]))
    answer = engine.execute("SELECT a.v FROM t [RANGE 5 SECONDS] AS a, u [RANGE 5 SECONDS] AS b WHERE a.v = b.v")
    assert sorted(tuples(answer)) == [(v,) for v in range(6, 11)]
    assert watermark_us(answer) == 11 * SECOND
    assert engine.stats()["reads"]["aborted"] == 0


# -- what else may happen meanwhile ------------------------------------------------------------------------------------


def test_a_level_that_does_not_exist_is_refused_in_words() -> None:
    with pytest.raises(PlanError, match="there is no isolation 'latst'") as caught:
        pw.Engine(isolation="latst")
    assert "latest" in str(caught.value)


def test_the_stream_may_be_dropped_meanwhile() -> None:
    for level, gone in (("latest", True), ("window", False)):
        engine = small_steps(level)
        engine.push("t", rows(*range(30)))
        interrupted_by(engine, iter([lambda engine=engine: engine.execute("DROP STREAM t")]))
        if gone:
            with pytest.raises(BindError, match="there is no stream"):
                engine.execute(GROUPED)
        else:
            assert tuples(engine.execute(GROUPED)) == [("a", 10, 10)]


def test_another_stream_may_have_taken_its_name_meanwhile() -> None:
    for select in (GROUPED, "SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t [ROWS 10] GROUP BY k"):
        engine = small_steps()
        engine.push("t", rows(*range(30)))

        def replace(engine: pw.Engine = engine) -> None:
            engine.execute("DROP STREAM t")
            engine.execute(STREAM)
            engine.push("t", rows(0, 1, 2, 9, k="z"))

        interrupted_by(engine, iter([replace]))
        assert tuples(engine.execute(select)) == [("z", 3, 3)]


def test_less_may_be_retained_meanwhile() -> None:
    for level, held in (("latest", False), ("window", True)):
        engine = small_steps(level)
        engine.push("t", rows(*range(30)))
        engine.flush([])

        def alter(engine: pw.Engine = engine) -> None:
            engine.execute("ALTER STREAM t SET (retain = '1 second')")
            engine.push("t", rows(31, 32, 33))
            engine.advance("t", 40 * SECOND)

        interrupted_by(engine, iter([alter]))
        if held:
            assert tuples(engine.execute(GROUPED)) == [("a", 10, 10)]
        else:
            with pytest.raises(NotHeldError, match="reaches further back"):
                engine.execute(GROUPED)


def test_what_is_not_held_is_refused_at_once() -> None:
    engine = small_steps("latest", STREAM.replace("1 hour", "5 seconds"))
    for first in (0, 10, 30):
        engine.push("t", rows(*range(first, 2 * first + 10)))
        engine.flush([])
    with pytest.raises(NotHeldError, match="reaches further back") as caught:
        engine.execute(GROUPED.replace("10", "50"))
    assert "ALTER STREAM" in str(caught.value)


def test_a_failure_outside_the_turn_says_where_in_the_text() -> None:
    engine = register(small_steps())
    engine.push("t", rows(*range(30), v=1 << 62))
    told = []
    for inside in (4, 1 << 40):
        engine.reads.isolation.rows_inside = inside
        with pytest.raises(PanewiseError) as caught:
            engine.execute(GROUPED.replace("SUM", "FRAIL"))
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_snapshots_and_close_meanwhile(tmp_path: Any) -> None:
    with pw.Engine(tmp_path, isolation="latest") as engine:
        engine.reads.isolation.sub_window_rows, engine.reads.isolation.rows_inside = 3, 4
        engine.execute(STREAM)
        engine.push("t", rows(*range(30)))
        copies: list[bytes] = []
        happened = [engine.checkpoint, lambda: copies.append(engine.snapshot()), lambda: engine.push("t", rows(30))]
        interrupted_by(engine, iter([*happened, engine.checkpoint, engine.close]))
        assert tuples(engine.execute(GROUPED)) == [("a", 10, 10)]
        engine.reads.isolation.between_steps = None
        again = pw.Engine.restore(copies[0])
        assert tuples(again.execute(GROUPED)) == [("a", 10, 10)]
    with pw.Engine(tmp_path) as reopened:
        assert tuples(reopened.execute(GROUPED)) == [("a", 10, 10)]
        assert reopened.stats()["streams"]["t"]["rows"] == 31


def test_a_subscriber_may_select_and_so_may_who_is_inside() -> None:
    engine = small_steps("latest", STREAM)
    engine.execute("CREATE QUERY q AS SELECT SUM(v) AS s FROM t [RANGE 1 SECOND SLIDE 1 SECOND]")
    heard: list[Any] = []
    engine.subscribe("q", lambda batch: heard.append(tuples(engine.execute(GROUPED))))
    for second in range(30):
        engine.push("t", rows(second))
    assert heard[-1] == [("a", 10, 10)]
    inside: list[Any] = []
    engine.hand_over("q", lambda table, first: inside.append(tuples(engine.execute(GROUPED))))
    assert inside == [[("a", 10, 10)]]
    both = engine.execute(f"SHOW STREAMS; {GROUPED}")
    assert tuples(both) == [("a", 10, 10)]


def test_a_read_within_a_read() -> None:
    engine = small_steps()
    engine.push("t", rows(*range(30)))
    found: list[Any] = []
    interrupted_by(engine, iter([lambda: found.append(tuples(engine.execute(GROUPED)))]))
    assert tuples(engine.execute(GROUPED)) == [("a", 10, 10)]
    assert found == [[("a", 10, 10)]]


def test_answers_from_elsewhere_report_their_watermark_too() -> None:
    engine = small_steps("latest", STREAM, "CREATE TABLE names (k STRING PRIMARY KEY, whole STRING)")
    shared = "SELECT k, SUM(v) AS s FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k"
    engine.execute(f"CREATE QUERY q AS {shared}")
    assert watermark_us(engine.execute(GROUPED)) is None
    engine.push("t", rows(*range(8)))
    come_to = (7 - DELAY) * SECOND
    assert watermark_us(engine.execute("SELECT s FROM q")) == come_to
    assert watermark_us(engine.execute(shared)) == come_to
    assert watermark_us(engine.execute("SELECT k FROM names")) is None


# -- real threads ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_threads_read_what_was_there_at_the_watermark_they_report(level: str) -> None:
    engine, model = small_steps(level, step=40, inside=60), Model()
    over, found = threading.Event(), list[tuple[int, int, pa.Table]]()
    chance = random.Random(7)
    model.push(engine, [part / 4 for part in range(800)])
    shown = [model.watermark or 0]

    def read() -> None:
        for _ in range(20):
            if over.is_set():
                break
            before = shown[0]
            answer = engine.execute(GROUPED.replace("10", "150"))
            found.append((before, watermark_us(answer) or 0, answer))

    readers = [started(read) for _ in range(3)]
    second = 200.0
    for _ in range(50):
        batch = [second + chance.uniform(0, DELAY) for _ in range(chance.randint(1, 30))]
        model.push(engine, batch, chance.choice("abc"))
        second += chance.uniform(0, 1.5)
        shown[0] = watermark_us(engine.execute("SELECT COUNT(*) AS n FROM t [NOW]")) or 0
    over.set()
    joined(*readers)
    assert found
    for before, reported, answer in found:
        assert reported >= before
        assert Counter(tuples(answer)) == model.grouped(reported, 150)
    assert is_kept(engine)


@pytest.mark.parametrize("level", ["latest", "window"])
def test_a_push_goes_through_while_a_select_reads_millions_of_rows(level: str) -> None:
    count = 5_000_000
    engine = pw.Engine(isolation=level)
    engine.execute("CREATE STREAM t (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (retain = '1 hour')")
    numbers = np.arange(count, dtype=np.int64)
    times = pa.array(numbers * 100).view(pa.timestamp("us", tz="UTC"))
    engine.push("t", pa.record_batch({"ts": times, "k": pa.array(numbers % 10), "v": pa.array(numbers % 7)}))
    begun, pushed = threading.Event(), threading.Event()

    def step() -> None:
        begun.set()
        assert pushed.wait(PATIENCE_S), "a push waits for the read"

    def push() -> None:
        assert begun.wait(PATIENCE_S)
        engine.push("t", {"ts": count * 100, "k": 1, "v": 1})
        engine.flush([])
        pushed.set()

    writer = started(push)
    engine.reads.isolation.between_steps = step
    answer = engine.execute("SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t [RANGE 400 SECONDS] GROUP BY k")
    joined(writer)
    come_to = watermark_us(answer)
    assert come_to == (count if level == "latest" else count - 1) * 100
    inside = numbers[(numbers * 100 >= come_to - 400 * SECOND) & (numbers * 100 < come_to)]
    totals, sizes = np.bincount(inside % 10, weights=inside % 7), np.bincount(inside % 10)
    expected = {(k, int(sizes[k]), int(totals[k])) for k in range(10)}
    assert set(tuples(answer)) == expected
