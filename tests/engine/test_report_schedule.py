"""Schedules of reports: while a stream is behind they decide when a report is computed, never what it says."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import panewise as pw
from panewise.engine.consumers.postponed_reports import TRAILED_SLIDES_MAX
from panewise.engine.consumers.report_schedule import AT_ONCE, DEFAULT, SCHEDULES
from panewise.engine.ingest.stream import Stream
from panewise.engine.reads.published_answers import watermark_us
from tests.engine.small_engine import SECOND
from tests.engine.test_turns import joined, started
from tests.waiting import until

SCHEDULED = [name for name in SCHEDULES if name != AT_ONCE]
STREAM = "CREATE STREAM {} (ts TIMESTAMP, k BIGINT, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS){}"
QUERIES = (
    "SELECT SUM(v) AS a FROM {s} {w}",
    "SELECT k, COUNT(*) AS a, MAX(v) AS b FROM {s} {w} GROUP BY k",
    "SELECT k, SUM(v) AS a FROM {s} {w} WHERE v > 3 GROUP BY k HAVING SUM(v) > 9",
    "SELECT ISTREAM k, MIN(v) AS a FROM {s} {w} GROUP BY k",
    "SELECT MEDIAN(v) AS a FROM {s} {w} WHERE k < 2",
    "SELECT SUM(v) AS a FROM {s} [RANGE {r} SECONDS]",
    "SELECT COUNT(*) AS a FROM {s} [ROWS 7 SLIDE {d}]",
    "SELECT x.k, y.v AS a FROM {s} {w} AS x JOIN {o} {w} AS y ON x.k = y.k",
    "SELECT MAX(p.a) AS a FROM (SELECT k, SUM(v) AS a FROM {s} {w} GROUP BY k) [RANGE 12 SECONDS SLIDE 6 SECONDS] AS p",
)


class Behind:
    """An engine that may be told to be behind, with a clock that a test moves."""

    def __init__(self, schedule: str, engine: pw.Engine | None = None) -> None:
        self.engine = pw.Engine(schedule=schedule) if engine is None else engine
        self.now, self.budget, self.stays = 0.0, 0.0, True
        self.hold()

    def hold(self) -> None:
        self.engine.schedule.begins_behind = lambda stream: True
        self.engine.schedule.stays_behind = lambda stream: self.stays
        self.engine.schedule.budget = lambda seconds: self.budget

    def declare(self, name: str, options: str = "") -> None:
        self.engine.execute(STREAM.format(name, options))
        self.engine.streams[name].monitor.clock = self.clock

    def clock(self) -> float:
        self.now += 0.001
        return self.now


def play(schedule: str, seed: int) -> tuple[list[Any], int]:
    """What a random script sees, and how often reports were postponed. What it does depends on the seed alone."""
    script, whims = random.Random(seed), random.Random(seed + 1)
    held = Behind(schedule)
    for name in ("s", "o"):
        held.declare(name, " WITH (late = 'keep')")
    engine = held.engine
    seen: list[Any] = []
    names: list[str] = []
    postponed = count = 0
    newest = {"s": 0, "o": 0}

    def create() -> None:
        nonlocal count
        source, other = script.sample(["s", "o"], 2)
        slide = script.choice([1, 1, 2, 3, 5])
        length = slide * script.choice([1, 2, 4])
        window = f"[RANGE {length} SECONDS SLIDE {slide} SECONDS]"
        text = script.choice(QUERIES).format(s=source, o=other, w=window, r=length, d=slide)
        count += 1
        engine.execute(f"CREATE QUERY q{count} AS {text}")
        names.append(f"q{count}")

    def look(name: str, at: int | None) -> Any:
        try:
            table = engine.lookup(name, at)
        except pw.errors.NotHeldError as problem:
            return str(problem)
        return sorted(map(str, table.to_pylist())), watermark_us(table)

    for _ in range(8):
        create()
    for _ in range(70):
        act = script.random()
        stream = script.choice(["s", "o"])
        if act < 0.5:
            newest[stream] += script.choice([0, 1, 2, 4, 9]) * SECOND
            times = [newest[stream] - script.randrange(4 * SECOND) for _ in range(script.choice([1, 5, 40]))]
            engine.push(stream, [{"ts": t, "k": script.randrange(4), "v": script.randrange(9)} for t in times])
        elif act < 0.86:
            held.budget, held.stays = whims.choice([0.0, 0.0, 0.004]), whims.random() < 0.95
            engine.process(engine.streams[stream])
            postponed += sum(tree.postponed_reports for tree in engine.hosting.families)
        elif act < 0.89:
            name, at = script.choice(names), script.choice([None, newest[stream] - 5 * SECOND])
            seen.append((name, look(name, at)))
        elif act < 0.91:
            name = script.choice(names)
            seen.append((name, engine.results(name).to_pylist()))
        elif act < 0.94:
            create()
        elif act < 0.96 and len(names) > 1:
            name = names.pop(script.randrange(len(names)))
            seen.append((name, engine.results(name).to_pylist()))
            engine.execute(f"DROP QUERY {name}")
        elif act < 0.97:
            newest[stream] += SECOND
            engine.advance(stream, newest[stream])
        elif act < 0.985:
            name = script.choice(names)
            engine.execute(f"{script.choice(['SUSPEND', 'RESUME'])} QUERY {name}")
        else:
            engine = pw.Engine.restore(engine.snapshot(), pw.Engine(schedule=schedule))
            held.engine = engine
            held.hold()
    seen.extend((stream, engine.late_rows(stream).to_pylist()) for stream in newest)
    engine.flush()
    seen.extend((name, engine.results(name).to_pylist()) for name in names)
    seen.append({name: stats["results"] for name, stats in engine.stats()["queries"].items()})
    return seen, postponed


@pytest.mark.parametrize("schedule", SCHEDULED)
def test_every_schedule_says_the_same(schedule: str, soak: bool) -> None:
    """Every report once, in the same order and with the same content, whatever comes and goes in between."""
    waited = 0

    @settings(max_examples=6 if soak else 3, deadline=None)
    @given(st.integers(0, 1 << 32))
    def same(seed: int) -> None:
        nonlocal waited
        expected, never = play(AT_ONCE, seed)
        found, postponed = play(schedule, seed)
        assert found == expected
        assert never == 0
        waited += postponed

    same()
    assert waited > 0


# -- the order ---------------------------------------------------------------------------------------------------------

LONG = "CREATE QUERY long AS SELECT SUM(v) AS a FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE k >= 0"
SHORT = "CREATE QUERY short AS SELECT SUM(v) AS a FROM s [RANGE 2 SECONDS SLIDE 1 SECOND]"
SECOND_LONG = "CREATE QUERY other AS SELECT SUM(v) AS a FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS] WHERE k >= 1"


def behind(schedule: str, *queries: str) -> Behind:
    """An engine that has come to 2 s and is behind from now on."""
    held = Behind(schedule)
    held.declare("s")
    for query in queries:
        held.engine.execute(query)
    push(held.engine, 0, 4)
    held.engine.stats()
    return held


def push(engine: pw.Engine, *seconds: float) -> None:
    """Rows wait, as those of a queue do: the engine does not look at them yet."""
    engine.streams["s"].push([{"ts": int(second * SECOND), "k": 1, "v": 1} for second in seconds])


def turn(held: Behind, *seconds: float) -> set[str]:
    """Rows are folded; the queries whose reports wait after that."""
    push(held.engine, *seconds)
    held.engine.process(held.engine.streams["s"])
    return {name for tree in held.engine.hosting.families if tree.postponed_reports for name in tree.queries}


def test_the_shorter_slide_comes_first_by_earliest_deadline() -> None:
    held = behind("earliest-deadline", LONG, SHORT)
    # 3 and 4 of the short one are due, and 4 of the long one, which has time until 8.
    assert turn(held, 6) == {"long"}
    assert turn(held, 8.5) == {"long"}
    assert turn(held, 9.5) == {"long"}  # 7 has to be out before 8, and so has 4
    # Both reports of the long one are due by now, and the first is late.
    assert turn(held, 11) == {"short"}
    held.budget = 100.0
    assert turn(held, 12) == set()


@pytest.mark.parametrize(
    ("schedule", "waiting"),
    [
        ("earliest-deadline", [{"long", "other"}, {"long", "other"}, {"other", "short"}]),
        ("conservative", [{"long", "other"}, {"long", "other"}, {"short"}]),
        ("late", [{"long", "other"}, {"long", "other"}, set()]),
        ("late-pending", [{"long", "other"}, set(), {"long", "other"}]),
    ],
)
def test_what_runs_together(schedule: str, waiting: list[set[str]]) -> None:
    held = behind(schedule, LONG, SECOND_LONG, SHORT)
    # Deadlines that lie ahead or back: of the short one by 0, 1.5 and 0 s, of the long ones by 4 and 0.5 s; then late.
    assert [turn(held, second) for second in (6, 9.5, 11)] == waiting


def test_late_pending_takes_along_what_is_due_next() -> None:
    """A report that will be late with the next update; late sharing leaves it, as it is not late yet."""
    middle = "CREATE QUERY middle AS SELECT SUM(v) AS a FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] WHERE k >= 2"
    left = {}
    for schedule in ("late", "late-pending"):
        held = behind(schedule, SHORT, middle)
        left[schedule] = turn(held, 7)  # the watermark is 5: 3 of the short one is late, 4 of the other has until 6
    assert left == {"late": {"middle"}, "late-pending": set()}


def test_the_budget_is_kept() -> None:
    held = behind("earliest-deadline", LONG, SECOND_LONG, SHORT)
    assert turn(held, 6) == {"long", "other"}
    for tree in held.engine.hosting.families:
        tree.postponed.answer_seconds = 1.0
    held.budget = 0.5  # one more would take longer
    assert turn(held, 7) == {"long", "other"}
    held.budget = 1.5
    assert turn(held, 8) == set()


def test_in_overload_short_slides_are_less_late_than_in_the_order_of_creation() -> None:
    """With a queue, its thread and a pusher that is slowed; the same rows, and a family answered in a turn."""
    late = {by: lateness_in_overload(by) for by in ("deadline", "creation")}
    assert late["deadline"] < 0.7 * late["creation"]


def push_seconds(engine: pw.Engine, first: int, end: int) -> None:
    for number in range(first, end):
        times = number * SECOND + np.arange(250) * 4000
        ts = pa.array(times).cast(pa.timestamp("us", tz="UTC"))
        engine.push("s", pa.record_batch({"ts": ts, "k": np.arange(250) % 20, "v": np.arange(250)}))


def lateness_in_overload(by: str) -> float:
    """How late a report of the short slide is on average, in turns of the queue's thread."""
    waits: list[int] = []

    class Counted(pw.Engine):
        """Turns are short, so that there are many of them."""

        def process(self, stream: Stream) -> bool:
            with self.turns:
                self._answers.change()
                stream.flush(500, self.schedule)
                waits.append(self.hosting.consumers["short"].postponed_reports)
                return stream.waiting_rows > 0

    engine = Counted(schedule="earliest-deadline")
    engine.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) WITH (queue = 3000)")
    for number in range(12):
        window = f"[RANGE 40 SECONDS SLIDE {20 + number} SECONDS] WHERE k <> {number}"
        engine.execute(f"CREATE QUERY a{number:02} AS SELECT k, SUM(v) AS a FROM s {window} GROUP BY k")
    engine.execute("CREATE QUERY short AS SELECT COUNT(*) AS a FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS]")
    schedule = engine.schedule
    if by == "creation":
        schedule.choose = lambda waiting: tuple(sorted(waiting, key=lambda task: task.queries[0].name)[:1])
    schedule.budget = lambda seconds: 0.0  # a family a turn
    queue = engine.streams["s"].queue
    assert queue is not None
    for first in range(0, 160, 5):
        until(lambda: queue.rows <= 1500)
        with engine.turns:  # rows wait, however slow the thread is that pushes
            joined(started(lambda: push_seconds(engine, first, first + 5)))  # noqa: B023 - called at once
    assert engine.stats()["queries"]["short"]["results"] == 79
    return float(np.mean(waits))


# -- who waits, and until when -----------------------------------------------------------------------------------------


def test_what_waits_is_there_for_whoever_reads() -> None:
    held = behind("earliest-deadline", LONG, SHORT)
    engine = held.engine
    heard: list[Any] = []
    engine.subscribe("long", lambda batch: heard.extend(batch.column("a").to_pylist()))
    assert turn(held, 6) == {"long"}
    assert heard == []
    with engine.turns:  # as the thread of a queue publishes it, while rows wait
        table = engine._lookups.answer("long").table
    assert table["a"].to_pylist() == [1] and watermark_us(table) == 4 * SECOND
    assert heard == [1]
    assert turn(held, 10.5) == {"long"}
    assert engine.stats()["queries"]["long"]["results"] == 2
    assert heard == [1, 3]


@pytest.mark.parametrize(
    "read",
    [
        lambda engine: engine.results("long"),
        lambda engine: engine.hand_over("long", lambda table, first: None),
        lambda engine: engine.stats(),
        lambda engine: engine.explain(),
        lambda engine: engine.sharing_report(),
        lambda engine: engine.snapshot(),
        lambda engine: engine.late_rows("s"),
        lambda engine: engine.execute("SHOW QUERIES"),
        lambda engine: engine.execute("SUSPEND QUERY short"),
        lambda engine: engine.advance("s", 5 * SECOND),
        lambda engine: engine.subscribe("long", print),
    ],
)
def test_nothing_waits_when_somebody_has_read(read: Callable[[pw.Engine], object]) -> None:
    held = behind("earliest-deadline", LONG, SHORT)
    assert turn(held, 6) == {"long"}
    read(held.engine)
    assert not held.engine.streams["s"].postponed
    assert held.engine.hosting.queries["long"].rows_out == 1


def test_the_last_turn_leaves_nothing() -> None:
    held = behind("earliest-deadline", LONG, SHORT)
    assert turn(held, 6) == {"long"}
    held.stays = False
    assert turn(held, 6.5) == set()
    held.stays = True
    held.engine.schedule.begins_behind = lambda stream: False
    assert turn(held, 10.5) == set()


def test_no_more_than_so_many_reports_wait() -> None:
    held = behind("earliest-deadline", LONG, SHORT)
    held.engine.execute("CREATE QUERY first AS SELECT SUM(v) AS a FROM s [RANGE 1 SECOND SLIDE 1 SECOND] WHERE k < 9")
    most, came = 0, 4
    for _ in range(3 * TRAILED_SLIDES_MAX):
        came += 1
        turn(held, came)
        most = max(most, *(tree.postponed_reports for tree in held.engine.hosting.families))
    assert 0 < most <= TRAILED_SLIDES_MAX + 1


def test_stats_count_what_waits() -> None:
    held = behind("earliest-deadline", LONG, SHORT)
    assert turn(held, 6) == {"long"}
    stats = held.engine.stats()
    assert stats["streams"]["s"]["postponed_reports"] == 1
    assert {tree["queries"][0]: tree["postponed_reports"] for tree in stats["trees"]} == {"long": 1, "short": 0}
    assert held.engine.stats()["streams"]["s"]["postponed_reports"] == 0


def test_lateness_counts_the_time_that_a_report_has_waited() -> None:
    held = behind("earliest-deadline", LONG, SHORT)
    turn(held, 6)
    held.now += 50
    lateness = {name: stats["lateness"] for name, stats in held.engine.stats()["queries"].items()}
    assert lateness["short"] < 1 and 50 <= lateness["long"] < 51


def test_queries_that_others_read_and_code_of_users_do_not_wait() -> None:
    held = behind("earliest-deadline", SHORT)
    engine = held.engine
    engine.register_aggregate(
        "TOTAL", lift=lambda v: (v,), combine=lambda a, b: (a[0] + b[0],), lower=lambda a: a[0], identity=(0.0,)
    )
    engine.execute(LONG)
    engine.execute("CREATE QUERY over AS SELECT MAX(a) AS b FROM long [RANGE 8 SECONDS SLIDE 4 SECONDS]")
    engine.execute("CREATE QUERY own AS SELECT TOTAL(v) AS a FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE k <> 5")
    assert turn(held, 6, 7, 20) == set()


def test_reports_that_overflow_are_the_same_when_they_are_postponed() -> None:
    big = "CREATE QUERY big AS SELECT SUM(v * 4000000000000000000) AS a FROM s [RANGE 4 SECONDS SLIDE 4 SECONDS]"
    counted = {}
    for schedule in (AT_ONCE, "earliest-deadline"):
        held = behind(schedule, big + " WHERE k > -1", LONG, SHORT)
        waiting = turn(held, 5, 5.5, 5.6, 6)
        assert "big" in waiting or schedule == AT_ONCE
        turn(held, 10.5)
        stats = held.engine.stats()["queries"]
        counted[schedule] = {name: (found["overflows"], found["results"]) for name, found in stats.items()}
        assert None in held.engine.results("big")["a"].to_pylist()
    assert counted[AT_ONCE] == counted["earliest-deadline"]
    assert counted[AT_ONCE]["big"][0] == 1


def test_unknown_schedules_are_refused() -> None:
    with pytest.raises(pw.errors.PlanError, match="there is no schedule 'soon'"):
        pw.Engine(schedule="soon")
    with pytest.raises(pw.errors.PlanError, match="would change when queries report") as raised:
        pw.Engine(schedule="hybrid")
    assert "refresh = 'at_most'" in str(raised.value)
    assert pw.Engine().schedule.name == DEFAULT
